//! Workers: they connect, renew, offer vacancies, take jobs and report; they also die, hang, return and send false
//! reports.

mod external;
pub(crate) mod manner;
mod once;
mod sub_jobs;

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{AttemptId, JobId, LeaseId, Report, WorkerName};
use jobhall_kernel::{
    Answer, Assignment, AttemptRef, Effect, OpenedSession, Rejected, Request, SessionId, VacancyId, Waited,
};

use crate::script::Action;
use crate::script::words;
use crate::simulation::Sim;
use crate::simulation::event::{Event, Origin, Purpose};

use manner::{Manner, Task, passed};

/// Interval between two renewals.
const BEAT_MS: u64 = 10_000;
/// How long a worker waits for an answer before it repeats the message.
const PATIENCE_MS: u64 = 6_000;

/// A step of a worker. Some steps belong to its process, others to its connection.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Opens a session.
    Connect,
    /// Checks whether it has a session.
    Waited,
    /// Renews the session.
    Beat,
    Offer,
    Accept(AttemptId),
    Progress(AttemptId),
    /// Submits its nth sub-job.
    Call(AttemptId, u64),
    Wait(AttemptId),
    Report(AttemptId),
    /// Reports that external work has started.
    Started(AttemptId),
    /// Hangs for this time.
    Hang(u64),
    /// Crashes and restarts after this time.
    Die(u64),
}

/// An attempt that a worker has.
#[derive(Clone, Debug)]
struct Run {
    lease: LeaseId,
    report: Report,
    params: String,
    /// Whether it waits for sub-jobs.
    waits: bool,
    /// The sub-jobs that it knows and that were not over when it last resumed.
    sub_jobs: Vec<JobId>,
    /// What it does once it is started, with delays; none after that. Only the work of a job that runs at most once
    /// starts later than its assignment.
    unstarted: Option<Vec<(u64, Step)>>,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub name: WorkerName,
    pub skill: usize,
    pub accepts: usize,
    slots: u32,
    /// Incremented with every process.
    status: u32,
    /// Incremented with every connection.
    link: u32,
    session: Option<SessionId>,
    hangs_until: u64,
    runs: BTreeMap<AttemptId, Run>,
    vacancies: BTreeSet<VacancyId>,
    /// Vacancies whose end was received, perhaps before their answer.
    over: BTreeSet<VacancyId>,
    /// Whether it gives credit instead of offering vacancies.
    by_credit: bool,
    /// Assignments received on this connection.
    heard: u64,
    /// How long its sessions live without a renewal, if it asks for a time.
    lease_ms: Option<u64>,
    /// Whether its process had no session yet.
    fresh: bool,
}

impl Worker {
    pub fn new(at: usize, (skill, accepts, slots): (usize, usize, u32), lease_ms: Option<u64>) -> Worker {
        Worker {
            name: words::worker_name(at),
            skill,
            accepts,
            slots,
            status: 0,
            link: 0,
            session: None,
            hangs_until: 0,
            runs: BTreeMap::new(),
            vacancies: BTreeSet::new(),
            over: BTreeSet::new(),
            by_credit: at % 2 == 1,
            heard: 0,
            lease_ms,
            fresh: true,
        }
    }

    /// The interval between two renewals.
    fn beat_ms(&self) -> u64 {
        self.lease_ms.map_or(BEAT_MS, |lease_ms| lease_ms / 3)
    }

    /// The number of free slots; negative if it has more attempts than slots because some of them wait for sub-jobs.
    fn room(&self, calm: bool) -> i64 {
        let room = i64::from(self.slots) - self.runs.len() as i64;
        if calm { room.max(1) } else { room }
    }

    fn word(&self, attempt: AttemptId) -> Option<(WorkerName, LeaseId)> {
        self.runs.get(&attempt).map(|run| (self.name.clone(), run.lease))
    }
}

impl Sim {
    fn worker_later(&mut self, at: usize, number: u32, in_ms: u64, step: Step) {
        self.queue.at(self.ms + in_ms, Event::Worker(at, number, Box::new(step)));
    }

