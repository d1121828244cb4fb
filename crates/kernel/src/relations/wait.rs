//! Attempts that wait for jobs. Their slot is free meanwhile; they resume before their worker gets a new job.
//!
//! The slot of a waiting attempt is added to its session's credit, and removed when the attempt resumes. An attempt may
//! wait by several requests at once; it resumes when all jobs of one of them have ended. The awaited
//! jobs are kept in memory only: after a restart they are all sub-jobs of the attempt's job, until the worker repeats
//! its request.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::bounds::WAITERS;
use jobhall_core::{AttemptId, Decision, Event, JobId, State, transition};

use crate::api::answer::{Rejected, Waited};
use crate::api::effect::{Effect, SessionId};
use crate::api::request::AttemptRef;
use crate::api::ticket::Ticket;
use crate::api::time::Mono;
use crate::commits::step::Then;
use crate::jobs::entry::Busy;
use crate::kernel::{JobTask, JobWork, Kernel, Task};
use crate::matching::session::SessionState;
use crate::relations::Relations;
use crate::upkeep::Deadline;

/// Maximum number of jobs that borrow places, and of jobs that lend them, because of one wait.
const LENT: usize = 1_000;

/// The jobs that one request of an attempt waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwaitedJobs {
    /// In order of their ids.
    jobs: Vec<JobId>,
    request: WaitRequest,
}

/// What made an attempt wait for these jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitRequest {
    /// A request that named them.
    Named,
    /// A request that named none: these are all that the attempt's job asked for.
    All,
    /// A request before a restart, which is not known any more: these are all that the attempt's job had asked for.
    BeforeRestart,
}

impl WaitRequest {
    /// Whether what an earlier request waits for is dropped when this one arrives.
    fn replaces(self, earlier: WaitRequest) -> bool {
        earlier == WaitRequest::BeforeRestart || (self == WaitRequest::All && earlier == WaitRequest::All)
    }
}

/// The request of an attempt to wait.
#[derive(Debug)]
pub(crate) struct Suspension {
    jobs: AwaitedJobs,
    /// Maximum time until the answer.
    wait_ms: u64,
    to: Ticket<Waited>,
}

/// A request that is answered when its attempt resumes, or at this time.
#[derive(Debug)]
struct WaitingRequest {
    to: Ticket<Waited>,
    until: Mono,
    /// The jobs that it named: a process may wait for several at once, each with its own request.
    jobs: Vec<JobId>,
}

/// What an attempt waits for. It resumes when all jobs of one request have ended.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    /// Each with the number of its jobs that have not ended.
    awaited: Vec<(AwaitedJobs, usize)>,
    /// The awaited jobs that have not ended.
    pub open: BTreeSet<JobId>,
    requests: Vec<WaitingRequest>,
}

impl Wait {
    /// The attempt waits for these jobs too, of which those in `open` have not ended. A request for all jobs replaces an
    /// earlier one for all, and any request replaces what is not known since a restart. Beyond a bound the oldest is
    /// dropped: its caller repeats it. Returns the open jobs that the attempt no longer waits for.
    fn add(&mut self, jobs: AwaitedJobs, open: BTreeSet<JobId>) -> BTreeSet<JobId> {
        self.awaited.retain(|(earlier, _)| *earlier != jobs && !jobs.request.replaces(earlier.request));
        self.awaited.push((jobs, open.len()));
        if self.awaited.len() > WAITERS {
            self.awaited.remove(0);
        }
        self.open.extend(open);
        let named: BTreeSet<_> = self.awaited.iter().flat_map(|(awaited, _)| &awaited.jobs).collect();
        let dropped: BTreeSet<_> = self.open.iter().copied().filter(|job| !named.contains(job)).collect();
        self.open.retain(|job| !dropped.contains(job));
        dropped
    }

    /// A job has ended.
    fn ended(&mut self, job: JobId) {
        if self.open.remove(&job) {
            let with = |(awaited, _): &&mut (AwaitedJobs, usize)| awaited.jobs.binary_search(&job).is_ok();
            self.awaited.iter_mut().filter(with).for_each(|(_, open)| *open -= 1);
        }
    }

