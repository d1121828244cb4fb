//! Commits: what goes to the store and to the driver, and what waits for the store.

pub(crate) mod records;
pub(crate) mod settle;
pub(crate) mod step;

use std::collections::BTreeMap;
use std::mem;

use jobhall_core::{GroupId, JobId};
use jobhall_store::Unit;

use crate::api::effect::Effect;
use crate::api::time::Mono;
use crate::commits::settle::Pending;
use crate::kernel::{JobsRead, MembersRead, StoreRequest, Task};

/// What leaves the kernel, and what waits for an answer of the store.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// Units to be committed; `senders` holds, in the same order, what waits for each of them.
    outbox: Vec<Unit>,
    senders: Vec<Pending>,
    /// Approximate number of rows that the outbox will write.
    rows: usize,
    /// Capacity reserved for the next outbox.
    room: usize,
    /// By commit number: what waits for each of its units.
    in_flight: BTreeMap<u64, Vec<Pending>>,
    requests: Vec<StoreRequest>,
    /// Continuations of reads, by the number of the read.
    job_reads: BTreeMap<u64, JobsRead>,
    member_reads: BTreeMap<u64, MembersRead>,
    effects: Vec<Effect>,
    /// When and why the last write failed.
    trouble: Option<(Mono, String)>,
    /// When matching resumes after a failed write.
    rest_until: Option<Mono>,
    /// Tasks to be tried again when matching resumes.
    postponed: Vec<Task>,
    /// Why the kernel stopped, if it did.
    stopped: Option<String>,
}

impl Commits {
    /// Adds a unit to the next commit. After a stop the unit is returned with the reason.
    pub fn send(&mut self, unit: Unit, pending: Pending) -> Result<(), (Pending, String)> {
        if let Some(message) = &self.stopped {
            return Err((pending, message.clone()));
        }
        self.rows += unit.rows();
        self.outbox.push(unit);
        self.senders.push(pending);
        Ok(())
    }

    /// Approximate number of rows that wait to be written.
    pub fn waiting_rows(&self) -> usize {
        self.rows
    }

    /// Takes the units that are to be committed together; `number` returns the number of the commit.
    pub fn take(&mut self, number: impl FnOnce() -> u64) -> Option<(u64, Vec<Unit>)> {
        if self.outbox.is_empty() || self.stopped.is_some() {
            return None;
        }
        // Reserves room for the next batch, which is likely to be about as large.
        self.room = self.outbox.len().max(self.room / 2);
        let units = mem::replace(&mut self.outbox, Vec::with_capacity(self.room));
        let pending = mem::replace(&mut self.senders, Vec::with_capacity(self.room));
        self.rows = 0;
        let number = number();
        self.in_flight.insert(number, pending);
        Some((number, units))
    }

    /// Takes what waited for the first `results` units of a commit, or for all if there are no more.
    pub fn landed(&mut self, number: u64, results: Option<usize>) -> Vec<Pending> {
        let mut pending = self.in_flight.remove(&number).unwrap_or_default();
        if let Some(part) = results.filter(|part| *part < pending.len()) {
            self.in_flight.insert(number, pending.split_off(part));
        }
        pending
    }

    /// Takes what waited for the commits in flight.
    pub fn take_in_flight(&mut self) -> Vec<Pending> {
        mem::take(&mut self.in_flight).into_values().flatten().collect()
    }

    /// Takes what waits for units that were never sent.
    pub fn take_unsent(&mut self) -> Vec<Pending> {
        self.outbox.clear();
        self.rows = 0;
        mem::take(&mut self.senders)
    }

    pub fn want(&mut self, request: StoreRequest) {
        self.requests.push(request);
    }

    pub fn take_requests(&mut self) -> Vec<StoreRequest> {
        mem::take(&mut self.requests)
    }

    /// Sends a read of jobs, and keeps its continuation.
    pub fn read_jobs(&mut self, number: u64, ids: Vec<JobId>, then: JobsRead) {
        self.job_reads.insert(number, then);
        self.requests.push(StoreRequest::Jobs(number, ids));
    }

    /// Sends a read of a group and its members, and keeps its continuation.
    pub fn read_members(&mut self, number: u64, group: GroupId, then: MembersRead) {
        self.member_reads.insert(number, then);
        self.requests.push(StoreRequest::Members(number, group));
    }

    pub fn take_job_read(&mut self, number: u64) -> Option<JobsRead> {
        self.job_reads.remove(&number)
    }

    pub fn take_member_read(&mut self, number: u64) -> Option<MembersRead> {
        self.member_reads.remove(&number)
    }

    /// Takes the continuations of all reads.
    pub fn take_reads(&mut self) -> (Vec<JobsRead>, Vec<MembersRead>) {
        let (jobs, members) = (mem::take(&mut self.job_reads), mem::take(&mut self.member_reads));
        (jobs.into_values().collect(), members.into_values().collect())
    }

    pub fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub fn take_effects(&mut self) -> Vec<Effect> {
        let room = self.effects.len();
        mem::replace(&mut self.effects, Vec::with_capacity(room))
    }

