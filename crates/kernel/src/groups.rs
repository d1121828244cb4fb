//! Groups: create, close, cancel and end. A group that has ended is only in the store.
//!
//! A group ends with one write after its last member. A cancel is first stored as a mark; then the group's jobs are
//! ended in slices. A server that stops in between finds the mark and the jobs at its next start, and continues.

pub(crate) mod membership;
pub(crate) mod retry;

use jobhall_core::bounds::TAGS;
use jobhall_core::{
    Failure, Group, GroupCounts, GroupId, GroupState, Job, JobId, Key, Owner, StateName, Tag,
};
use jobhall_store::{Conflict, GroupWrite, Member, Unit};

use crate::api::answer::{Rejected, Reply, TypedAnswer};
use crate::api::effect::Effect;
use crate::api::ticket::Ticket;
use crate::commits::settle::Pending;
use crate::groups::membership::Membership;
use crate::kernel::{HallTask, Kernel};
use crate::relations::cascade::CascadeCause;

pub(crate) use retry::Fill;

/// A group to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewGroup {
    /// A name for users.
    pub name: Option<Key>,
    /// The owner.
    pub owner: Option<Owner>,
    /// Tags for filtering.
    pub tags: Vec<Tag>,
    /// Whether it accepts no members other than those created with it.
    pub closed: bool,
}

impl NewGroup {
    pub(crate) fn check(&self) -> Result<(), Rejected> {
        let (given, most) = (self.tags.len() as u64, TAGS as u64);
        if given > most { Err(Rejected::Bound { field: "tags", given, least: 0, most }) } else { Ok(()) }
    }

    pub(crate) fn make(self, id: GroupId, created_at: jobhall_core::Time) -> Group {
        let mut tags = self.tags;
        tags.sort_unstable();
        tags.dedup();
        Group {
            id,
            rev: 1,
            name: self.name,
            owner: self.owner,
            tags: tags.into(),
            retry_of: None,
            created_at,
            closed: self.closed,
            cancel: None,
            fails: false,
            end: None,
        }
    }
}

/// A group as shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownGroup {
    /// The group.
    pub group: Group,
    /// Its state.
    pub state: GroupState,
    /// The counts of its members.
    pub counts: GroupCounts,
}

impl ShownGroup {
    /// A group with these members; one that has ended keeps the counts of its end.
    pub fn new(group: Group, counts: GroupCounts) -> ShownGroup {
        let counts = group.end.map_or(counts, |end| end.counts);
        ShownGroup { state: group.state(&counts), group, counts }
    }
}

/// A request to close a group, or to cancel it for this reason.
#[derive(Clone, Debug)]
pub(crate) struct GroupChange {
    pub id: GroupId,
    pub cancel: Option<Failure>,
    /// Whether the cancel stops it as failed.
    pub fails: bool,
    pub to: Ticket<Box<ShownGroup>>,
}

impl GroupChange {
    /// The answer that rejects it.
    pub fn rejected(&self, why: Rejected) -> TypedAnswer {
        Reply::answer(self.to, Err(why))
    }
}

/// A write of a group in flight.
#[derive(Debug)]
pub(crate) struct GroupPending {
    group: Group,
    /// The request that caused it; none if the kernel did.
    asked: Option<GroupChange>,
}

impl Kernel {
    /// At start, before the open jobs: restores a group that has not ended, with all its members.
    pub fn restore_group(&mut self, group: Group, members: &[Member]) {
        let id = group.id;
        self.groups.add(group);
        self.groups.restore(id, members);
    }

    /// At start, after the open jobs: continues pending operations on groups.
    pub(crate) fn begin_groups(&mut self) {
        for id in self.groups.cancelled() {
            self.cancel_members(id);
        }
        self.groups.find_losers();
        self.begin_fills();
    }

    /// Counts an open job into its group.
    pub(crate) fn join_group(&mut self, part: &Membership, state: StateName) {
        self.groups.step(part, None, Some(state));
    }

    /// Registers a new job that may be a copy: it is counted with its original, which is still open.
    pub(crate) fn expect_copy(&mut self, job: &Job) {
        let part = Membership::of(job.id, &job.spec).filter(|part| part.root != part.id && !part.attached);
        let root = part.as_ref().and_then(|part| self.jobs.get(part.root));
        if let (Some(root), Some(part)) = (root.map(|entry| entry.counted), part) {
            self.groups.copied(&part, root);
        }
    }

    /// Returns why a group is being cancelled, if it is.
    pub(crate) fn group_cancel(&self, id: GroupId) -> Option<Failure> {
        self.groups.cancel(id).cloned()
    }

    /// Checks whether a job may be added to this group: a member, or a `helper` that is attached or a copy.
    pub(crate) fn check_joinable(&self, id: GroupId, helper: bool) -> Result<(), Rejected> {
        let group = &self.groups.get(id).ok_or(Rejected::NoSuchGroup(id))?.group;
        let taken = if helper { group.takes_helpers() } else { group.is_joinable() };
        if taken { Ok(()) } else { Err(Rejected::GroupClosed(id)) }
    }

