//! Membership in open groups, and the counts of members. The counts change with the jobs, in the same place that
//! counts the queues, so they always sum to the members.

use jobhall_core::{Failure, Group, GroupCounts, GroupId, JobId, JobSpec, Standing, StateName, Time};
use jobhall_store::Member;

use crate::api::answer::GroupCreated;
use crate::api::ticket::Ticket;
use crate::groups::Fill;
use crate::jobs::ids::IdMap;
use crate::kernel::Task;

/// An open job's membership in its group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership {
    pub group: GroupId,
    /// The job.
    pub id: JobId,
    /// The job that it is a copy of, or itself: together they are one member.
    pub root: JobId,
    /// Whether it serves the group without being counted.
    pub attached: bool,
}

impl Membership {
    /// The membership of this job; none if it has no group.
    pub fn of(id: JobId, spec: &JobSpec) -> Option<Membership> {
        let root = spec.copy_of.unwrap_or(id);
        spec.group.map(|group| Membership { group, id, root, attached: spec.attached })
    }
}

/// A group that has not ended.
#[derive(Debug)]
pub(crate) struct OpenGroup {
    /// The group as stored.
    pub group: Group,
    pub counts: GroupCounts,
    /// By job that has copies: its standing and theirs.
    copies: IdMap<JobId, Vec<(JobId, Standing)>>,
    /// Whether a write of it is in flight.
    pub busy: bool,
}

/// All groups that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(super) open: IdMap<GroupId, OpenGroup>,
    /// Groups without open members, to be checked.
    pub(super) quiet: Vec<GroupId>,
    /// Open jobs of which another copy has succeeded, with that copy.
    pub(super) losers: Vec<(JobId, JobId)>,
    /// By group with a write in flight: the tasks that wait for it.
    pub(super) in_line: IdMap<GroupId, Vec<Task>>,
    /// Groups that are being filled.
    pub(super) fills: IdMap<GroupId, Fill>,
}

impl Groups {
    pub fn add(&mut self, group: Group) {
        self.quiet.push(group.id);
        let (counts, copies) = (GroupCounts::default(), IdMap::default());
        self.open.insert(group.id, OpenGroup { group, counts, copies, busy: false });
    }

    /// Number of open groups.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Checks later whether a group has ended.
    pub fn look_at(&mut self, id: GroupId) {
        self.quiet.push(id);
    }

