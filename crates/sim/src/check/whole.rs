//! Checks the whole store from time to time: no unreported change, and a restart would find everything.

use std::collections::BTreeSet;

use jobhall_core::JobId;
use jobhall_store::{Block, Prune};

use super::shelf::Shelf;
use super::{Checker, Invariant};

impl Checker {
    /// Checks the jobs that retention removes.
    pub fn pruned(&mut self, shelf: &impl Shelf, prune: &Prune) {
        for &id in &prune.jobs {
            let Some(row) = self.rows.get(&id) else { continue };
            if shelf.row(id).is_some() {
                continue;
            }
            let ended = row.status.state.is_terminal();
            let ruled = self.ruled.contains(row.spec.job_type.as_str());
            let group = row.spec.group.and_then(|group| self.groups.get(&group));
            let in_open_group = group.is_some_and(|group| group.end.is_none());
            self.must(ended && ruled && !in_open_group, Invariant::Stored, &[id], || {
                format!(
                    "job {id} is removed; completed: {ended}, its type has a rule: {ruled}, its group is open: \
                     {in_open_group}"
                )
            });
            let dependent = self.dependent(id);
            self.must(dependent.is_none(), Invariant::Dependency, &[id], || {
                format!("job {id} is removed, but job {dependent:?} comes after it and is open")
            });
            self.rows.remove(&id);
            self.removed.insert(id);
        }
        for id in &prune.groups {
            let ended = self.groups.get(id).is_none_or(|group| group.end.is_some());
            let left: Vec<_> =
                self.rows.values().filter(|job| job.spec.group == Some(*id)).map(|job| job.id).collect();
            self.must(ended && left.is_empty(), Invariant::Group, &left, || {
                format!("group {id} is removed; it has ended: {ended}, these jobs of it are left: {left:?}")
            });
            self.groups.remove(id);
        }
        let Some(before) = prune.idempotency_keys_before else { return };
        for named in self.names.values_mut().flatten().filter(|named| named.at < before) {
            // The key was removed, so it may be stored again.
            named.at = jobhall_core::Time::EPOCH;
        }
    }

    pub fn whole(&mut self, shelf: &impl Shelf) {
        let stored: BTreeSet<JobId> = shelf.rows().iter().map(|job| job.id).collect();
        let known: Vec<JobId> = self.rows.keys().copied().collect();
        for id in stored.iter().copied().chain(known.into_iter().filter(|id| !stored.contains(id))) {
            self.look(shelf, id);
        }
        let lost: Vec<_> = self.acknowledged.iter().copied().collect();
        let lost: Vec<_> =
            lost.into_iter().filter(|id| !stored.contains(id) && !self.removed.contains(id)).collect();
        self.must(lost.is_empty(), Invariant::Stored, &lost, || {
            format!("acknowledged, not stored: {lost:?}")
        });
        self.blocks_cover(&shelf.blocks());
        let found: Vec<_> = shelf.open_jobs().iter().map(|job| job.id).collect();
        let open = self.open();
        self.must(found == open, Invariant::Sound, &open, || {
            format!("a start would find {found:?} and not {open:?}")
        });
        self.feed_dense(shelf);
    }

    fn blocks_cover(&mut self, blocks: &[Block]) {
        let covers = |block: &Block, id: JobId| {
            (block.first..=block.last).contains(&id)
                && block.live.as_ref().is_none_or(|live| live.contains(&id))
        };
        for id in self.open() {
            let covered = blocks.iter().any(|block| covers(block, id));
            self.must(covered, Invariant::Sound, &[id], || format!("no block covers the open job {id}"));
        }
    }

    fn feed_dense(&mut self, shelf: &impl Shelf) {
        let page = shelf.feed();
        let mut expected = page.pruned_to;
        for row in &page.rows {
            expected += 1;
            let same = row.n == expected && self.feed.get(&row.n) == Some(&row.entries);
            self.must(same, Invariant::Sound, &[], || {
                format!("feed row {} is wrong; expected {expected}", row.n)
            });
        }
        let last = self.feed_last;
        self.must(expected == last, Invariant::Sound, &[], || {
            format!("the feed ends at {expected} and not {last}")
        });
    }
}