    fn ask_as(&mut self, at: usize, request: Request, purpose: Purpose) {
        let link = self.workers[at].link;
        self.send(request, Origin::Worker(at, link, purpose));
    }

    /// The connection is lost; the worker will reconnect.
    fn unlink(&mut self, at: usize, in_ms: u64) -> Option<SessionId> {
        let worker = &mut self.workers[at];
        worker.link += 1;
        worker.vacancies.clear();
        worker.over.clear();
        worker.heard = 0;
        let (link, session) = (worker.link, worker.session.take());
        self.worker_later(at, link, in_ms, Step::Connect);
        session
    }

    pub fn workers_hear_of_start(&mut self) {
        for at in 0..self.workers.len() {
            let in_ms = self.roll(&[20, u64::from(self.epoch), at as u64]).below(3_000);
            self.unlink(at, in_ms);
        }
    }

    pub fn workers_become_able(&mut self) {
        for at in 0..self.workers.len() {
            let worker = &mut self.workers[at];
            (worker.skill, worker.accepts, worker.slots) = (words::ABLE, 0, 4);
            worker.hangs_until = 0;
            let (status, runs): (u32, Vec<_>) = (worker.status, worker.runs.keys().copied().collect());
            for attempt in runs {
                let Some(run) = self.workers[at].runs.get_mut(&attempt) else { continue };
                run.report = passed(attempt);
                // A waiting attempt continues when it is notified, and one that is not started when its accept is
                // answered.
                if !run.waits && run.unstarted.is_none() {
                    self.worker_later(at, status, 3_000, Step::Report(attempt));
                }
            }
            self.unlink(at, 10);
        }
    }

    /// Executes a fault of a worker.
    pub fn trouble_worker(&mut self, action: &Action) {
        match *action {
            Action::Die(at, away) => self.die(at, away),
            Action::Stall(at, ms) => self.workers[at].hangs_until = self.ms + ms,
            Action::Cut(at, noticed) => self.cut(at, noticed),
            Action::Leave(at, away) => {
                self.workers[at].status += 1;
                self.workers[at].fresh = true;
                self.workers[at].runs.clear();
                if let Some(session) = self.unlink(at, away) {
                    self.send(Request::CloseSession { session }, Origin::Nobody);
                }
            }
            Action::Change(at, skill, accepts) => {
                (self.workers[at].skill, self.workers[at].accepts) = (skill, accepts);
                self.cut(at, true);
            }
            _ => {}
        }
    }

    fn cut(&mut self, at: usize, noticed: bool) {
        let in_ms = self.roll(&[21, self.ms, at as u64]).within(5, 4_000);
        let session = self.unlink(at, in_ms);
        if let Some(session) = session.filter(|_| noticed) {
            self.send(Request::Disconnect { session }, Origin::Nobody);
        }
    }

    /// The process crashes. Sometimes a process that it started survives and reports later.
    fn die(&mut self, at: usize, away: u64) {
        self.tally.add("workers", "died");
        self.workers[at].status += 1;
        self.workers[at].fresh = true;
        let runs = std::mem::take(&mut self.workers[at].runs);
        for (attempt, Run { lease, report, .. }) in
            runs.into_iter().filter(|(_, run)| run.unstarted.is_none())
        {
            let mut roll = self.roll(&[22, attempt.job.get(), u64::from(attempt.claim)]);
            if roll.percent(50) && !self.calm {
                let worker = self.workers[at].name.clone();
                let late = Request::Report {
                    of: AttemptRef { worker, attempt, lease },
                    report,
                    records: Vec::new(),
                };
                self.queue.at(self.ms + roll.within(100, 60_000), Event::Late(Box::new(late)));
            }
        }
        // The server may notice that the connection of the process has ended.
        let noticed = self.roll(&[37, self.ms, at as u64]).percent(60);
        if let Some(session) = self.unlink(at, away).filter(|_| noticed) {
            self.send(Request::Disconnect { session }, Origin::Nobody);
        }
    }

