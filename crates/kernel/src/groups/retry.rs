//! Retry of a group: creates a new group from the failed members of an ended one, in slices.
//!
//! The new group is stored first and accepts no other jobs; it is closed when all its jobs have been created, so it
//! cannot end before that. A server that stops in between finds the group open at its next start, determines which
//! jobs were created already, and continues. Dependencies between failed members are kept, and those on other jobs that
//! are open or ended as they had to: they are inputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jobhall_core::{After, Dependency, Group, GroupId, Job, JobId, NewJob, OnDuplicate, Standing, State};
use jobhall_store::{Member, StoreError};

use crate::api::answer::{GroupCreated, Rejected};
use crate::api::request::{HallRequest, IdempotencyKey, Submit};
use crate::api::ticket::Ticket;
use crate::jobs::ids::IdMap;
use crate::jobs::retry::again;
use crate::kernel::{HallTask, JobsRead, Kernel, MembersRead};
use crate::relations::cascade::COPY_WON;
use crate::submit::{Plan, ReplyTo};

/// Jobs created in one unit.
const SLICE: usize = 500;

/// A group that is being filled.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    /// Failed members that are still to be repeated, by id.
    left: VecDeque<JobId>,
    /// By member of the ended group: the job that repeats it.
    made: IdMap<JobId, JobId>,
    /// The ticket of the caller, if one still waits.
    pub(crate) ticket: Option<Ticket<GroupCreated>>,
}

impl Fill {
    /// Whether every member was made and the caller was answered: only the closing of the group is left.
    pub(super) fn is_done(&self) -> bool {
        self.left.is_empty() && self.ticket.is_none()
    }
}

#[cfg(test)]
impl Fill {
    /// A fill with these members left.
    pub(super) fn of(left: &[JobId], ticket: Option<Ticket<GroupCreated>>) -> Fill {
        Fill { left: left.iter().copied().collect(), made: IdMap::default(), ticket }
    }
}

/// A retry of an ended group, whose members were read.
#[derive(Debug)]
pub(crate) struct GroupRetry {
    old: Group,
    name: Option<IdempotencyKey>,
    left: VecDeque<JobId>,
    pub ticket: Ticket<GroupCreated>,
}

impl Kernel {
    pub(crate) fn retry_group(
        &mut self,
        id: GroupId,
        name: Option<IdempotencyKey>,
        ticket: Ticket<GroupCreated>,
    ) {
        if self.groups.get(id).is_some() {
            return self.answer(ticket, Err(Rejected::GroupOpen(id)));
        }
        let number = self.env.number();
        self.commits.read_members(number, id, MembersRead::Retry(id, name, ticket));
    }

    /// Creates the new group once the ended group and its members have been read.
    pub(crate) fn make_retry(
        &mut self,
        id: GroupId,
        name: Option<IdempotencyKey>,
        ticket: Ticket<GroupCreated>,
        found: Result<Option<(Group, Vec<Member>)>, StoreError>,
    ) {
        let (old, members) = match found {
            Err(error) => {
                let refused = Rejected::Storage { full: false, message: error.to_string() };
                return self.answer(ticket, Err(refused));
            }
            Ok(None) => return self.answer(ticket, Err(Rejected::NoSuchGroup(id))),
            Ok(Some((old, _))) if old.end.is_none() => {
                return self.answer(ticket, Err(Rejected::GroupOpen(id)));
            }
            Ok(Some(found)) => found,
        };
        let left: VecDeque<_> = failed(&members).into();
        let Some(&first) = left.front() else {
            return self.answer(ticket, Err(Rejected::NothingToRetry(id)));
        };
        let number = self.env.number();
        let retry = GroupRetry { old, name, left, ticket };
        self.commits.read_jobs(number, vec![first], JobsRead::Retry(Box::new(retry)));
    }

