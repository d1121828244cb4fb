//! A hall for tests: a kernel on the reference store under a clock that the test sets. Commits are applied at once,
//! unless the test holds them back.
use std::collections::BTreeMap;

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{
    AttemptId, Failure, Indicator, Job, JobId, Json, Key, LeaseId, NewJob, PastAttempt, Report, RetryPolicy,
    StateName, Submitted, Time, TypeConfig, TypeName, WorkerName,
};
use jobhall_kernel::{
    Answer, Assignment, AttemptRef, Config, Effect, Explanation, Kernel, Mono, Now, OpenedSession, Rejected,
    Request, SessionId, Shown, StoreReply, StoreRequest, Submit, VacancyId, abridge,
};
use jobhall_store::{CommitError, Memory, StoreError, Unit};

pub struct Hall {
    pub kernel: Kernel,
    pub store: Memory,
    pub now: Now,
    pub effects: Vec<Effect>,
    pub answers: BTreeMap<u64, Result<Answer, Rejected>>,
    /// While set, commits wait in `held`.
    pub hold: bool,
    pub held: Vec<(u64, Vec<Unit>)>,
    /// While set, everything else that the kernel asks of the store waits in `held_asks`.
    pub hold_asks: bool,
    pub held_asks: Vec<StoreRequest>,
    /// The sessions that were opened.
    pub sessions: Vec<SessionId>,
    /// The next commits fail with this.
    pub fail: Option<CommitError>,
    /// This many of the next reads of a job fail.
    pub failing_reads: usize,
    tickets: u64,
}

pub fn start_time() -> Now {
    Now { wall: Time::from_ms(1_700_000_000_000).unwrap(), mono: Mono(1_000) }
}

pub fn chance() -> Box<dyn FnMut() -> u64 + Send> {
    let mut state = 1u64;
    Box::new(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 33)
    })
}

impl Hall {
    pub fn new() -> Hall {
        Hall::with(Config::default())
    }

    pub fn with(config: Config) -> Hall {
        let now = start_time();
        let mut hall = Hall {
            kernel: Kernel::new(config, now, chance()),
            store: Memory::new(),
            now,
            effects: Vec::new(),
            answers: BTreeMap::new(),
            hold: false,
            held: Vec::new(),
            hold_asks: false,
            held_asks: Vec::new(),
            fail: None,
            failing_reads: 0,
            sessions: Vec::new(),
            tickets: 0,
        };
        hall.kernel.begin();
        hall.pump();
        hall
    }

    /// A crash and a new start on the same store.
    pub fn restart(mut self, config: Config) -> Hall {
        self.kernel = Kernel::new(config, self.now, chance());
        self.held.clear();
        self.held_asks.clear();
        self.effects.clear();
        self.kernel.restore_settings(self.store.settings_now()).unwrap();
        self.kernel.restore_blocks(&self.store.blocks_now());
        for group in self.store.groups_now(true) {
            let (_, members) = self.store.group_now(group.id).unwrap();
            self.kernel.restore_group(group, &members);
        }
        for job in self.store.open_jobs_now(None, usize::MAX) {
            self.kernel.restore(job);
        }
        self.kernel.restore_links(self.store.links_now(None, usize::MAX));
        self.kernel.begin();
        self.pump();
        self
    }

    /// Carries out what the kernel wants until it wants nothing more.
    pub fn pump(&mut self) {
        loop {
            let before = self.effects.len();
            for effect in self.kernel.take_effects() {
                match effect {
                    Effect::Answer(answer) => {
                        let (ticket, answer) = answer.untyped();
                        self.answers.insert(ticket, answer);
                    }
                    other => self.effects.push(other),
                }
            }
            let asked = self.kernel.take_store_requests();
            let commit = self.kernel.take_commit();
            if asked.is_empty() && commit.is_none() && self.effects.len() == before {
                return;
            }
            for asked in asked {
                if self.hold_asks {
                    self.held_asks.push(asked);
                    continue;
                }
                let told = self.serve(asked);
                self.kernel.store_replied(self.now, told);
            }
            if let Some((number, units)) = commit {
                if self.hold {
                    self.held.push((number, units));
                } else {
                    self.commit(number, units);
                }
            }
        }
    }

    fn commit(&mut self, number: u64, units: Vec<Unit>) {
        let result = match self.fail.take() {
            Some(error) => Err(error),
            None => Ok(self.store.commit_now(units)),
        };
        self.kernel.store_replied(self.now, StoreReply::Committed(number, result));
    }