    /// Takes the tasks that wait for a group.
    pub fn take_waiting(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.in_line).into_values().flatten().collect()
    }

    /// Gives up filling groups, and returns the tickets that waited for it.
    pub fn take_fills(&mut self) -> Vec<Ticket<GroupCreated>> {
        std::mem::take(&mut self.fills).into_values().filter_map(|fill| fill.ticket).collect()
    }

    pub fn get(&self, id: GroupId) -> Option<&OpenGroup> {
        self.open.get(&id)
    }

    /// Why a group is being cancelled, if it is.
    pub fn cancel(&self, id: GroupId) -> Option<&Failure> {
        self.get(id)?.group.cancel.as_ref()
    }

    /// At start: restores the completed members. The others are added with the open jobs.
    pub fn restore(&mut self, id: GroupId, members: &[Member]) {
        let Some(open) = self.open.get_mut(&id) else { return };
        for root in members.iter().filter(|member| !member.attached).filter_map(|member| member.copy_of) {
            open.copies.entry(root).or_default();
        }
        for member in members.iter().filter(|member| !member.attached && member.state.is_terminal()) {
            let root = member.copy_of.unwrap_or(member.id);
            open.step(root, member.id, None, Some(Standing::of(member.state)));
        }
    }

    /// Adds a copy of an open job: from now on the two are counted together.
    pub fn copied(&mut self, part: &Membership, root: StateName) {
        let Some(open) = self.open.get_mut(&part.group) else { return };
        open.copies.entry(part.root).or_insert_with(|| vec![(part.root, Standing::of(root))]);
    }

    /// Counts a job of a group that is added, changes or is removed.
    pub fn step(&mut self, part: &Membership, from: Option<StateName>, to: Option<StateName>) {
        if part.attached {
            return;
        }
        let Some(open) = self.open.get_mut(&part.group) else { return };
        let (from, to) = (from.map(Standing::of), to.map(Standing::of));
        if from == to {
            return;
        }
        open.step(part.root, part.id, from, to);
        if to == Some(Standing::Succeeded) {
            let others = open.copies.get(&part.root).into_iter().flatten();
            let going = others.filter(|(_, standing)| !standing.is_over());
            self.losers.extend(going.map(|(other, _)| (*other, part.id)));
        }
        if open.counts.open() == 0 {
            self.quiet.push(part.group);
        }
    }

    /// Keeps a task until no write of the group is in flight.
    pub(super) fn line_up(&mut self, id: GroupId, task: Task) {
        self.in_line.entry(id).or_default().push(task);
    }

    /// Takes the tasks that wait for the write of a group.
    pub(super) fn take_line(&mut self, id: GroupId) -> Vec<Task> {
        self.in_line.remove(&id).unwrap_or_default()
    }

    /// A write of a group begins. Returns the revision that it replaces.
    pub(super) fn begin_write(&mut self, id: GroupId) -> Option<u32> {
        let open = self.open.get_mut(&id)?;
        open.busy = true;
        Some(open.group.rev)
    }

    /// The write of a group has failed; the group is checked again when its writer asks for it.
    pub(super) fn write_failed(&mut self, id: GroupId) {
        if let Some(open) = self.open.get_mut(&id) {
            open.busy = false;
        }
    }

    /// The write of a group has completed: it is checked whether it has ended. Returns the tasks that waited.
    pub(super) fn free(&mut self, id: GroupId) -> Vec<Task> {
        if let Some(open) = self.open.get_mut(&id) {
            open.busy = false;
            self.quiet.push(id);
        }
        self.take_line(id)
    }

    /// A group is stored. Returns whether it is cancelled by that; none if it is not open.
    pub(super) fn stored(&mut self, group: Group) -> Option<bool> {
        let (id, closed) = (group.id, group.closed);
        let open = self.open.get_mut(&id)?;
        let marked = group.cancel.is_some() && open.group.cancel.is_none();
        open.group = group;
        if closed && self.fills.get(&id).is_some_and(Fill::is_done) {
            self.fills.remove(&id);
        }
        Some(marked)
    }

    /// The store has another version of a group, or none: one that has ended is no longer open.
    pub(super) fn learn(&mut self, id: GroupId, stored: Option<Group>) {
        match (stored, self.open.get_mut(&id)) {
            (Some(stored), Some(open)) if stored.end.is_none() => open.group = stored,
            _ => drop(self.open.remove(&id)),
        }
    }

    /// The group with its end, if it ends now and no write of it is in flight.
    pub(super) fn ended(&self, id: GroupId, now: Time) -> Option<Group> {
        let open = self.get(id).filter(|open| !open.busy)?;
        let end = open.group.ends(&open.counts, now)?;
        Some(Group { end: Some(end), ..open.group.clone() })
    }

    /// At start: the groups that are being cancelled.
    pub(super) fn cancelled(&self) -> Vec<GroupId> {
        let open = self.open.values();
        open.filter(|open| open.group.cancel.is_some()).map(|open| open.group.id).collect()
    }

    /// At start: finds open copies of which another has succeeded.
    pub fn find_losers(&mut self) {
        for open in self.open.values() {
            for copies in open.copies.values() {
                let Some((winner, _)) = copies.iter().find(|(_, it)| *it == Standing::Succeeded) else {
                    continue;
                };
                let going = copies.iter().filter(|(_, standing)| !standing.is_over());
                self.losers.extend(going.map(|(other, _)| (*other, *winner)));
            }
        }
    }
}