    /// Whether all jobs of one request have ended.
    fn is_over(&self) -> bool {
        self.awaited.iter().any(|(_, open)| *open == 0)
    }

    /// The jobs of the requests whose jobs have all ended.
    fn all_ended(&self) -> BTreeSet<JobId> {
        let over = self.awaited.iter().filter(|(_, open)| *open == 0);
        over.flat_map(|(awaited, _)| awaited.jobs.iter().copied()).collect()
    }

    /// Keeps a request until the attempt resumes, or until this time. Returns the oldest one if there are too many.
    fn keep(&mut self, request: WaitingRequest) -> Option<WaitingRequest> {
        self.requests.push(request);
        (self.requests.len() > WAITERS).then(|| self.requests.remove(0))
    }

    /// Takes a request that is answered now.
    fn take(&mut self, to: Ticket<Waited>) -> Option<WaitingRequest> {
        let at = self.requests.iter().position(|request| request.to == to)?;
        Some(self.requests.remove(at))
    }
}

impl Relations {
    /// The attempt of a job waits for these jobs, of which those in `open` have not ended, beside those it waits for.
    fn note_wait(&mut self, id: JobId, jobs: AwaitedJobs, open: BTreeSet<JobId>) {
        for job in &open {
            self.waiters.entry(*job).or_default().insert(id);
        }
        let dropped = self.waits.entry(id).or_default().add(jobs, open);
        self.remove_waiter(id, &dropped);
    }

    /// Removes the wait of an attempt.
    fn end_wait(&mut self, id: JobId) -> Option<Wait> {
        let wait = self.waits.remove(&id)?;
        self.remove_waiter(id, &wait.open);
        Some(wait)
    }

    /// An attempt no longer waits for these jobs.
    fn remove_waiter(&mut self, id: JobId, jobs: &BTreeSet<JobId>) {
        for job in jobs {
            if let Some(waiters) = self.waiters.get_mut(job) {
                waiters.remove(&id);
                if waiters.is_empty() {
                    self.waiters.remove(job);
                }
            }
        }
    }

    /// Takes the jobs whose attempts wait for a job that has ended.
    fn take_waiters(&mut self, job: JobId) -> BTreeSet<JobId> {
        self.waiters.remove(&job).unwrap_or_default()
    }

    /// An attempt has one job less to wait for.
    fn awaits_no_more(&mut self, id: JobId, job: JobId) {
        if let Some(wait) = self.waits.get_mut(&id) {
            wait.ended(job);
        }
    }

    /// This job and those that wait for it, those that wait for them, and so on, up to a bound.
    fn all_waiters(&self, id: JobId) -> BTreeSet<JobId> {
        let (mut found, mut next) = (BTreeSet::from([id]), vec![id]);
        while let Some(id) = next.pop().filter(|_| found.len() < LENT) {
            let waiters = self.waiters.get(&id).into_iter().flatten();
            next.extend(waiters.filter(|waiter| found.insert(**waiter)));
        }
        found
    }

    /// Whether everything that one request of an attempt waits for has ended; false if it does not wait.
    pub fn is_wait_over(&self, id: JobId) -> bool {
        self.waits.get(&id).is_some_and(Wait::is_over)
    }
}