    /// Lets the held commits through.
    pub fn let_through(&mut self) {
        self.hold = false;
        for (number, units) in std::mem::take(&mut self.held) {
            self.commit(number, units);
        }
        self.pump();
    }

    /// Serves the held asks of the store, the last one first.
    pub fn let_asks_through(&mut self) {
        self.hold_asks = false;
        while let Some(asked) = self.held_asks.pop() {
            let told = self.serve(asked);
            self.kernel.store_replied(self.now, told);
        }
        self.pump();
    }

    pub fn serve(&mut self, asked: StoreRequest) -> StoreReply {
        match asked {
            StoreRequest::TakeBlock(size) => StoreReply::Block(Ok(self.store.take_block_now(size))),
            StoreRequest::SettleBlocks(changes) => {
                self.store.settle_blocks_now(changes.clone());
                StoreReply::Settled(changes, Ok(()))
            }
            StoreRequest::Prune(prune) => {
                let pruned = self.store.prune_now(&prune);
                StoreReply::Pruned(prune.jobs, Ok(pruned))
            }
            StoreRequest::Remove(ticket, jobs) => {
                let prune = jobhall_store::Prune { jobs: jobs.clone(), ..Default::default() };
                StoreReply::Removed(ticket, jobs, Ok(self.store.prune_now(&prune)))
            }
            StoreRequest::Job(id) if self.failing_reads > 0 => {
                self.failing_reads -= 1;
                StoreReply::Job(id, Err(StoreError::new("no")))
            }
            StoreRequest::Job(id) => {
                let job = self.store.jobs_now(&[id]).remove(0);
                let mut past = self.store.attempts_now(id);
                job.iter().for_each(|job| abridge(job, &mut past));
                StoreReply::Job(id, Ok((job, past)))
            }
            StoreRequest::Completed(after, limit) => {
                StoreReply::Completed(Ok(self.store.completed_now(after, limit)))
            }
            StoreRequest::Count { round, after, last, except } => {
                StoreReply::Counted(round, Ok(self.store.count_completed_now(after, last, &except)))
            }
            StoreRequest::Jobs(number, ids) => StoreReply::Jobs(number, Ok(self.store.jobs_now(&ids))),
            StoreRequest::Members(number, group) => {
                StoreReply::Members(number, Ok(self.store.group_now(group)))
            }
            StoreRequest::Emptied(before, ended_before, limit) => {
                let all = self.store.groups_now(false).into_iter().rev();
                let page = all.filter(|group| before.is_none_or(|before| group.id < before));
                let page: Vec<_> = page.take(limit).collect();
                let left = |id| self.store.group_now(id).is_some_and(|(_, members)| !members.is_empty());
                let old = page.iter().filter(|group| group.ended_before(ended_before) && !left(group.id));
                let empty = old.map(|group| group.id).collect();
                StoreReply::Emptied(Ok((empty, page.last().map(|group| group.id))))
            }
        }
    }

    /// Lets time pass on both clocks, stopping at every duty on the way.
    pub fn pass(&mut self, ms: u64) {
        let end = Mono(self.now.mono.0 + ms);
        loop {
            let next = self.kernel.next_tick_ms(self.now).unwrap_or(u64::MAX);
            let step = next.min(end.0 - self.now.mono.0);
            self.now = Now { wall: self.now.wall.plus_ms(step), mono: Mono(self.now.mono.0 + step) };
            self.kernel.tick(self.now);
            self.pump();
            if self.now.mono >= end {
                return;
            }
        }
    }

    pub fn ask_later(&mut self, request: Request) -> u64 {
        self.tickets += 1;
        let ticket = self.tickets;
        self.kernel.ask(self.now, request.typed(ticket));
        self.pump();
        ticket
    }

    pub fn ask(&mut self, request: Request) -> Result<Answer, Rejected> {
        let ticket = self.ask_later(request);
        self.answers.remove(&ticket).expect("an answer")
    }

    pub fn submit(&mut self, job: NewJob) -> Result<Submitted, Rejected> {
        self.submit_all(vec![job]).map(|all| all[0])
    }

    pub fn submit_all(&mut self, jobs: Vec<NewJob>) -> Result<Vec<Submitted>, Rejected> {
        match self.ask(Request::Submit { submit: Submit { jobs, ..Submit::default() } })? {
            Answer::Submitted(submitted) => Ok(submitted),
            other => panic!("{other:?}"),
        }
    }