impl OpenGroup {
    fn step(&mut self, root: JobId, id: JobId, from: Option<Standing>, to: Option<Standing>) {
        let Some(copies) = self.copies.get_mut(&root) else { return self.counts.step(from, to) };
        let together = |copies: &[(JobId, Standing)]| Standing::together(copies.iter().map(|copy| copy.1));
        let before = together(copies);
        copies.retain(|(copy, _)| *copy != id);
        copies.extend(to.map(|to| (id, to)));
        let after = together(copies);
        self.counts.step(before, after);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::{group, id, numbers, spec, task, time};

    fn part(id: u64, root: u64) -> Membership {
        let job = |id| JobId::new(id).unwrap();
        Membership { group: group().id, id: job(id), root: job(root), attached: id.is_multiple_of(7) }
    }

    proptest! {
        /// After any changes, the counts equal a recount of the members, and sum to them. A restart on the same jobs
        /// gives the same counts.
        #[test]
        fn counts_always_sum_to_the_members(moves in prop::collection::vec((1u64..20, 0usize..12), 0..200)) {
            let mut groups = Groups::default();
            groups.add(group());
            // Jobs 11 to 19 are copies of 1 to 9; those that can be divided by 7 are attached.
            let mut states: std::collections::BTreeMap<u64, StateName> = std::collections::BTreeMap::new();
            for (id, state) in moves {
                let root = if id > 10 { id - 10 } else { id };
                let (part, to) = (part(id, root), StateName::ALL[state]);
                let known = states.get(&id).copied();
                if known.is_some_and(StateName::is_terminal) || (known.is_none() && to.is_terminal()) {
                    continue;
                }
                if known.is_none() && root != id {
                    match states.get(&root) {
                        Some(state) if !state.is_terminal() && root != 7 => groups.copied(&part, *state),
                        _ => continue,
                    }
                }
                groups.step(&part, known, Some(to));
                states.insert(id, to);
                let mut counts = GroupCounts::default();
                for root in (1..=10u64).filter(|root| *root != 7 && states.contains_key(root)) {
                    let copies = [root, root + 10].into_iter().filter(|id| !id.is_multiple_of(7));
                    let standings = copies.filter_map(|id| states.get(&id)).map(|state| Standing::of(*state));
                    counts.step(None, Standing::together(standings));
                }
                prop_assert_eq!(groups.get(group().id).unwrap().counts, counts);
            }
            let mut again = Groups::default();
            again.add(group());
            let members: Vec<_> = states.iter().map(|(&id, &state)| {
                let copy_of = (id > 10).then(|| JobId::new(id - 10).unwrap());
                Member { id: JobId::new(id).unwrap(), copy_of, attached: id.is_multiple_of(7), state }
            }).collect();
            again.restore(group().id, &members);
            for (&id, &state) in states.iter().filter(|(_, state)| !state.is_terminal()) {
                let part = part(id, if id > 10 { id - 10 } else { id });
                again.step(&part, None, Some(state));
            }
            let [one, other] = [&groups, &again].map(|groups| groups.get(group().id).unwrap().counts);
            prop_assert_eq!(one, other);
        }
    }
    /// An open group whose first check is done.
    fn groups(group: Group) -> Groups {
        let mut groups = Groups::default();
        groups.add(group);
        assert_eq!(std::mem::take(&mut groups.quiet).len(), 1, "a new group is checked");
        groups
    }

    fn cancel() -> Option<Failure> {
        Some(Failure::new("stop", "asked"))
    }

    #[test]
    fn the_root_of_a_copy_is_the_job_that_it_copies() {
        let member = |copy_of| JobSpec { group: Some(group().id), copy_of, attached: true, ..spec() };
        assert!(Membership::of(id(2), &spec()).is_none());
        let [copy, job] = [Some(id(1)), None].map(|of| Membership::of(id(2), &member(of)).unwrap());
        assert_eq!((copy.id, copy.root, copy.attached), (id(2), id(1), true));
        assert_eq!((job.id, job.root, job.group), (id(2), id(2), group().id));
    }

    #[test]
    fn a_group_is_checked_when_its_last_open_member_has_ended() {
        let mut groups = groups(group());
        for job in [1, 2] {
            groups.step(&part(job, job), None, Some(StateName::Queued));
        }
        groups.step(&part(1, 1), Some(StateName::Queued), Some(StateName::Failed));
        assert!(groups.quiet.is_empty());
        groups.step(&part(2, 2), Some(StateName::Queued), Some(StateName::Succeeded));
        assert_eq!(groups.quiet, [group().id]);
        let counts = groups.get(group().id).unwrap().counts;
        assert_eq!((counts.failed, counts.succeeded, counts.open()), (1, 1, 0));
    }

    #[test]
    fn an_attached_job_is_not_counted() {
        let mut groups = groups(group());
        groups.step(&part(7, 7), None, Some(StateName::Queued));
        assert_eq!(groups.get(group().id).unwrap().counts.total(), 0);
    }

    #[test]
    fn the_copies_of_a_job_that_succeeded_lose_unless_they_have_ended() {
        let mut groups = groups(group());
        groups.step(&part(1, 1), None, Some(StateName::Queued));
        for copy in [11, 12, 13] {
            groups.copied(&part(copy, 1), StateName::Queued);
            groups.step(&part(copy, 1), None, Some(StateName::Queued));
        }
        groups.step(&part(13, 1), Some(StateName::Queued), Some(StateName::Failed));
        assert!(groups.losers.is_empty());
        groups.step(&part(11, 1), Some(StateName::Queued), Some(StateName::Succeeded));
        let mut losers = std::mem::take(&mut groups.losers);
        losers.sort_unstable();
        assert_eq!(losers, [(id(1), id(11)), (id(12), id(11))]);
        assert_eq!(groups.get(group().id).unwrap().counts.total(), 1, "all copies are one member");
        groups.find_losers();
        assert_eq!(groups.losers.len(), 2, "a restart finds them again");
    }

    #[test]
    fn a_group_ends_when_it_is_closed_and_quiet_and_no_write_is_in_flight() {
        let mut groups = groups(Group { closed: true, rev: 4, ..group() });
        groups.step(&part(1, 1), None, Some(StateName::Queued));
        assert!(groups.ended(group().id, time(9)).is_none());
        groups.step(&part(1, 1), Some(StateName::Queued), Some(StateName::Failed));
        let end = groups.ended(group().id, time(9)).unwrap().end.unwrap();
        assert_eq!(end.counts.failed, 1);
        assert_eq!(groups.begin_write(group().id), Some(4));
        assert!(groups.ended(group().id, time(9)).is_none());
        groups.write_failed(group().id);
        assert!(groups.ended(group().id, time(9)).is_some());
    }

    #[test]
    fn tasks_wait_for_the_write_of_their_group() {
        let mut groups = groups(group());
        groups.begin_write(group().id);
        [3, 1].into_iter().for_each(|n| groups.line_up(group().id, task(n)));
        let other = GroupId::new(2_000).unwrap();
        groups.line_up(other, task(2));
        assert_eq!(numbers(&groups.free(group().id)), [3, 1]);
        assert!(!groups.get(group().id).unwrap().busy && groups.quiet == [group().id]);
        assert_eq!(numbers(&groups.free(other)), [2]);
        assert_eq!(groups.quiet.len(), 1, "a group that is not open is not checked");
        groups.line_up(other, task(4));
        assert_eq!(numbers(&groups.take_waiting()), [4]);
    }

    #[test]
    fn a_cancel_is_stored_once() {
        let mut groups = groups(group());
        assert_eq!(groups.stored(Group { closed: true, ..group() }), Some(false));
        let cancelled = Group { cancel: cancel(), ..group() };
        assert_eq!(groups.stored(cancelled.clone()), Some(true));
        assert_eq!(groups.stored(cancelled), Some(false));
        assert_eq!((groups.cancel(group().id), groups.cancelled()), (cancel().as_ref(), vec![group().id]));
        let unknown = Group { id: GroupId::new(2_000).unwrap(), ..group() };
        assert_eq!(groups.stored(unknown), None);
    }

    #[test]
    fn a_group_is_filled_until_it_is_closed_with_all_its_jobs_and_an_answer() {
        let fills = [Fill::of(&[id(1)], None), Fill::of(&[], Some(Ticket::new(5))), Fill::of(&[], None)];
        let closed = Group { closed: true, ..group() };
        let done = fills.map(|fill| {
            let mut groups = groups(group());
            groups.fills.insert(group().id, fill);
            groups.stored(group());
            assert_eq!(groups.fills.len(), 1, "it is not closed");
            groups.stored(closed.clone());
            groups.fills.is_empty()
        });
        assert_eq!(done, [false, false, true]);
    }

    #[test]
    fn fills_that_are_given_up_return_the_tickets_that_wait() {
        let mut groups = groups(group());
        groups.fills.insert(group().id, Fill::of(&[id(1)], Some(Ticket::new(5))));
        groups.fills.insert(GroupId::new(2_000).unwrap(), Fill::of(&[id(1)], None));
        assert_eq!(groups.take_fills(), [Ticket::new(5)]);
        assert!(groups.fills.is_empty());
    }

    #[test]
    fn a_group_is_open_until_the_store_has_its_end_or_no_row() {
        let mut groups = groups(group());
        groups.learn(group().id, Some(Group { rev: 8, ..group() }));
        assert_eq!(groups.begin_write(group().id), Some(8));
        groups.write_failed(group().id);
        let end = groups.get(group().id).unwrap().group.clone();
        let end = Group { closed: true, ..end }.ends(&GroupCounts::default(), time(9));
        assert!(end.is_some());
        groups.learn(group().id, Some(Group { end, ..group() }));
        assert!(groups.get(group().id).is_none());
        groups.add(group());
        groups.learn(group().id, None);
        assert_eq!(groups.len(), 0);
    }
}
