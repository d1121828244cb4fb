//! The connections between the kernel and everything else: messages on them are counted, recorded, checked, delayed
//! and lost.

use jobhall_core::JobId;
use jobhall_core::needs::Abilities;
use jobhall_kernel::{
    Answer, Assignment, AttemptRef, Effect, OpenedSession, Rejected, Request, SessionId, Waited,
};
use jobhall_store::{Committed, Unit};

use crate::check::{Seen, Shelf as _};
use crate::plant::Plant;
use crate::script::Action;
use crate::script::words;
use crate::simulation::Sim;
use crate::simulation::event::{Event, Origin, Purpose};
use crate::tally::variant;

impl Sim {
    /// Applies planted bugs to a request before it reaches the kernel.
    pub fn on_the_way(&mut self, ticket: u64, request: Request) -> Option<Request> {
        match (self.plant, request) {
            (Some(Plant::CancelSwallowed), Request::Cancel { id, failure }) if self.wire.percent(50) => {
                self.trace.note(self.ms, &[id], || format!("the cancel is dropped: {failure:?}"));
                self.answer(ticket, Ok(Answer::State(jobhall_core::StateName::Cancelled)));
                None
            }
            (Some(Plant::PriorityIgnored), Request::Submit { mut submit }) => {
                submit.jobs.iter_mut().for_each(|job| job.priority = 300 - job.priority);
                Some(Request::Submit { submit })
            }
            (
                Some(Plant::WorkersLarger),
                Request::OpenSession { worker, abilities, accepts, attempts, lease_ms, fresh },
            ) => {
                let text = abilities.to_string().replace("gpu=", "gpu=1").replace("mem_gb=", "mem_gb=1");
                let abilities = Abilities::parse(&text).unwrap_or(abilities);
                Some(Request::OpenSession { worker, abilities, accepts, attempts, lease_ms, fresh })
            }
            (
                Some(Plant::LeaseIgnored),
                Request::OpenSession { worker, abilities, accepts, attempts, fresh, .. },
            ) => Some(Request::OpenSession { worker, abilities, accepts, attempts, lease_ms: None, fresh }),
            (
                Some(Plant::FreshIgnored),
                Request::OpenSession { worker, abilities, accepts, attempts, lease_ms, .. },
            ) => Some(Request::OpenSession { worker, abilities, accepts, attempts, lease_ms, fresh: false }),
            (Some(Plant::WaitWidened), Request::Wait { of, wait_ms, .. }) => {
                Some(Request::Wait { of, jobs: None, wait_ms })
            }
            (Some(Plant::WaitNarrowed), Request::Wait { of, jobs, wait_ms }) => {
                let jobs = jobs.map(|jobs| jobs.into_iter().take(1).collect());
                Some(Request::Wait { of, jobs, wait_ms })
            }
            (Some(Plant::CreditRaised), Request::Credit { session, total })
                if self.checker.lends_slots(session) =>
            {
                Some(Request::Credit { session, total: total + 2 })
            }
            (Some(Plant::OutcomeForged), Request::Complete { id, attempt, .. }) => Some(Request::Complete {
                id,
                attempt,
                report: crate::workers::manner::completed_external(id, 99),
            }),
            (
                Some(Plant::ForgedReport),
                Request::Report { of: AttemptRef { worker, attempt, lease }, report, .. },
            ) => Some(self.forge(Request::Report {
                of: AttemptRef { worker, attempt, lease },
                report,
                records: Vec::new(),
            })),
            (_, request) => Some(request),
        }
    }

    /// Sends a stale report as the current holder's.
    fn forge(&self, request: Request) -> Request {
        let Request::Report { of: AttemptRef { attempt, lease, worker }, report, .. } = request else {
            return request;
        };
        let row = self.vault.row(attempt.job);
        let held =
            row.as_ref().and_then(|row| row.status.state.leased().map(|held| (row.status.claim, held)));
        match held {
            Some((claim, held)) if held.lease.id != lease => Request::Report {
                of: AttemptRef {
                    attempt: jobhall_core::AttemptId { claim, ..attempt },
                    lease: held.lease.id,
                    worker: held.lease.worker.clone(),
                },
                report,
                records: Vec::new(),
            },
            _ => Request::Report { of: AttemptRef { worker, attempt, lease }, report, records: Vec::new() },
        }
    }