    pub fn worker(&mut self, name: &str, abilities: &str) -> SessionId {
        self.worker_with(name, abilities, "")
    }

    /// A worker that comes back with attempts.
    pub fn worker_bringing(
        &mut self,
        name: &str,
        abilities: &str,
        attempts: Vec<(AttemptId, LeaseId)>,
    ) -> SessionId {
        let request = Request::OpenSession {
            worker: worker(name),
            abilities: Abilities::parse(abilities).unwrap(),
            accepts: Accepts::default(),
            attempts,
            lease_ms: None,
            fresh: false,
        };
        match self.ask(request).unwrap() {
            Answer::Session(OpenedSession { session, .. }) => session,
            other => panic!("{other:?}"),
        }
    }

    pub fn worker_with(&mut self, name: &str, abilities: &str, accepts: &str) -> SessionId {
        let request = Request::OpenSession {
            worker: worker(name),
            abilities: Abilities::parse(abilities).unwrap(),
            accepts: Accepts::parse(accepts).unwrap(),
            attempts: Vec::new(),
            lease_ms: None,
            fresh: false,
        };
        self.open_session(request)
    }

    fn open_session(&mut self, request: Request) -> SessionId {
        match self.ask(request).unwrap() {
            Answer::Session(OpenedSession { session, .. }) => {
                self.sessions.push(session);
                session
            }
            other => panic!("{other:?}"),
        }
    }

    /// A worker comes back with what it has.
    pub fn come_back(&mut self, name: &str, held: &[&Assignment]) -> SessionId {
        let attempts = held.iter().map(|held| (held.attempt, held.lease)).collect();
        let (abilities, accepts) = (Abilities::default(), Accepts::default());
        self.open_session(Request::OpenSession {
            worker: worker(name),
            abilities,
            accepts,
            attempts,
            lease_ms: None,
            fresh: false,
        })
    }