    /// Whether nothing is in flight to the store or waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.outbox.is_empty()
            && self.in_flight.is_empty()
            && self.requests.is_empty()
            && self.job_reads.is_empty()
            && self.member_reads.is_empty()
    }

    /// A write failed.
    pub fn failed(&mut self, at: Mono, why: String) {
        self.trouble = Some((at, why));
    }

    /// A write succeeded.
    pub fn succeeded(&mut self) {
        self.trouble = None;
    }

    /// When and why the last write failed; none if a later one succeeded.
    pub fn trouble(&self) -> Option<&(Mono, String)> {
        self.trouble.as_ref()
    }

    /// Matching pauses until this time.
    pub fn rest(&mut self, until: Mono) {
        self.rest_until = Some(until);
    }

    pub fn resting_until(&self) -> Option<Mono> {
        self.rest_until
    }

    /// Ends the pause, and returns the tasks that were postponed.
    pub fn resume(&mut self) -> Vec<Task> {
        self.rest_until = None;
        mem::take(&mut self.postponed)
    }

    /// Keeps a task until matching resumes.
    pub fn postpone(&mut self, task: Task) {
        self.postponed.push(task);
    }

    /// Whether jobs are assigned: not while matching is paused after a failed write, nor after a stop.
    pub fn lets_match(&self) -> bool {
        self.rest_until.is_none() && self.stopped.is_none()
    }

    /// Stops the kernel; false if it has stopped before.
    pub fn stop(&mut self, message: &str) -> bool {
        if self.stopped.is_some() {
            return false;
        }
        self.stopped = Some(message.to_owned());
        true
    }

    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::HallTask;

    fn unlinked(commits: &mut Commits) -> Result<(), (Pending, String)> {
        commits.send(Unit::default(), Pending::Unlinked)
    }

    #[test]
    fn each_read_has_its_continuation_and_all_are_taken_at_once() {
        let (one, group) = (JobId::new(1).unwrap(), GroupId::of(JobId::new(2).unwrap()));
        let mut commits = Commits::default();
        commits.read_jobs(1, vec![one], JobsRead::Ends(vec![one]));
        commits.read_jobs(2, vec![one], JobsRead::Made(group, Vec::new()));
        commits.read_members(3, group, MembersRead::Resume(group, group, None));
        assert_eq!(commits.take_requests().len(), 3);
        assert!(!commits.is_idle());
        assert!(matches!(commits.take_job_read(2), Some(JobsRead::Made(..))));
        assert!(commits.take_job_read(3).is_none() && commits.take_member_read(1).is_none());
        let (jobs, members) = commits.take_reads();
        assert!(matches!(jobs.as_slice(), [JobsRead::Ends(_)]), "{jobs:?}");
        assert!(matches!(members.as_slice(), [MembersRead::Resume(..)]), "{members:?}");
        assert!(commits.is_idle());
    }

    #[test]
    fn the_results_of_a_commit_may_land_in_parts() {
        let mut commits = Commits::default();
        assert!(commits.take(|| 1).is_none(), "there is nothing to commit");
        (0..3).for_each(|_| unlinked(&mut commits).unwrap());
        let (number, units) = commits.take(|| 7).unwrap();
        assert_eq!((number, units.len(), commits.waiting_rows()), (7, 3, 0));
        assert!(!commits.is_idle());
        assert_eq!(commits.landed(7, Some(2)).len(), 2);
        assert!(!commits.is_idle(), "one unit has no result yet");
        assert_eq!(commits.landed(7, Some(1)).len(), 1);
        assert!(commits.is_idle());
        assert!(commits.landed(7, None).is_empty(), "an unknown commit has nothing");
    }

    #[test]
    fn a_commit_that_failed_lands_as_a_whole() {
        let mut commits = Commits::default();
        (0..2).for_each(|_| unlinked(&mut commits).unwrap());
        commits.take(|| 1);
        assert_eq!(commits.landed(1, None).len(), 2);
    }

    #[test]
    fn after_a_stop_nothing_is_sent_and_the_first_reason_stays() {
        let mut commits = Commits::default();
        unlinked(&mut commits).unwrap();
        assert!(commits.stop("disk gone") && !commits.stop("again"));
        assert_eq!(commits.stopped(), Some("disk gone"));
        let (_, why) = unlinked(&mut commits).unwrap_err();
        assert_eq!(why, "disk gone");
        assert!(commits.take(|| 1).is_none(), "what was not sent stays here");
        assert_eq!((commits.take_unsent().len(), commits.waiting_rows()), (1, 0));
        assert!(!commits.lets_match());
    }

    #[test]
    fn a_pause_keeps_tasks_until_it_ends() {
        let mut commits = Commits::default();
        assert!(commits.lets_match());
        commits.rest(Mono(9));
        commits.failed(Mono(4), "full".to_owned());
        commits.postpone(HallTask::ReadEnds(Vec::new()).into());
        assert_eq!((commits.lets_match(), commits.resting_until()), (false, Some(Mono(9))));
        assert_eq!(commits.resume().len(), 1);
        assert!(commits.lets_match() && commits.resume().is_empty());
        assert!(commits.trouble().is_some(), "a pause that ends is no success");
        commits.succeeded();
        assert!(commits.trouble().is_none());
    }
}