    pub(crate) fn show_group(&self, id: GroupId) -> Result<Box<ShownGroup>, Rejected> {
        let open = self.groups.get(id).ok_or(Rejected::NoSuchGroup(id))?;
        Ok(Box::new(ShownGroup::new(open.group.clone(), open.counts)))
    }

    /// Every group that has not ended, with the counts of its members, by id.
    pub fn groups_counted(&self) -> Vec<ShownGroup> {
        let open = self.groups.open.values();
        let mut shown: Vec<_> = open.map(|open| ShownGroup::new(open.group.clone(), open.counts)).collect();
        shown.sort_by_key(|shown| shown.group.id);
        shown
    }

    /// Closes or cancels an open group: one write, then its consequences.
    pub(crate) fn change_group(&mut self, change: GroupChange) {
        let (id, to) = (change.id, change.to);
        let Some(open) = self.groups.get(id) else {
            return self.answer(to, Err(Rejected::NoSuchGroup(id)));
        };
        if open.busy {
            return self.groups.line_up(id, HallTask::ChangeGroup(Box::new(change)).into());
        }
        let cancel = open.group.cancel.clone().or_else(|| change.cancel.clone());
        let fails = open.group.fails || change.fails;
        if open.group.closed && (&open.group.cancel, open.group.fails) == (&cancel, fails) {
            let shown = self.show_group(id);
            return self.answer(to, shown);
        }
        let group = Group { closed: true, cancel, fails, ..open.group.clone() };
        self.write_group(group, Some(change));
    }

    /// Sends the new state of a group, decided on its state in memory.
    fn write_group(&mut self, mut group: Group, asked: Option<GroupChange>) {
        let Some(expected) = self.groups.begin_write(group.id) else { return };
        group.rev = expected + 1;
        let write = GroupWrite { expected, group: group.clone() };
        let pending = Pending::Group(Box::new(GroupPending { group, asked }));
        self.send(Unit { groups: vec![write], ..Unit::default() }, pending);
    }

    pub(crate) fn group_stored(&mut self, pending: GroupPending) {
        let GroupPending { group, asked } = pending;
        let (id, ended) = (group.id, group.end.map(|_| group.state(&GroupCounts::default())));
        let Some(marked) = self.groups.stored(group) else { return };
        if let Some(change) = asked {
            let shown = self.show_group(id);
            self.answer(change.to, shown);
        }
        if let Some(state) = ended {
            self.groups.open.remove(&id);
            self.effect(Effect::GroupEnded(id, state));
        }
        if marked {
            self.cancel_members(id);
        }
        self.free_group(id);
    }

    /// A write of a group has completed or failed.
    fn free_group(&mut self, id: GroupId) {
        for task in self.groups.free(id) {
            self.enqueue(task);
        }
    }

    /// Queues the end of all open jobs of a group, including those that serve it.
    fn cancel_members(&mut self, group: GroupId) {
        let of_group = |entry: &crate::jobs::entry::Entry| {
            entry.member().filter(|part| part.group == group).map(|part| part.id)
        };
        let mut ids: Vec<JobId> = self.jobs.iter().filter_map(|(_, entry)| of_group(entry)).collect();
        ids.sort_unstable();
        for id in ids {
            self.relations.cascade_to(id, CascadeCause::Group(group));
        }
    }

    /// Ends the groups whose members are all completed, and the jobs whose copy has succeeded.
    pub(crate) fn end_groups(&mut self) {
        for id in std::mem::take(&mut self.groups.quiet) {
            if let Some(group) = self.groups.ended(id, self.env.wall()) {
                self.write_group(group, None);
            }
        }
        for (id, winner) in std::mem::take(&mut self.groups.losers) {
            self.relations.cascade_to(id, CascadeCause::Copy(winner));
        }
    }

    pub(crate) fn group_conflicted(&mut self, pending: GroupPending, conflicts: Vec<Conflict>) {
        let id = pending.group.id;
        for conflict in conflicts {
            let Conflict::Group { stored, .. } = conflict else { continue };
            self.groups.learn(id, stored.map(|stored| *stored));
        }
        self.free_group(id);
        if self.groups.fills.contains_key(&id) {
            self.enqueue(HallTask::Fill(id));
        }
        if let Some(change) = pending.asked {
            self.enqueue(HallTask::ChangeGroup(Box::new(change)));
        }
    }

    pub(crate) fn group_undone(&mut self, pending: &GroupPending, refused: Rejected) {
        let id = pending.group.id;
        self.groups.write_failed(id);
        match &pending.asked {
            Some(change) => self.answer(change.to, Err(refused)),
            None if self.groups.fills.contains_key(&id) => self.commits.postpone(HallTask::Fill(id).into()),
            None => self.commits.postpone(HallTask::LookAtGroup(id).into()),
        }
        for task in self.groups.take_line(id) {
            self.enqueue(task);
        }
    }
}