    /// Executes an effect of the kernel.
    pub fn effect(&mut self, effect: Effect) {
        self.history.effect(self.ms, &effect);
        self.tally.add("effects", variant(&effect));
        match effect {
            Effect::Answer(answer) => {
                let (ticket, answer) = answer.untyped();
                self.answer_through(ticket, answer);
            }
            Effect::Assign(session, assignment) => self.assign_through(session, assignment),
            Effect::SessionEnded(session) => {
                self.checker.session_ended(session);
                self.note_to_worker(session, &[], "its session has ended");
                self.deliver(session, Effect::SessionEnded(session));
            }
            Effect::Resumed(_, attempt, _) if self.plant == Some(Plant::NeverResumed) => {
                self.checker.goes_on(attempt.job);
                self.trace.note(self.ms, &[attempt.job], || {
                    format!("the notification that {attempt} continues is lost")
                });
            }
            Effect::Resumed(session, attempt, ref jobs) => {
                self.checker.resumed(attempt, jobs);
                self.checker.goes_on(attempt.job);
                self.note_to_worker(session, &[attempt.job], &format!("Resumed {attempt}"));
                self.deliver(session, effect);
            }
            Effect::Cancel(session, attempt)
            | Effect::TimeOut(session, attempt)
            | Effect::Revoke(session, attempt) => {
                self.note_to_worker(session, &[attempt.job], &format!("{} {attempt}", variant(&effect)));
                self.deliver(session, effect);
            }
            Effect::VacancyEnded(session, _, why) => {
                self.tally.add("vacancies ended", variant(&why));
                self.deliver(session, effect);
            }
            Effect::Live(id, state) => {
                self.trace.stir(&[self.ms, 11, id.get(), state as u64]);
                self.trace.note(self.ms, &[id], || format!("job {id} is {state}, in memory"));
            }
            Effect::Progress(id) => self.trace.stir(&[self.ms, 12, id.get()]),
            Effect::GroupEnded(id, state) => {
                self.trace.stir(&[self.ms, 13, id.get(), state as u64]);
                self.trace.note(self.ms, &[], || format!("group {id} is {state}"));
            }
            Effect::Stop(why) => self.trace.note(self.ms, &[], || format!("the kernel stops: {why}")),
        }
    }

    fn answer_through(&mut self, ticket: u64, answer: Result<Answer, Rejected>) {
        let answer = match answer {
            Ok(Answer::Waited(Waited { jobs, over })) => {
                Ok(Answer::Waited(Waited { jobs, over: over && self.plant != Some(Plant::NeverResumed) }))
            }
            answer => answer,
        };
        match self.plant {
            // The checkers take a worker's credit from its answer.
            Some(Plant::NeverAnswered)
                if self.wire.percent(2)
                    && !matches!(self.origins.get(&ticket), Some(Origin::Worker(_, _, Purpose::Credit))) => {}
            Some(Plant::AnsweredTwice) if self.wire.percent(5) => {
                self.answer(ticket, answer.clone());
                self.answer(ticket, answer);
            }
            _ => self.answer(ticket, answer),
        }
    }

    fn answer(&mut self, ticket: u64, answer: Result<Answer, Rejected>) {
        self.count_answer(&answer);
        self.trace.stir(&[self.ms, 10, ticket, u64::from(answer.is_ok())]);
        let Some(request) = self.checker.answers(&self.vault, ticket, &answer) else { return };
        self.note_answer(ticket, &request, &answer);
        self.open_in_checker(ticket, &answer);
        let lost = self.faults.lose_answers > 0 && !matches!(self.origins.get(&ticket), Some(Origin::Nobody));
        if lost {
            self.faults.lose_answers -= 1;
            self.tally.add("faults", "answer lost");
            return self.trace.note(self.ms, &[], || format!("the answer to request {} is lost", ticket));
        }
        let wire = self.origins.get(&ticket).map_or(0, Origin::wire);
        let at = self.ms + self.delay(wire, 1);
        self.queue.at(at, Event::Answered(self.epoch, ticket, Box::new(answer)));
    }