impl Kernel {
    /// Lets an attempt wait for jobs that it asked for; for an open job that is not busy, and by its holder.
    pub(crate) fn wait(
        &mut self,
        task: JobTask,
        of: &AttemptRef,
        named: Option<&[JobId]>,
        wait_ms: u64,
        to: Ticket<Waited>,
    ) {
        let id = task.id;
        let jobs = match self.awaited(id, named) {
            Ok(jobs) => jobs,
            Err(refused) => return self.answer(to, Err(refused)),
        };
        let Some(entry) = self.jobs.get(id) else { return };
        if entry.waits_for_jobs() {
            self.note_wait(id, jobs.clone());
            self.answer_later(id, Suspension { jobs, wait_ms, to });
            self.look_at_wait(id);
            return self.break_cycle(id);
        }
        if jobs.jobs.iter().all(|job| !self.jobs.contains(*job)) {
            return self.answer(to, Ok(Waited { jobs: jobs.jobs, over: true }));
        }
        let event = Event::Wait { claim: of.attempt.claim, lease: of.lease };
        match transition(&entry.status.get(), &event, self.env.wall()) {
            Ok(Decision::Step(step)) => {
                self.send_step(task, *step, Then::Suspend(Suspension { jobs, wait_ms, to }));
            }
            Ok(Decision::Same) => self.answer(to, Ok(Waited { jobs: jobs.jobs, over: false })),
            Err(refusal) => self.answer(to, Err(Rejected::Event(refusal))),
        }
    }

    /// Returns the awaited jobs: those that are named, or all that the parent asked for.
    fn awaited(&self, parent: JobId, named: Option<&[JobId]>) -> Result<AwaitedJobs, Rejected> {
        let own: BTreeSet<JobId> = self.relations.links.of(parent).collect();
        let Some(named) = named else {
            return Ok(AwaitedJobs { jobs: own.into_iter().collect(), request: WaitRequest::All });
        };
        if let Some(&job) = named.iter().find(|job| !own.contains(job)) {
            return Err(Rejected::NotSubJob { parent, job });
        }
        let named: BTreeSet<JobId> = named.iter().copied().collect();
        Ok(AwaitedJobs { jobs: named.into_iter().collect(), request: WaitRequest::Named })
    }

    fn note_wait(&mut self, id: JobId, jobs: AwaitedJobs) {
        let open = jobs.jobs.iter().copied().filter(|job| self.jobs.contains(*job)).collect();
        self.relations.note_wait(id, jobs, open);
        // An attempt that was about to resume may have more to wait for.
        let session = self.fleet.holder(id).filter(|_| !self.relations.is_wait_over(id));
        if let Some(state) = session.and_then(|session| self.fleet.session_mut(session)) {
            state.ready.retain(|ready| *ready != id);
        }
        self.lend_limits(id);
    }

    /// Lends the limit places of a waiting attempt to all jobs it waits for, and to those that they wait for in turn.
    /// Jobs that wait for this one do the same.
    fn lend_limits(&mut self, id: JobId) {
        let borrowers = self.behind_all(id);
        for lender in self.relations.all_waiters(id) {
            self.lend(lender, &borrowers);
        }
    }

    /// Everything that must end before an attempt can resume: the jobs it waits for, their dependencies and the
    /// holders of their keys, the jobs that those wait for, and so on.
    fn behind_all(&self, id: JobId) -> Vec<JobId> {
        let (mut found, mut next) = (BTreeSet::new(), vec![id]);
        while let Some(id) = next.pop().filter(|_| found.len() < LENT) {
            let all = self.behind(id).into_iter();
            next.extend(all.filter(|job| self.jobs.contains(*job) && found.insert(*job)));
        }
        found.into_iter().collect()
    }

    /// The jobs that must end before a waiting attempt or a blocked job can continue.
    fn behind(&self, id: JobId) -> Vec<JobId> {
        let awaited = self.relations.waits.get(&id).into_iter().flat_map(|wait| wait.open.iter().copied());
        let entry = self.jobs.get(id);
        let blocked = entry.filter(|entry| matches!(entry.status.state(), State::Blocked(_)));
        let after = blocked.and_then(|entry| entry.spec.as_ref()).map_or(&[][..], |spec| &spec.after);
        let holder = blocked.and_then(|entry| match entry.status.state() {
            State::Blocked(blocked) => blocked.holder,
            _ => None,
        });
        awaited.chain(after.iter().copied()).chain(holder).collect()
    }

