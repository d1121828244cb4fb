//! Groups: their members are recounted from the rows whenever the kernel reports its counts and whenever a group
//! ends.
//!
//! The rules for a verdict are implemented here a second time: one failure decides, then one cancel, and an empty
//! group has succeeded.

use std::collections::BTreeMap;

use jobhall_core::{Group, GroupCounts, GroupId, GroupVerdict, Job, JobId, State, StateName, Unsuccessful};
use jobhall_kernel::ShownGroup;
use jobhall_store::{GroupWrite, Unit};

use super::{Checker, Invariant};
use crate::storage::vault::Vault;

/// Precedence of the states of copies: the first state in this order is the state of the member.
const FIRST: [StateName; 12] = [
    StateName::Succeeded,
    StateName::Assigned,
    StateName::Accepted,
    StateName::Running,
    StateName::Waiting,
    StateName::Scheduled,
    StateName::Queued,
    StateName::Blocked,
    StateName::Retrying,
    StateName::Failed,
    StateName::Crashed,
    StateName::Cancelled,
];

impl Checker {
    /// Groups that have not ended.
    pub fn open_groups(&self) -> Vec<GroupId> {
        self.groups.values().filter(|group| group.end.is_none()).map(|group| group.id).collect()
    }

    /// Groups that must be closed before they can end.
    pub fn groups_to_close(&self) -> Vec<GroupId> {
        let open = self.groups.values().filter(|group| group.is_joinable());
        open.map(|group| group.id).collect()
    }

    fn members(&self, id: GroupId) -> impl Iterator<Item = &Job> {
        self.rows.values().filter(move |job| job.spec.group == Some(id) && !job.spec.attached)
    }

    /// Recounts the members of a group.
    fn recount(&self, id: GroupId) -> GroupCounts {
        let mut members: BTreeMap<JobId, usize> = BTreeMap::new();
        for job in self.members(id) {
            let (root, state) = (job.spec.copy_of.unwrap_or(job.id), job.status.state.name());
            let at = FIRST.iter().position(|first| *first == state).unwrap_or(FIRST.len());
            members.entry(root).and_modify(|known| *known = at.min(*known)).or_insert(at);
        }
        let mut counts = GroupCounts::default();
        for at in members.into_values() {
            match at {
                0 => counts.succeeded += 1,
                1..=4 => counts.active += 1,
                5..=8 => counts.pending += 1,
                9 => counts.failed += 1,
                10 => counts.crashed += 1,
                _ => counts.cancelled += 1,
            }
        }
        counts
    }

    /// Checks the counts of the kernel; no unit is pending in the store.
    pub fn groups_counted(&mut self, told: &[ShownGroup]) {
        let open = self.open_groups();
        let known: Vec<_> = told.iter().map(|shown| shown.group.id).collect();
        self.must(known == open, Invariant::Group, &[], || {
            format!("the kernel has the groups {known:?}, stored are {open:?}")
        });
        for shown in told {
            let (id, counts) = (shown.group.id, self.recount(shown.group.id));
            let jobs: Vec<_> = self.members(id).map(|job| job.id).collect();
            self.must(shown.counts == counts, Invariant::Group, &jobs, || {
                format!("group {id}: the kernel counts {:?}, the rows say {counts:?}", shown.counts)
            });
        }
    }

    /// A unit was stored: checks its groups and its jobs in groups.
    pub(super) fn groups_stored(&mut self, vault: &Vault, unit: &Unit) {
        for insert in &unit.inserts {
            let Some(id) = insert.job.spec.group else { continue };
            let made_here = unit.groups.iter().any(|write| write.group.id == id && write.expected == 0);
            let helper = insert.job.spec.attached || insert.job.spec.copy_of.is_some();
            let takes = |group: &Group| {
                if helper { group.end.is_none() && group.cancel.is_none() } else { !group.closed }
            };
            let open = self.groups.get(&id).is_some_and(takes);
            let job = insert.job.id;
            self.must(made_here || open, Invariant::Group, &[job], || {
                format!("job {job} joined group {id}, which is closed or missing")
            });
        }
        for write in &unit.groups {
            let id = write.group.id;
            let stored = vault.group(id).map(|(group, _)| group);
            self.must(stored.as_ref() == Some(&write.group), Invariant::Stored, &[], || {
                format!("group {id} is {stored:?} and not {:?}", write.group)
            });
            self.group_moved(write);
            self.groups.insert(id, write.group.clone());
        }
    }