    fn count_answer(&mut self, answer: &Result<Answer, Rejected>) {
        match answer {
            Ok(Answer::Submitted(all)) => {
                for submitted in all {
                    self.tally.add("dispositions", variant(&submitted.disposition));
                }
                self.tally.add("answers", "Submitted");
            }
            Ok(answer) => self.tally.add("answers", variant(answer)),
            Err(Rejected::Event(refusal)) => {
                self.tally.add("refusals", format!("Event {}", variant(refusal)));
            }
            Err(refused) => self.tally.add("refusals", variant(refused)),
        }
        if let Ok(Answer::Session(OpenedSession { kept, lost, .. })) = answer {
            kept.iter().for_each(|_| self.tally.add("attempts brought along", "kept"));
            lost.iter().for_each(|_| self.tally.add("attempts brought along", "lost"));
        }
    }

    /// Opens a session in the checkers when the kernel has opened it.
    fn open_in_checker(&mut self, ticket: u64, answer: &Result<Answer, Rejected>) {
        let Ok(Answer::Session(OpenedSession { session, kept, .. })) = answer else { return };
        let Some(&Origin::Worker(at, _, purpose)) = self.origins.get(&ticket) else { return };
        let Purpose::Open { skill, accepts, lease_ms, fresh } = purpose else { return };
        let lease_ms = lease_ms.unwrap_or(self.script.config.lease_ms);
        let seen = Seen::new(self.workers[at].name.clone(), (skill, accepts), lease_ms, self.ms);
        if fresh {
            self.tally.add("workers", "began anew");
            self.checker.began_anew(&seen.worker);
        }
        self.checker.session_opened(*session, seen, kept);
    }

    /// An answer arrives at its caller.
    pub fn answered(&mut self, ticket: u64, answer: Result<Answer, Rejected>) {
        match self.origins.remove(&ticket) {
            Some(Origin::Client(call)) => self.client_answered(call, ticket, &answer),
            Some(Origin::Worker(at, link, purpose)) => self.worker_answered(at, link, purpose, answer),
            Some(Origin::Nobody) | None => {}
        }
    }

    fn assign_through(&mut self, session: SessionId, mut assignment: Assignment) {
        let lease = self.last_lease.replace(assignment.lease);
        match self.plant {
            Some(Plant::LeasesSwapped) if self.wire.percent(10) => {
                assignment.lease = lease.unwrap_or(assignment.lease);
                self.assign(session, assignment);
            }
            Some(Plant::AssignedTwice) if self.wire.percent(10) => {
                let other = self.other_session(session, None);
                self.assign(session, assignment.clone());
                if let Some(other) = other {
                    self.assign(other, assignment);
                }
            }
            Some(Plant::WrongWorker) => {
                let other = self.other_session(session, Some(&assignment));
                self.assign(other.unwrap_or(session), assignment);
            }
            _ => self.assign(session, assignment),
        }
    }

    /// Another session; if an assignment is given, one that does not match it.
    fn other_session(&self, session: SessionId, unsuited: Option<&Assignment>) -> Option<SessionId> {
        let mut all = self.checker.sessions.iter().filter(|(id, seen)| {
            let unfit = |a: &Assignment| !words::suits(&seen.worker, seen.skill, seen.accepts, &a.spec);
            **id != session && seen.connected && !seen.ended && unsuited.is_none_or(unfit)
        });
        all.next().map(|(&id, _)| id)
    }

    fn assign(&mut self, session: SessionId, assignment: Assignment) {
        let attempt = assignment.attempt;
        self.trace.stir(&[self.ms, 12, attempt.job.get(), u64::from(attempt.claim)]);
        self.note_to_worker(session, &[attempt.job], &format!("{attempt} is assigned"));
        self.checker.assigned_to(session, &assignment);
        self.deliver(session, Effect::Assign(session, assignment));
    }

    fn deliver(&mut self, session: SessionId, effect: Effect) {
        let worker = self.checker.sessions.get(&session).map(|seen| seen.worker.clone());
        let wire = self.workers.iter().position(|w| Some(&w.name) == worker.as_ref()).unwrap_or(0);
        let at = self.ms + self.delay(wire as u64, 2);
        self.queue.at(at, Event::Tell(self.epoch, session, Box::new(effect)));
    }