    /// Creates the new group, unless its first member belongs to an application that repeats its jobs itself.
    pub(crate) fn retry_read(&mut self, retry: GroupRetry, found: Result<Vec<Option<Job>>, StoreError>) {
        let GroupRetry { old, name, left, ticket } = retry;
        let id = old.id;
        let checked = match found {
            Ok(found) => {
                found.iter().flatten().try_for_each(|job| self.settings.check_retry(&job.spec.job_type))
            }
            Err(error) => Err(Rejected::Storage { full: false, message: error.to_string() }),
        };
        if let Err(refused) = checked {
            return self.answer(ticket, Err(refused));
        }
        let Some(new) = self.take_ids(1).and_then(|ids| ids.first().copied()) else {
            self.ids.wait(HallTask::Request(HallRequest::RetryGroup { id, name, to: ticket }).into());
            return self.ask_for_ids(1);
        };
        let (created_at, retry_of) = (self.env.wall(), Some(id));
        let group = Group {
            id: GroupId::of(new),
            rev: 1,
            retry_of,
            created_at,
            closed: false,
            cancel: None,
            fails: false,
            end: None,
            ..old
        };
        let fill = Fill { left, made: IdMap::default(), ticket: Some(ticket) };
        let submit = Submit { name, ..Submit::default() };
        let reply_to = ReplyTo::Retry(Box::new(group), Box::new(fill), ticket);
        self.send_plan(Plan::new(submit, Vec::new(), reply_to));
    }

    pub(crate) fn begin_fill(&mut self, id: GroupId, fill: Fill) {
        self.groups.fills.insert(id, fill);
        self.fill_on(id);
    }

    /// Reads the next failed members, or closes the group if there are none left.
    pub(crate) fn fill_on(&mut self, id: GroupId) {
        let Some(open) = self.groups.get(id) else {
            // It was cancelled, and has ended, before any job was created.
            let fill = self.groups.fills.remove(&id);
            if let Some(ticket) = fill.and_then(|fill| fill.ticket) {
                self.answer(ticket, Err(Rejected::GroupEnded(id)));
            }
            return;
        };
        let (closed, busy, group) = (open.group.closed, open.busy, open.group.clone());
        let Some(fill) = self.groups.fills.get_mut(&id) else { return };
        if !closed && !fill.left.is_empty() {
            let at_most = fill.left.len().min(SLICE);
            let ids: Vec<_> = fill.left.drain(..at_most).collect();
            let number = self.env.number();
            return self.commits.read_jobs(number, ids.clone(), JobsRead::Fill(id, ids));
        }
        if busy {
            return self.groups.line_up(id, HallTask::Fill(id).into());
        }
        let ticket = fill.ticket.take();
        if let Some(ticket) = ticket {
            self.answer(ticket, Ok(GroupCreated { id, jobs: Vec::new(), repeated: false }));
        }
        if closed {
            self.groups.fills.remove(&id);
        } else {
            // The fill is kept until this is stored: a write that fails is repeated.
            self.write_group(Group { closed: true, ..group }, None);
        }
    }

    /// Creates the jobs that repeat the failed members that were read.
    pub(crate) fn make_slice(
        &mut self,
        id: GroupId,
        ids: Vec<JobId>,
        found: Result<Vec<Option<Job>>, StoreError>,
    ) {
        let (Ok(found), Some(fill)) = (found, self.groups.fills.get(&id)) else {
            return self.fill_later(id, ids);
        };
        // A copy that succeeded may have been removed since; what it ended says so.
        let old: Vec<Job> = found.into_iter().flatten().filter(|job| !is_copy_won(job)).collect();
        let members: BTreeSet<JobId> = old.iter().map(|job| job.id).collect();
        let before = old.iter().flat_map(|job| job.spec.after.iter().copied());
        let is_ended =
            |id: &JobId| !members.contains(id) && !fill.made.contains_key(id) && !self.jobs.contains(*id);
        let ended: BTreeSet<JobId> = before.filter(is_ended).collect();
        if ended.is_empty() {
            return self.repeat_slice(id, &old, &IdMap::default());
        }
        let (number, ended): (_, Vec<_>) = (self.env.number(), ended.into_iter().collect());
        self.commits.read_jobs(number, ended.clone(), JobsRead::FillInputs(id, old, ended));
    }