    pub fn vacancy(&mut self, session: SessionId, slots: u32) -> VacancyId {
        match self.ask(Request::Vacancy { session, slots, wait_ms: 30_000 }).unwrap() {
            Answer::Vacancy(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Assignments since the last look.
    pub fn assignments(&mut self) -> Vec<(SessionId, Assignment)> {
        let all = std::mem::take(&mut self.effects);
        let (assigned, others) = all.into_iter().partition(|effect| matches!(effect, Effect::Assign(..)));
        self.effects = others;
        assigned
            .into_iter()
            .map(|effect| match effect {
                Effect::Assign(session, assignment) => (session, assignment),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// A new worker takes one job.
    pub fn take_one(&mut self, name: &str) -> Assignment {
        let session = self.worker(name, "");
        self.vacancy(session, 1);
        let mut assignments = self.assignments();
        assert_eq!(assignments.len(), 1, "one assignment");
        assignments.remove(0).1
    }

    pub fn accept(&mut self, name: &str, assignment: &Assignment) -> Result<Answer, Rejected> {
        let Assignment { attempt, lease, .. } = *assignment;
        self.ask(Request::Accept { of: AttemptRef { worker: worker(name), attempt, lease } })
    }

    pub fn progress(&mut self, name: &str, assignment: &Assignment) -> Result<Answer, Rejected> {
        let Assignment { attempt, lease, .. } = *assignment;
        self.ask(Request::Progress {
            of: AttemptRef { worker: worker(name), attempt, lease },
            indicators: Vec::new(),
        })
    }

    /// The attempt reports this step of its only measure.
    pub fn at_step(&mut self, name: &str, assignment: &Assignment, step: u64) -> Indicator {
        let Assignment { attempt, lease, .. } = *assignment;
        let measure = Indicator { name: String::new(), step, total: Some(6), message: String::new() };
        let indicators = vec![measure.clone()];
        self.ask(Request::Progress { of: AttemptRef { worker: worker(name), attempt, lease }, indicators })
            .unwrap();
        measure
    }

    pub fn report(
        &mut self,
        name: &str,
        assignment: &Assignment,
        report: Report,
    ) -> Result<Answer, Rejected> {
        let Assignment { attempt, lease, .. } = *assignment;
        self.ask(Request::Report {
            of: AttemptRef { worker: worker(name), attempt, lease },
            report,
            records: Vec::new(),
        })
    }

    /// The end of an attempt is stored; whatever follows from it is decided and held back.
    pub fn report_slowly(&mut self, name: &str, assignment: &Assignment, report: Report) {
        let Assignment { attempt, lease, .. } = *assignment;
        self.hold = true;
        self.ask_later(Request::Report {
            of: AttemptRef { worker: worker(name), attempt, lease },
            report,
            records: Vec::new(),
        });
        let (number, units) = self.held.remove(0);
        self.commit(number, units);
        self.pump();
    }

    pub fn credit(&mut self, session: SessionId, total: i64) {
        self.ask(Request::Credit { session, total }).unwrap();
    }

    pub fn started(&mut self, name: &str, assignment: &Assignment) -> Result<Answer, Rejected> {
        let Assignment { attempt, lease, .. } = *assignment;
        self.ask(Request::Started { of: AttemptRef { worker: worker(name), attempt, lease } })
    }

    /// An attempt asks for a job by this name.
    pub fn call(
        &mut self,
        name: &str,
        assignment: &Assignment,
        call: &str,
        job: NewJob,
    ) -> Result<Submitted, Rejected> {
        let Assignment { attempt, lease, .. } = *assignment;
        let (worker, jobs) = (worker(name), vec![(call.to_owned(), job)]);
        match self.ask(Request::Call { of: AttemptRef { worker, attempt, lease }, jobs, by: None })? {
            Answer::Submitted(submitted) => Ok(submitted[0]),
            other => panic!("{other:?}"),
        }
    }

    /// An attempt waits for all that it asked for, at most half a minute.
    pub fn wait(&mut self, name: &str, assignment: &Assignment) -> u64 {
        let Assignment { attempt, lease, .. } = *assignment;
        let (jobs, wait_ms) = (None, 30_000);
        self.ask_later(Request::Wait {
            of: AttemptRef { worker: worker(name), attempt, lease },
            jobs,
            wait_ms,
        })
    }

    /// Configures a type, as a change of its defaults.
    pub fn set_type(&mut self, job_type: &str, change: impl FnOnce(&mut TypeConfig)) {
        let job_type = TypeName::new(job_type).unwrap();
        let mut config = (*self.kernel.type_config(&job_type)).clone();
        change(&mut config);
        self.ask(Request::SetType { job_type, config: Some(config), expected: None }).unwrap();
    }

    /// The same without waiting for the answer.
    pub fn report_later(&mut self, name: &str, assignment: &Assignment, report: Report) -> u64 {
        let Assignment { attempt, lease, .. } = *assignment;
        self.ask_later(Request::Report {
            of: AttemptRef { worker: worker(name), attempt, lease },
            report,
            records: Vec::new(),
        })
    }

    pub fn show(&mut self, id: JobId) -> Shown {
        match self.ask(Request::Show { id }).unwrap() {
            Answer::Shown(shown) => *shown,
            other => panic!("{other:?}"),
        }
    }

    /// The stored ended attempts.
    pub fn past(&self, id: JobId) -> Vec<PastAttempt> {
        self.store.attempts_now(id)
    }

    pub fn explain(&mut self, id: JobId) -> Explanation {
        match self.ask(Request::Explain { id }).unwrap() {
            Answer::Explained(explanation) => *explanation,
            other => panic!("{other:?}"),
        }
    }

    pub fn cancel(&mut self, id: JobId) -> Result<Answer, Rejected> {
        self.ask(Request::Cancel { id, failure: Failure::new("cancelled", "by hand") })
    }

    pub fn state(&mut self, id: JobId) -> StateName {
        let now = self.now.wall;
        self.show(id).job.status.name(now)
    }

    pub fn stored(&self, id: JobId) -> Job {
        self.store.jobs_now(&[id]).remove(0).expect("a stored job")
    }
}

pub fn worker(name: &str) -> WorkerName {
    WorkerName::new(name).unwrap()
}

pub fn job(job_type: &str) -> NewJob {
    NewJob::new(TypeName::new(job_type).unwrap())
}

pub fn keyed(job_type: &str, key: &str) -> NewJob {
    NewJob { key: Some(Key::new(key).unwrap()), ..job(job_type) }
}

pub fn passed() -> Report {
    Report::Succeeded(Json::null())
}

pub fn failed(reason: &str) -> Report {
    Report::Failed(Failure::new(reason, ""), None)
}

pub fn tries(max_attempts: u16) -> Option<RetryPolicy> {
    Some(RetryPolicy { max_attempts, ..RetryPolicy::named() })
}

pub fn other_lease(lease: LeaseId) -> LeaseId {
    LeaseId(lease.0 ^ 1)
}