    fn note_to_worker(&mut self, session: SessionId, jobs: &[JobId], text: &str) {
        let worker = self.checker.sessions.get(&session).map(|seen| seen.worker.as_str().to_owned());
        self.trace
            .note(self.ms, jobs, || format!("to {} ({}): {text}", worker.unwrap_or_default(), session.0));
    }

    pub fn note_action(&mut self, action: &Action) {
        self.tally.add("actions", variant(action));
        self.trace.stir(&[self.ms, 1]);
        if action.is_fault() {
            self.trace.note(self.ms, &[], || format!("{action:?}"));
        }
    }

    pub fn note_request(&mut self, ticket: u64, request: &Request) {
        self.trace.stir(&[self.ms, 2, ticket]);
        let jobs = about(request);
        if jobs.is_empty() {
            return;
        }
        self.trace.note(self.ms, &jobs, || format!("request {}: {request:?}", ticket));
    }

    fn note_answer(&mut self, ticket: u64, request: &Request, answer: &Result<Answer, Rejected>) {
        let mut jobs = about(request);
        if let Ok(Answer::Submitted(all)) = answer {
            jobs.extend(all.iter().map(|submitted| submitted.id));
        }
        if !jobs.is_empty() {
            let submit = if matches!(request, Request::Submit { .. }) {
                format!(" to {request:?}")
            } else {
                String::new()
            };
            self.trace.note(self.ms, &jobs, || format!("answer {}{submit}: {answer:?}", ticket));
        }
    }

    pub fn note_units(&mut self, what: &str, units: &[Unit]) {
        for unit in units {
            for change in &unit.changes {
                self.trace.stir(&[self.ms, 3, change.id.get(), u64::from(change.status.rev)]);
                let (id, status) = (change.id, &change.status);
                self.trace.note(self.ms, &[id], || {
                    let lives = (status.rev, status.claim, status.attempt, status.lost, status.unaccepted);
                    format!(
                        "{what}: job {id} (rev, claim, attempt, lost, unaccepted) {lives:?} {:?}",
                        status.state
                    )
                });
            }
            for write in &unit.settings {
                self.trace.note(self.ms, &[], || format!("{what}: setting {write:?}"));
            }
            for insert in &unit.inserts {
                let job = &insert.job;
                self.trace.stir(&[self.ms, 4, job.id.get()]);
                self.trace.note(self.ms, &[job.id], || {
                    format!("{what}: new job {} {:?}", job.id, job.status.state)
                });
            }
        }
    }

    pub fn note_commit(&mut self, units: &[Unit], committed: &Committed) {
        self.tally.add("commits", "applied");
        self.trace.stir(&[self.ms, 5, committed.feed.unwrap_or(0)]);
        for (unit, result) in units.iter().zip(&committed.results) {
            self.tally.add("units", if result.is_ok() { "done" } else { "refused" });
            unit.inserts.iter().for_each(|_| self.tally.add("jobs", "inserts sent"));
            let changed = unit.changes.iter().map(|change| change.id);
            let ids: Vec<_> = changed.chain(unit.inserts.iter().map(|insert| insert.job.id)).collect();
            match result {
                Ok(_) if ids.is_empty() => {}
                Ok(_) => self.trace.note(self.ms, &ids, || format!("stored: {ids:?}")),
                Err(conflicts) => {
                    for conflict in conflicts {
                        self.tally.add("conflicts", variant(conflict));
                    }
                    self.trace.note(self.ms, &ids, || format!("not stored: {ids:?}: {conflicts:?}"));
                }
            }
        }
    }
}

/// The jobs that a request concerns.
fn about(request: &Request) -> Vec<JobId> {
    match request {
        Request::Cancel { id, .. }
        | Request::Retry { id, .. }
        | Request::Show { id }
        | Request::Explain { id } => {
            vec![*id]
        }
        Request::Accept { of: AttemptRef { attempt, .. }, .. }
        | Request::Progress { of: AttemptRef { attempt, .. }, .. }
        | Request::Report { of: AttemptRef { attempt, .. }, .. } => vec![attempt.job],
        Request::OpenSession { attempts, .. } => attempts.iter().map(|(attempt, _)| attempt.job).collect(),
        _ => Vec::new(),
    }
}