    /// Continues a slice with the completed jobs that its members came after.
    pub(crate) fn inputs_read(
        &mut self,
        id: GroupId,
        old: &[Job],
        ids: Vec<JobId>,
        found: Result<Vec<Option<Job>>, StoreError>,
    ) {
        let Ok(found) = found else {
            return self.fill_later(id, old.iter().map(|job| job.id).collect());
        };
        let end = |(id, job): (JobId, Option<Job>)| Some((id, Dependency::of(job?.status.state.name())?));
        let ends = ids.into_iter().zip(found).filter_map(end).collect();
        self.repeat_slice(id, old, &ends);
    }

    fn repeat_slice(&mut self, id: GroupId, old: &[Job], ends: &IdMap<JobId, Dependency>) {
        let Some(fill) = self.groups.fills.get(&id) else { return };
        let place = old.iter().enumerate().map(|(at, job)| (job.id, at)).collect();
        // A dependency whose removal is in flight may be gone when the jobs are stored.
        let is_leaving = |id| self.relations.inputs.is_leaving(id);
        let stays = |job: &Job, before: JobId| match ends.get(&before) {
            Some(how) => how.allows(job.spec.after_any) && !is_leaving(before),
            None => self.jobs.contains(before),
        };
        let jobs: Vec<_> = old.iter().map(|job| repeat_in(id, job, &place, &fill.made, stays)).collect();
        if jobs.is_empty() {
            return self.fill_on(id);
        }
        let (n, ids) = (jobs.len(), old.iter().map(|job| job.id).collect());
        let Some(new) = self.take_ids(n) else {
            self.put_back(id, ids);
            self.ids.wait(HallTask::Fill(id).into());
            return self.ask_for_ids(n);
        };
        let submit = Submit { jobs, ..Submit::default() };
        self.send_plan(Plan::new(submit, new, ReplyTo::Fill(id, ids)));
    }

    /// A slice was created or failed. A slice that the store could not write is tried again later; on any other error
    /// the group stays as it is, and the caller gets the error.
    pub(crate) fn filled(&mut self, id: GroupId, old: Vec<JobId>, made: Result<Vec<JobId>, Rejected>) {
        match made {
            Ok(new) => {
                if let Some(fill) = self.groups.fills.get_mut(&id) {
                    fill.made.extend(old.iter().copied().zip(new));
                }
                self.fill_on(id);
            }
            Err(Rejected::Storage { .. }) => self.fill_later(id, old),
            Err(refused) => {
                let Some(fill) = self.groups.fills.get_mut(&id) else { return };
                fill.left.clear();
                if let Some(ticket) = fill.ticket.take() {
                    self.answer(ticket, Err(refused));
                }
                self.fill_on(id);
            }
        }
    }

    fn put_back(&mut self, id: GroupId, ids: Vec<JobId>) {
        if let Some(fill) = self.groups.fills.get_mut(&id) {
            ids.into_iter().rev().for_each(|id| fill.left.push_front(id));
        }
    }

    fn fill_later(&mut self, id: GroupId, ids: Vec<JobId>) {
        self.put_back(id, ids);
        self.commits.postpone(HallTask::Fill(id).into());
        self.rest();
    }

    /// At start: continues the groups whose filling was interrupted.
    pub(crate) fn begin_fills(&mut self) {
        let open = self.groups.open.values().map(|open| &open.group);
        let half = open.filter(|group| !group.closed);
        let half: Vec<_> = half.filter_map(|group| Some((group.id, group.retry_of?))).collect();
        for (id, from) in half {
            self.resume_fill(id, from);
        }
    }

    pub(crate) fn resume_fill(&mut self, id: GroupId, from: GroupId) {
        let number = self.env.number();
        self.commits.read_members(number, from, MembersRead::Resume(id, from, None));
    }

    /// At start: processes first the members of the ended group, then those of the new group.
    pub(crate) fn resume_retry(
        &mut self,
        (id, from): (GroupId, GroupId),
        old: Option<Vec<JobId>>,
        found: Result<Option<(Group, Vec<Member>)>, StoreError>,
    ) {
        let Ok(found) = found else {
            self.commits.postpone(HallTask::ResumeFill(id, from).into());
            return self.rest();
        };
        let members = found.map_or_else(Vec::new, |(_, members)| members);
        let number = self.env.number();
        match old {
            None => {
                self.commits.read_members(number, id, MembersRead::Resume(id, from, Some(failed(&members))));
            }
            Some(left) => {
                let fill = Fill { left: left.into(), made: IdMap::default(), ticket: None };
                self.groups.fills.insert(id, fill);
                let made = members.into_iter().map(|member| member.id).collect();
                self.read_made(id, made);
            }
        }
    }