    /// At start: lends the places of a waiting attempt to the leased jobs that may have borrowed one before. These are
    /// also the sub-jobs of a job that waits no longer: it will be tried again, or has ended. A job that waits for the
    /// attempt is none of them: neither could resume. `submitted` has the sub-jobs by the job that submitted them.
    pub(crate) fn lend_to_leased(&mut self, lender: JobId, submitted: &BTreeMap<JobId, Vec<JobId>>) {
        let (mut found, mut next) = (BTreeSet::from([lender]), vec![lender]);
        while let Some(id) = next.pop().filter(|_| found.len() < LENT) {
            let asked = self.relations.links.of(id).chain(submitted.get(&id).into_iter().flatten().copied());
            next.extend(asked.chain(self.behind(id)).filter(|job| found.insert(*job)));
        }
        let waiters = self.lenders(lender);
        found.retain(|id| !waiters.contains(id) && self.jobs.get(*id).is_some_and(|entry| entry.is_leased()));
        let leased: Vec<_> = found.into_iter().collect();
        self.lend(lender, &leased);
    }

    /// Keeps a request until it can be answered, or for this time; a request with no wait time is answered
    /// immediately.
    fn answer_later(&mut self, id: JobId, wait: Suspension) {
        let Suspension { jobs: AwaitedJobs { jobs, .. }, wait_ms, to } = wait;
        if wait_ms == 0 {
            return self.answer(to, Ok(Waited { jobs, over: false }));
        }
        let until = self.env.mono().plus_ms(wait_ms);
        let request = WaitingRequest { to, until, jobs };
        let oldest = self.relations.waits.entry(id).or_default().keep(request);
        self.deadlines.set(Deadline::Wait(until, id, to));
        if let Some(WaitingRequest { to, until, jobs }) = oldest {
            self.deadlines.clear(Deadline::Wait(until, id, to));
            self.answer(to, Ok(Waited { jobs, over: false }));
        }
    }

    /// Answers a request that the attempt still waits.
    pub(crate) fn waits_on(&mut self, id: JobId, to: Ticket<Waited>) {
        let request = self.relations.waits.get_mut(&id).and_then(|wait| wait.take(to));
        if let Some(WaitingRequest { jobs, .. }) = request {
            self.answer(to, Ok(Waited { jobs, over: false }));
        }
    }

    /// The attempt is durably suspended: its slot is free.
    pub(crate) fn suspended(&mut self, id: JobId, wait: Suspension) {
        self.stop_clock(id);
        self.note_wait(id, wait.jobs.clone());
        self.answer_later(id, wait);
        self.lend_slot(id);
        self.break_cycle(id);
    }

    /// At start: a waiting attempt waits for all jobs that it asked for and that have not ended.
    pub(crate) fn wait_again(&mut self, id: JobId) {
        let jobs: BTreeSet<JobId> = self.relations.links.of(id).collect();
        let request = WaitRequest::BeforeRestart;
        self.note_wait(id, AwaitedJobs { jobs: jobs.into_iter().collect(), request });
        self.lend_slot(id);
        self.look_at_wait(id);
    }

    /// The slot of a waiting attempt counts as free for its session.
    pub(crate) fn lend_slot(&mut self, id: JobId) {
        self.fleet.lend_slot(id, &mut self.board);
    }

    /// The attempt is no longer held, or it resumes: its slot no longer counts as free.
    pub(crate) fn take_slot(&mut self, id: JobId, session: SessionId) {
        self.fleet.take_slot(id, session, &mut self.board);
    }

    /// A job has ended: attempts that wait for it have one job less to wait for.
    pub(crate) fn awaited_ended(&mut self, job: JobId) {
        for id in self.relations.take_waiters(job) {
            self.relations.awaits_no_more(id, job);
            self.look_at_wait(id);
        }
    }