    /// Executes a step, unless its process or connection has ended.
    pub fn step(&mut self, at: usize, number: u32, step: Step) {
        let worker = &self.workers[at];
        let current = match step {
            Step::Connect | Step::Waited | Step::Beat | Step::Offer => worker.link,
            _ => worker.status,
        };
        if number != current {
            return;
        }
        if self.ms < worker.hangs_until {
            let until = worker.hangs_until;
            return self.queue.at(until, Event::Worker(at, number, Box::new(step)));
        }
        match step {
            Step::Connect => self.connect(at),
            Step::Waited if worker.session.is_none() => self.connect(at),
            Step::Waited => {}
            Step::Beat => self.beat(at),
            Step::Offer => self.offer(at),
            Step::Hang(ms) => self.workers[at].hangs_until = self.ms + ms,
            Step::Die(away) => self.die(at, away),
            Step::Accept(attempt)
            | Step::Progress(attempt)
            | Step::Call(attempt, _)
            | Step::Wait(attempt)
            | Step::Started(attempt)
            | Step::Report(attempt) => {
                self.speak(at, attempt, &step);
            }
        }
    }

    fn connect(&mut self, at: usize) {
        let (ms, epoch) = (self.ms, u64::from(self.epoch));
        let mut roll = self.roll(&[23, ms, at as u64, epoch]);
        if !self.calm {
            self.workers[at].runs.retain(|_, _| !roll.percent(15));
        }
        let worker = &self.workers[at];
        let (skill, accepts, link) = (worker.skill, worker.accepts, worker.link);
        let (lease_ms, fresh) = (worker.lease_ms, worker.fresh);
        let request = Request::OpenSession {
            worker: worker.name.clone(),
            abilities: words::abilities(skill),
            accepts: words::accepts(accepts),
            attempts: worker.runs.iter().map(|(&attempt, run)| (attempt, run.lease)).collect(),
            lease_ms,
            fresh,
        };
        self.ask_as(at, request, Purpose::Open { skill, accepts, lease_ms, fresh });
        self.worker_later(at, link, PATIENCE_MS, Step::Waited);
    }

    fn beat(&mut self, at: usize) {
        let link = self.workers[at].link;
        let Some(session) = self.workers[at].session else { return };
        self.ask_as(at, Request::Renew { session }, Purpose::Renew);
        self.worker_later(at, link, self.workers[at].beat_ms(), Step::Beat);
        self.wait_again(at);
        let mut roll = self.roll(&[31, self.ms, at as u64]);
        match self.workers[at].vacancies.first() {
            None => self.offer(at),
            Some(&vacancy) if roll.percent(20) => {
                self.ask_as(at, Request::EndVacancy { session, vacancy }, Purpose::Vacancy);
            }
            Some(_) => {}
        }
    }

    fn offer(&mut self, at: usize) {
        let worker = &self.workers[at];
        let Some(session) = worker.session else { return };
        let room = worker.room(self.calm);
        let slots = u32::try_from(room).unwrap_or(0);
        if worker.by_credit {
            let total = worker.heard.cast_signed() + room;
            self.ask_as(at, Request::Credit { session, total }, Purpose::Credit);
        } else if slots > 0 && worker.vacancies.is_empty() {
            let wait_ms = self.roll(&[24, self.ms, at as u64]).within(500, 30_000);
            self.ask_as(at, Request::Vacancy { session, slots, wait_ms }, Purpose::Vacancy);
        }
    }

    /// A worker that gives credit sends its current credit.
    fn credit(&mut self, at: usize) {
        if self.workers[at].by_credit {
            self.offer(at);
        }
    }