    /// Reads which members were repeated already.
    fn read_made(&mut self, id: GroupId, mut left: Vec<JobId>) {
        let ids = left.split_off(left.len().saturating_sub(SLICE));
        let number = self.env.number();
        self.commits.read_jobs(number, ids, JobsRead::Made(id, left));
    }

    pub(crate) fn made_read(
        &mut self,
        id: GroupId,
        left: Vec<JobId>,
        found: Result<Vec<Option<Job>>, StoreError>,
    ) {
        let from = self.groups.get(id).and_then(|open| open.group.retry_of);
        let (Ok(found), Some(fill)) = (found, self.groups.fills.get_mut(&id)) else {
            self.groups.fills.remove(&id);
            if let Some(from) = from {
                self.commits.postpone(HallTask::ResumeFill(id, from).into());
            }
            return self.rest();
        };
        for job in found.into_iter().flatten() {
            if let Some(old) = job.spec.retry_of {
                fill.made.insert(old, job.id);
            }
        }
        if !left.is_empty() {
            return self.read_made(id, left);
        }
        let Fill { left, made, .. } = fill;
        left.retain(|old| !made.contains_key(old));
        self.fill_on(id);
    }
}

/// The members that did not succeed, each as the job that the others are copies of, by id.
fn failed(members: &[Member]) -> Vec<JobId> {
    let mut standings: BTreeMap<JobId, Vec<Standing>> = BTreeMap::new();
    for member in members.iter().filter(|member| !member.attached) {
        let root = member.copy_of.unwrap_or(member.id);
        standings.entry(root).or_default().push(Standing::of(member.state));
    }
    let retried = |copies: Vec<Standing>| Standing::together(copies).is_some_and(Standing::is_retried);
    standings.into_iter().filter_map(|(id, copies)| retried(copies).then_some(id)).collect()
}

/// Whether a member succeeded by another copy than this job.
fn is_copy_won(job: &Job) -> bool {
    matches!(&job.status.state, State::Cancelled(end) if end.failure.reason == COPY_WON)
}

/// A job like this one for the new group, dependent on the jobs that repeat its dependencies, and on those of its
/// dependencies that stay.
fn repeat_in(
    group: GroupId,
    job: &Job,
    place: &BTreeMap<JobId, usize>,
    made: &IdMap<JobId, JobId>,
    stays: impl Fn(&Job, JobId) -> bool,
) -> NewJob {
    let new = |before: &JobId| {
        let here = place.get(before).filter(|_| *before < job.id).map(|&at| After::Position(at));
        let repeated = here.or_else(|| made.get(before).map(|&id| After::Job(id)));
        repeated.or_else(|| stays(job, *before).then_some(After::Job(*before)))
    };
    let after = job.spec.after.iter().filter_map(new).collect();
    let group = Some(group);
    NewJob { after, group, on_duplicate: OnDuplicate::Join, ..again(job.id, &job.spec) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobhall_core::StateName;

    #[test]
    fn a_member_is_retried_if_none_of_its_copies_succeeded() {
        let job = |id| JobId::new(id).unwrap();
        let member = |id, copy_of: Option<u64>, attached, state| Member {
            id: job(id),
            copy_of: copy_of.map(job),
            attached,
            state,
        };
        let members = [
            member(1, None, false, StateName::Failed),
            member(2, None, false, StateName::Succeeded),
            member(3, None, false, StateName::Cancelled),
            member(4, Some(3), false, StateName::Succeeded),
            member(5, None, true, StateName::Failed),
            member(6, None, false, StateName::Crashed),
            member(7, Some(6), false, StateName::Cancelled),
        ];
        assert_eq!(failed(&members), [job(1), job(6)]);
    }
}