    /// Checks whether everything that one request of an attempt waits for has ended. The requests that still wait are
    /// answered when the attempt resumes; their callers repeat them, and the slot is free again meanwhile.
    pub(crate) fn look_at_wait(&mut self, id: JobId) {
        let over = self.relations.is_wait_over(id);
        let waits = self.jobs.get(id).is_some_and(|entry| entry.waits_for_jobs());
        let Some(session) = self.fleet.holder(id).filter(|_| over && waits) else {
            return;
        };
        if let Some(state) = self.fleet.session_mut(session)
            && !state.ready.contains(&id)
        {
            state.ready.push_back(id);
        }
        self.resume_ready(session);
    }

    /// Resumes attempts whose wait is over, in order, as far as their worker has room.
    pub(crate) fn resume_ready(&mut self, session: SessionId) {
        let ready: Vec<_> = match self.fleet.session(session) {
            Some(state) => state.ready.iter().copied().collect(),
            None => return,
        };
        for id in ready {
            if self.can_resume(session, id) {
                self.resume_or_later(id);
            }
        }
    }

    /// Whether a worker has room for an attempt whose wait is over: a slot, what its job uses, and the places it has
    /// lent. A polling worker has not announced slots and manages them itself.
    fn can_resume(&self, session: SessionId, id: JobId) -> bool {
        let Some(state) = self.fleet.session(session).filter(|state| state.connected) else { return false };
        let credit = state.credit.and_then(|credit| self.fleet.vacancy(credit));
        let slot = credit.is_none_or(|credit| credit.room() > 0);
        slot && state.ready.contains(&id) && self.leaves_uses(state, id) && self.borrower(id).is_none()
    }

    /// Whether the worker has enough resources left for a job, regardless of a reservation.
    fn leaves_uses(&self, state: &SessionState, id: JobId) -> bool {
        let uses = self.uses_of(id);
        let profile = state.profile.and_then(|profile| self.board.profile(profile));
        let taken = self.fleet.worker(&state.worker).map(|worker| &worker.taken);
        uses.is_empty()
            || profile.zip(taken).is_some_and(|((abilities, _), taken)| taken.leaves(abilities, &uses))
    }

    fn resume_or_later(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get(id) else { return };
        let claim = entry.status.claim();
        if entry.busy == Busy::Free {
            return self.resume(id, claim);
        }
        if !self
            .jobs
            .has_in_line(id, |task| matches!(task, Task::Job(JobTask { work: JobWork::Resume(_), .. })))
        {
            self.jobs.line_up(id, JobWork::Resume(claim).on(id));
        }
    }

    /// Resumes the attempt, if its worker still has room.
    pub(crate) fn resume(&mut self, id: JobId, claim: u32) {
        let Some(session) = self.fleet.holder(id) else { return };
        let Some(entry) = self.jobs.get(id).filter(|entry| entry.status.claim() == claim) else { return };
        if !self.can_resume(session, id) {
            return;
        }
        let Ok(Decision::Step(step)) = transition(&entry.status.get(), &Event::Resume, self.env.wall())
        else {
            return;
        };
        self.take_slot(id, session);
        self.live(id, *step);
        let jobs = self.end_wait(id, |over, jobs| Ok(Waited { jobs, over }));
        self.effect(Effect::Resumed(session, AttemptId { job: id, claim }, jobs));
    }

    /// Removes the wait of an attempt, and answers its requests. `answer` gets the jobs that a request named, and whether
    /// all of them have ended. Returns the jobs of the requests for which this is true.
    fn end_wait(
        &mut self,
        id: JobId,
        answer: impl Fn(bool, Vec<JobId>) -> Result<Waited, Rejected>,
    ) -> Vec<JobId> {
        let Some(wait) = self.relations.end_wait(id) else { return Vec::new() };
        self.end_lending(id);
        let ended = wait.all_ended();
        for WaitingRequest { to, until, jobs } in wait.requests {
            self.deadlines.clear(Deadline::Wait(until, id, to));
            // The last of these may have ended just now.
            let over = jobs.iter().all(|job| ended.contains(job) || !self.jobs.contains(*job));
            self.answer(to, answer(over, jobs));
        }
        ended.into_iter().collect()
    }