    /// A message about an attempt; an outcome is repeated until it is answered.
    fn speak(&mut self, at: usize, attempt: AttemptId, step: &Step) {
        let Some((worker, lease)) = self.workers[at].word(attempt) else { return };
        let status = self.workers[at].status;
        match step {
            Step::Accept(_) if self.workers[at].runs[&attempt].unstarted.is_some() => {
                self.ask_as(
                    at,
                    Request::Accept { of: AttemptRef { worker, attempt, lease } },
                    Purpose::Accept(attempt),
                );
                self.worker_later(at, status, PATIENCE_MS, Step::Accept(attempt));
            }
            Step::Accept(_) => {
                self.ask_as(
                    at,
                    Request::Accept { of: AttemptRef { worker, attempt, lease } },
                    Purpose::Word(attempt),
                );
            }
            Step::Progress(_) => {
                let indicators = manner::indicators(self.ms);
                let request = Request::Progress { of: AttemptRef { worker, attempt, lease }, indicators };
                self.ask_as(at, request, Purpose::Word(attempt));
            }
            Step::Call(_, n) => self.call_sub_jobs(at, AttemptRef { worker, attempt, lease }, *n),
            Step::Wait(_) => self.wait_for_sub_jobs(at, &AttemptRef { worker, attempt, lease }),
            Step::Started(_) => {
                self.ask_as(
                    at,
                    Request::Started { of: AttemptRef { worker, attempt, lease } },
                    Purpose::Started(attempt),
                );
                self.worker_later(at, status, PATIENCE_MS, Step::Started(attempt));
            }
            _ => {
                let report = self.workers[at].runs[&attempt].report.clone();
                let request = Request::Report {
                    of: AttemptRef { worker, attempt, lease },
                    report,
                    records: Vec::new(),
                };
                self.ask_as(at, request, Purpose::Report(attempt));
                self.worker_later(at, status, PATIENCE_MS, Step::Report(attempt));
            }
        }
    }

    /// The server sends a worker a message.
    pub fn tell(&mut self, session: SessionId, effect: Effect) {
        let Some(at) = self.workers.iter().position(|worker| worker.session == Some(session)) else { return };
        if self.ms < self.workers[at].hangs_until {
            let until = self.workers[at].hangs_until;
            return self.queue.at(until, Event::Tell(self.epoch, session, Box::new(effect)));
        }
        match effect {
            Effect::Assign(_, assignment) => self.take(at, &assignment),
            Effect::Cancel(_, attempt) | Effect::TimeOut(_, attempt) => self.obey(at, attempt),
            Effect::Resumed(_, attempt, jobs) => self.goes_on(at, attempt, &jobs),
            Effect::Revoke(_, attempt) => {
                let mut roll = self.roll(&[25, attempt.job.get(), u64::from(attempt.claim)]);
                if self.calm || roll.percent(70) {
                    self.workers[at].runs.remove(&attempt);
                }
            }
            Effect::VacancyEnded(_, vacancy, _) => {
                self.workers[at].vacancies.remove(&vacancy);
                self.workers[at].over.insert(vacancy);
                let link = self.workers[at].link;
                let in_ms = self.roll(&[26, vacancy.0, at as u64]).within(1, 1_500);
                self.worker_later(at, link, in_ms, Step::Offer);
            }
            Effect::SessionEnded(_) => {
                self.unlink(at, 100);
            }
            _ => {}
        }
    }

    fn take(&mut self, at: usize, assignment: &Assignment) {
        let Assignment { attempt, lease, .. } = *assignment;
        self.workers[at].heard += 1;
        let params = assignment.spec.params.as_str();
        let task = Task { seed: self.script.seed, attempt, params, calm: self.calm };
        let manner = Manner::of(task);
        self.tally.add("workers", manner.name());
        if manner == Manner::Ignore {
            return;
        }
        let report = manner::report(task);
        self.tally.add("reports", format!("{} {}", report.outcome(), manner::verdict(&report)));
        let external = |(in_ms, step)| Some((in_ms, external::step(step, assignment.external)?));
        let steps: Vec<_> = manner.steps(task).into_iter().filter_map(external).collect();
        let run = Run {
            lease,
            report,
            params: params.to_owned(),
            waits: false,
            sub_jobs: Vec::new(),
            unstarted: None,
        };
        self.workers[at].runs.insert(attempt, run);
        if assignment.spec.retry.at_most_once {
            self.take_once(at, attempt, steps);
        } else {
            let status = self.workers[at].status;
            steps.into_iter().for_each(|(in_ms, step)| self.worker_later(at, status, in_ms, step));
        }
        if assignment.external {
            self.complete_external(assignment);
        }
    }

