//! Membership in open groups, and the counts of members. The counts change with the jobs, in the same place that
//! counts the queues, so they always sum to the members.

use jobhall_core::{Failure, Group, GroupCounts, GroupId, JobId, JobSpec, Standing, StateName};
use jobhall_store::Member;

use crate::api::effect::Ticket;
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
    pub fn of(id: JobId, spec: &JobSpec) -> Option<Box<Membership>> {
        let root = spec.copy_of.unwrap_or(id);
        spec.group.map(|group| Box::new(Membership { group, id, root, attached: spec.attached }))
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
    pub fn take_fills(&mut self) -> Vec<Ticket> {
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
    use super::*;
    use jobhall_core::Time;
    use proptest::prelude::*;

    fn group() -> Group {
        Group {
            id: GroupId::new(1_000).unwrap(),
            rev: 1,
            name: None,
            owner: None,
            tags: Box::default(),
            retry_of: None,
            created_at: Time::EPOCH,
            closed: false,
            cancel: None,
            end: None,
        }
    }

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
}