    /// The attempt is no longer held: it waits for nothing.
    pub(crate) fn wait_lost(&mut self, id: JobId, claim: u32) {
        let attempt = AttemptId { job: id, claim };
        self.end_wait(id, |_, _| Err(Rejected::LeaseLost(attempt)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::id;

    fn set(ids: &[u64]) -> BTreeSet<JobId> {
        ids.iter().copied().map(id).collect()
    }

    /// Notes that the attempt of a job waits for these jobs, all of which are open.
    fn wait(relations: &mut Relations, job: u64, open: &[u64]) {
        relations.note_wait(id(job), named(open), set(open));
    }

    fn named(jobs: &[u64]) -> AwaitedJobs {
        AwaitedJobs { jobs: set(jobs).into_iter().collect(), request: WaitRequest::Named }
    }

    fn ended(relations: &mut Relations, job: u64) -> BTreeSet<JobId> {
        let waiters = relations.take_waiters(id(job));
        waiters.iter().for_each(|waiter| relations.awaits_no_more(*waiter, id(job)));
        waiters
    }

    #[test]
    fn a_wait_is_over_when_the_last_awaited_job_has_ended() {
        let mut relations = Relations::default();
        wait(&mut relations, 9, &[1, 2]);
        wait(&mut relations, 8, &[2]);
        assert_eq!(ended(&mut relations, 1), set(&[9]));
        assert!(!relations.is_wait_over(id(9)));
        assert_eq!(ended(&mut relations, 2), set(&[8, 9]));
        assert!(relations.is_wait_over(id(9)) && relations.is_wait_over(id(8)));
        assert!(!relations.is_wait_over(id(7)), "it does not wait");
    }

    #[test]
    fn a_wait_for_ended_jobs_is_over_at_once_and_still_names_them() {
        let mut relations = Relations::default();
        relations.note_wait(id(9), named(&[1]), BTreeSet::new());
        assert!(relations.is_wait_over(id(9)));
        assert_eq!(relations.end_wait(id(9)).unwrap().all_ended(), set(&[1]));
        assert!(!relations.is_wait_over(id(9)));
    }

    #[test]
    fn ground_7_a_second_wait_is_added_to_the_first_and_either_ends_the_waiting() {
        let mut relations = Relations::default();
        wait(&mut relations, 9, &[1, 2]);
        wait(&mut relations, 8, &[1]);
        wait(&mut relations, 9, &[3, 2]);
        assert_eq!(relations.awaited_by(id(9)), Some(&set(&[1, 2, 3])));
        assert_eq!(ended(&mut relations, 1), set(&[8, 9]));
        assert_eq!(ended(&mut relations, 3), set(&[9]));
        assert!(!relations.is_wait_over(id(9)), "each request still waits for job 2");
        wait(&mut relations, 9, &[4]);
        assert_eq!(ended(&mut relations, 2), set(&[9]));
        assert!(relations.is_wait_over(id(9)));
        let over = relations.end_wait(id(9)).unwrap();
        assert_eq!((over.all_ended(), over.open), (set(&[1, 2, 3]), set(&[4])));
        assert!(relations.waiters.is_empty(), "nobody waits for job 4 any more");
    }

    #[test]
    fn ground_7_a_repeated_wait_is_counted_once_and_the_number_of_waits_is_bounded() {
        let mut relations = Relations::default();
        (0..3).for_each(|_| wait(&mut relations, 9, &[1, 2]));
        ended(&mut relations, 1);
        relations.note_wait(id(9), named(&[1, 2]), set(&[2]));
        assert_eq!(relations.waits[&id(9)].awaited, [(named(&[1, 2]), 1)]);
        ended(&mut relations, 2);
        assert!(relations.is_wait_over(id(9)));
        (1..100).for_each(|job| wait(&mut relations, 8, &[job]));
        assert_eq!(relations.waits[&id(8)].awaited.len(), WAITERS);
        ended(&mut relations, 1);
        assert!(!relations.is_wait_over(id(8)), "the oldest were dropped");
        ended(&mut relations, 99);
        assert!(relations.is_wait_over(id(8)));
    }

    #[test]
    fn ground_7_a_wait_for_all_replaces_the_earlier_one_for_all() {
        let mut relations = Relations::default();
        let all = |jobs: &[u64]| AwaitedJobs { request: WaitRequest::All, ..named(jobs) };
        relations.note_wait(id(9), all(&[1]), set(&[1]));
        ended(&mut relations, 1);
        assert!(relations.is_wait_over(id(9)));
        relations.note_wait(id(9), all(&[1, 2]), set(&[2]));
        assert!(!relations.is_wait_over(id(9)), "job 2 came later");
        ended(&mut relations, 2);
        assert!(relations.is_wait_over(id(9)));
    }

    #[test]
    fn ground_7_a_request_replaces_what_is_not_known_since_a_restart() {
        let mut relations = Relations::default();
        let before = AwaitedJobs { request: WaitRequest::BeforeRestart, ..named(&[1, 2]) };
        relations.note_wait(id(9), before, set(&[1, 2]));
        wait(&mut relations, 9, &[2, 3]);
        assert_eq!(relations.awaited_by(id(9)), Some(&set(&[2, 3])));
        assert_eq!(ended(&mut relations, 1), set(&[]), "it no longer waits for job 1");
        assert_eq!(ended(&mut relations, 2), set(&[9]));
        assert!(!relations.is_wait_over(id(9)), "the jobs of before the restart do not resume it");
        wait(&mut relations, 9, &[4]);
        assert_eq!(relations.awaited_by(id(9)), Some(&set(&[3, 4])), "a later request is added");
    }

    #[test]
    fn the_end_of_a_wait_leaves_nothing_behind() {
        let mut relations = Relations::default();
        wait(&mut relations, 9, &[1, 2]);
        assert_eq!(relations.end_wait(id(9)).unwrap().open, set(&[1, 2]));
        assert!(relations.waits.is_empty() && relations.waiters.is_empty());
        assert!(relations.end_wait(id(9)).is_none());
    }

    #[test]
    fn all_waiters_are_found_through_other_waits_and_through_a_cycle() {
        let mut relations = Relations::default();
        wait(&mut relations, 1, &[2, 5]);
        wait(&mut relations, 2, &[3]);
        wait(&mut relations, 3, &[1]);
        wait(&mut relations, 7, &[5]);
        assert_eq!(relations.all_waiters(id(3)), set(&[1, 2, 3]));
        assert_eq!(relations.all_waiters(id(5)), set(&[1, 2, 3, 5, 7]));
        assert_eq!(relations.all_waiters(id(4)), set(&[4]));
    }

    #[test]
    fn the_search_for_waiters_is_bounded() {
        let mut relations = Relations::default();
        let bound = LENT as u64;
        (1..=2 * bound).for_each(|job| wait(&mut relations, job + 1, &[job]));
        assert_eq!(relations.all_waiters(id(1)).len(), LENT);
        assert_eq!(relations.all_waiters(id(bound + 3)).len(), LENT - 1);
    }

    #[test]
    fn beyond_the_bound_the_oldest_request_is_answered() {
        let mut wait = Wait::default();
        let most = WAITERS as u64;
        let request = |n| WaitingRequest { to: Ticket::new(n), until: Mono(n), jobs: vec![id(n)] };
        assert!((1..=most).all(|n| wait.keep(request(n)).is_none()));
        let oldest = wait.keep(request(most + 1)).unwrap();
        assert_eq!((oldest.to, oldest.until, oldest.jobs), (Ticket::new(1), Mono(1), vec![id(1)]));
        assert_eq!(wait.take(Ticket::new(3)).unwrap().jobs, [id(3)]);
        assert!(wait.take(Ticket::new(3)).is_none());
        assert_eq!(
            (wait.requests.len(), wait.requests[0].to, wait.requests[1].to),
            (WAITERS - 1, Ticket::new(2), Ticket::new(4))
        );
        assert!(wait.keep(request(99)).is_none());
    }
}