    /// A cancel is obeyed immediately or never.
    fn obey(&mut self, at: usize, attempt: AttemptId) {
        let mut roll = self.roll(&[27, attempt.job.get(), u64::from(attempt.claim)]);
        let obeys = self.calm || roll.percent(65);
        self.tally.add("workers", if obeys { "obeyed a cancel" } else { "ignored a cancel" });
        let status = self.workers[at].status;
        if let Some(run) = self.workers[at].runs.get_mut(&attempt).filter(|_| obeys) {
            (run.report, run.waits, run.unstarted) = (Report::Cancelled, false, None);
            self.worker_later(at, status, roll.below(500), Step::Report(attempt));
        }
    }

    /// A worker receives an answer.
    pub fn worker_answered(
        &mut self,
        at: usize,
        link: u32,
        purpose: Purpose,
        answer: Result<Answer, Rejected>,
    ) {
        if let Purpose::Report(attempt) = purpose {
            return self.report_answered(at, attempt, &answer);
        }
        if let Purpose::Started(attempt) = purpose {
            return self.started_answered(at, attempt, &answer);
        }
        if self.workers[at].link != link {
            return;
        }
        match (purpose, answer) {
            (Purpose::Open { .. }, Ok(Answer::Session(OpenedSession { session, lost, .. }))) => {
                self.welcomed(at, session, &lost);
            }
            (Purpose::Vacancy, Ok(Answer::Vacancy(id))) if !self.workers[at].over.contains(&id) => {
                self.workers[at].vacancies.insert(id);
            }
            (Purpose::Renew | Purpose::Vacancy | Purpose::Credit, Err(Rejected::NoSuchSession)) => {
                self.unlink(at, 50);
            }
            (Purpose::Wait(attempt), Ok(Answer::Waited(Waited { over: true, jobs }))) => {
                self.goes_on(at, attempt, &jobs);
            }
            (Purpose::Call(attempt), Ok(Answer::Submitted(made))) => self.called(at, attempt, &made),
            (Purpose::Accept(attempt), Ok(_)) => self.start_once(at, attempt),
            (
                Purpose::Word(attempt)
                | Purpose::Call(attempt)
                | Purpose::Accept(attempt)
                | Purpose::Wait(attempt),
                Err(Rejected::LeaseLost(_)),
            ) => {
                self.workers[at].runs.remove(&attempt);
            }
            _ => {}
        }
    }

    fn welcomed(&mut self, at: usize, session: SessionId, lost: &[AttemptId]) {
        let link = self.workers[at].link;
        (self.workers[at].session, self.workers[at].fresh) = (Some(session), false);
        for attempt in lost {
            let mut roll = self.roll(&[28, attempt.job.get(), u64::from(attempt.claim)]);
            if self.calm || roll.percent(75) {
                self.workers[at].runs.remove(attempt);
            }
        }
        self.worker_later(at, link, self.workers[at].beat_ms(), Step::Beat);
        self.worker_later(at, link, 1, Step::Offer);
        self.wait_again(at);
    }

    fn report_answered(&mut self, at: usize, attempt: AttemptId, answer: &Result<Answer, Rejected>) {
        match answer {
            Ok(_) | Err(Rejected::LeaseLost(_) | Rejected::NoSuchJob(_)) => {
                let Some(run) = self.workers[at].runs.remove(&attempt) else { return };
                if answer.is_ok() {
                    self.say_again(at, attempt, run);
                }
                self.credit(at);
            }
            Err(Rejected::Event(_) | Rejected::Delay(_)) => {
                if let Some(run) = self.workers[at].runs.get_mut(&attempt) {
                    run.report = passed(attempt);
                }
            }
            Err(_) => {}
        }
    }

    /// An acknowledged report is sometimes sent again, the same or another.
    fn say_again(&mut self, at: usize, attempt: AttemptId, run: Run) {
        let mut roll = self.roll(&[29, attempt.job.get(), u64::from(attempt.claim)]);
        let report = match roll.below(10) {
            0 | 1 => run.report,
            2 => passed(attempt),
            _ => return,
        };
        let (worker, lease) = (self.workers[at].name.clone(), run.lease);
        let late = Request::Report { of: AttemptRef { worker, attempt, lease }, report, records: Vec::new() };
        self.queue.at(self.ms + roll.within(0, 20_000), Event::Late(Box::new(late)));
    }
}