    fn group_moved(&mut self, write: &GroupWrite) {
        let (group, id) = (&write.group, write.group.id);
        let before = self.groups.get(&id).cloned();
        let same = |before: &Group| {
            (before.end.is_none(), before.rev + 1) == (true, group.rev)
                && (!before.closed || group.closed)
                && (!before.fails || group.fails)
                && (group.cancel.is_some() || !group.fails)
                && before.cancel.as_ref().is_none_or(|cancel| group.cancel.as_ref() == Some(cancel))
        };
        self.must(before.as_ref().is_none_or(same), Invariant::Final, &[], || {
            format!("group {id} went from {before:?} to {group:?}")
        });
        if group.cancel.is_some() && before.is_some_and(|before| before.cancel.is_none()) {
            self.seen.push(("groups", "cancelled"));
        }
        let Some(end) = group.end else { return };
        let (counts, jobs) = (self.recount(id), self.members(id).map(|job| job.id).collect::<Vec<_>>());
        let verdict = match counts {
            _ if group.fails => GroupVerdict::Failed,
            _ if counts.failed + counts.crashed > 0 => GroupVerdict::Failed,
            _ if counts.cancelled > 0 || group.cancel.is_some() => GroupVerdict::Cancelled,
            _ => GroupVerdict::Succeeded,
        };
        let good = group.closed && counts.pending + counts.active == 0;
        self.must(good && (end.counts, end.verdict) == (counts, verdict), Invariant::Group, &jobs, || {
            format!("group {id} ended with {end:?}, the rows say {counts:?}: {verdict:?}")
        });
        self.seen.push((
            "groups",
            match verdict {
                GroupVerdict::Succeeded => "succeeded",
                GroupVerdict::Failed => "failed",
                GroupVerdict::Cancelled => "ended cancelled",
            },
        ));
    }

    /// A retried group is acknowledged: each failed member that can be retried was retried once.
    pub(super) fn group_retried(&mut self, old: GroupId, new: GroupId) {
        let Some(group) = self.groups.get(&new).cloned() else {
            return self.fail(Invariant::Stored, &[], format!("group {new} is acknowledged, not stored"));
        };
        self.must(group.retry_of == Some(old), Invariant::Group, &[], || {
            format!("group {new} is the retry of {old}, but is stored as {group:?}")
        });
        let mut made: BTreeMap<JobId, u32> = BTreeMap::new();
        let of = self.members(new).filter_map(|job| job.spec.retry_of);
        of.for_each(|of| *made.entry(of).or_default() += 1);
        let twice: Vec<_> = made.iter().filter(|(_, times)| **times > 1).map(|(id, _)| *id).collect();
        // A copy is retried through its original; a job with a key may have been joined elsewhere.
        let copies: Vec<_> = self.members(old).filter_map(|job| job.spec.copy_of).collect();
        let failed = self.members(old).filter(|job| {
            let state = job.status.state.name();
            let won = matches!(&job.status.state, State::Cancelled(end) if end.failure.reason == "copy_won");
            state.is_terminal() && state != StateName::Succeeded && !won && job.spec.key.is_none()
        });
        let plain = failed.filter(|job| job.spec.copy_of.is_none() && !copies.contains(&job.id));
        let missing: Vec<_> = plain.map(|job| job.id).filter(|id| !made.contains_key(id)).collect();
        let whole = missing.is_empty() || group.cancel.is_some();
        self.must(twice.is_empty() && whole, Invariant::Group, &missing, || {
            format!("group {new} has {twice:?} of group {old} twice, and lacks {missing:?}")
        });
        self.seen.push(("groups", "retried"));
    }

    /// Whether a job is cancelled because its group is, or because a copy of it has succeeded.
    pub(super) fn cancelled_in_group(&self, job: &Job, defeat: &Unsuccessful) -> bool {
        let Some(id) = job.spec.group else { return self.is_copy_won(job, defeat) };
        let cancel = self.groups.get(&id).and_then(|group| group.cancel.as_ref());
        cancel == Some(&defeat.failure) || self.is_copy_won(job, defeat)
    }

    fn is_copy_won(&self, job: &Job, defeat: &Unsuccessful) -> bool {
        let root = job.spec.copy_of.unwrap_or(job.id);
        let copy = |other: &&Job| other.id == root || other.spec.copy_of == Some(root);
        defeat.failure.reason == "copy_won"
            && self
                .rows
                .values()
                .filter(copy)
                .any(|other| other.id != job.id && other.status.state.name() == StateName::Succeeded)
    }
}
