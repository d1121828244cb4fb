//! Checks the effect of every commit on the rows.

use jobhall_core::{Blocked, Job, JobId, JobSpec, Key, State, StateName, TypeName, Unsuccessful};
use jobhall_store::{Committed, FeedEntry, StoredIdempotencyKey, Unit};

use super::dependencies::is_cascading;
use super::shelf::Shelf;
use super::{Checker, Invariant, Named};
use crate::storage::vault::Vault;

/// The bounds of the design, defined here a second time.
const LOST: u16 = 3;
const UNACCEPTED: u16 = 10;

/// The dependencies of a job that is not blocked.
const FREE: Blocked = Blocked { holder: None, dependencies: false };

impl Checker {
    /// The store applied a commit, whether or not the reply arrives.
    pub fn applied(&mut self, vault: &Vault, units: &[Unit], committed: &Committed) {
        self.commits += 1;
        let mut entries = Vec::new();
        for (unit, result) in units.iter().zip(&committed.results) {
            if result.is_ok() {
                self.unit_stored(vault, unit, &mut entries);
            } else {
                unit.changes.iter().for_each(|change| self.look(vault, change.id));
            }
        }
        self.feed_written(committed.feed, entries);
    }

    /// The store acknowledges a commit: its changes must be in the rows, or later changes.
    pub fn acknowledges(&mut self, units: &[Unit], committed: &Committed) {
        let done = units.iter().zip(&committed.results).filter(|(_, result)| result.is_ok());
        for unit in done.map(|(unit, _)| unit) {
            let changed = unit.changes.iter().map(|change| (change.id, change.status.rev));
            let new = unit.inserts.iter().map(|insert| (insert.job.id, insert.job.status.rev));
            for (id, rev) in changed.chain(new) {
                let stored = self.rows.get(&id).is_some_and(|row| row.status.rev >= rev);
                self.must(stored || self.removed.contains(&id), Invariant::Stored, &[id], || {
                    format!("rev {rev} of job {id} is acknowledged, but not stored")
                });
            }
        }
    }

    fn unit_stored(&mut self, vault: &Vault, unit: &Unit, entries: &mut Vec<FeedEntry>) {
        self.limited.links.extend(unit.links.iter().map(|link| (link.parent, link.job)));
        for change in &unit.changes {
            let Some(after) = self.stored_row(vault, change.id, &change.status) else { return };
            let Some(before) = self.rows.get(&change.id).cloned() else {
                return self.fail(
                    Invariant::Sound,
                    &[change.id],
                    "a change of a job that was never inserted",
                );
            };
            if let Some(spec) = &change.spec {
                self.must(after.spec == *spec, Invariant::Stored, &[change.id], || {
                    "the new spec was not stored".to_owned()
                });
            }
            self.follows_up(unit, &before, &after);
            self.moved(&before, &after);
            entries.push(FeedEntry { id: after.id, rev: after.status.rev, state: after.status.state.name() });
        }
        for insert in &unit.inserts {
            let Some(after) = self.stored_row(vault, insert.job.id, &insert.job.status) else { return };
            self.entered(after);
            let Some(job) = self.rows.get(&insert.job.id) else { return };
            entries.push(FeedEntry { id: job.id, rev: job.status.rev, state: job.status.state.name() });
        }
        let changed = unit.changes.iter().map(|change| change.id);
        let ids: Vec<_> = changed.chain(unit.inserts.iter().map(|insert| insert.job.id)).collect();
        ids.into_iter().for_each(|id| self.key_held_once(id));
        if let Some(name) = &unit.idempotency_key {
            self.name_stored(name);
        }
        self.groups_stored(vault, unit);
        self.settings_stored(vault, unit);
        self.ticks_stored(unit);
    }

    fn settings_stored(&mut self, vault: &Vault, unit: &Unit) {
        for write in &unit.settings {
            let stored = vault.settings().into_iter().find(|setting| setting.name == write.name);
            let same = match (&write.value, stored) {
                (Some(value), Some(stored)) => stored.value == *value && stored.rev == write.expected + 1,
                (None, None) => true,
                _ => false,
            };
            self.must(same, Invariant::Stored, &[], || format!("the setting {} is not stored", write.name));
            let unruled =
                |value: &String| value.contains("\"keep_ms\":null") && value.contains("\"keep_count\":null");
            if !write.value.as_ref().is_none_or(unruled) {
                self.ruled.insert(write.name.clone());
            }
        }
    }

    fn stored_row(&mut self, vault: &Vault, id: JobId, status: &jobhall_core::JobStatus) -> Option<Job> {
        let row = vault.row(id);
        let same = row.as_ref().is_some_and(|row| row.status == *status);
        self.must(same, Invariant::Stored, &[id], || {
            format!("job {id}: a unit was acknowledged, but the row is {row:?} and not {status:?}")
        });
        row.filter(|_| same)
    }

    /// Checks that a row has not changed.
    pub(super) fn look(&mut self, shelf: &impl Shelf, id: JobId) {
        let (before, after) = (self.rows.get(&id).cloned(), shelf.row(id));
        match (before, after) {
            (Some(before), Some(after)) if before.status != after.status => self.moved(&before, &after),
            (Some(before), Some(after)) => self.same_spec(&before.spec, &after.spec, id),
            (Some(_), None) => self.fail(Invariant::Stored, &[id], format!("job {id} is missing")),
            (None, Some(_)) => self.fail(Invariant::Sound, &[id], format!("job {id} has an unknown origin")),
            (None, None) => {}
        }
    }

    fn same_spec(&mut self, before: &JobSpec, after: &JobSpec, id: JobId) {
        self.must(before == after, Invariant::Stored, &[id], || {
            format!("job {id} has another spec: {after:?}")
        });
    }

    fn entered(&mut self, job: Job) {
        let id = job.id;
        let fresh = !self.rows.contains_key(&id) && !self.removed.contains(&id);
        self.must(fresh, Invariant::Sound, &[id], || format!("the id {id} is used twice"));
        let status = &job.status;
        let zero = (status.attempt, status.lost, status.unaccepted, status.snoozed) == (0, 0, 0, 0);
        self.must(zero && status.claim <= 1, Invariant::Lease, &[id], || {
            format!("job {id} was inserted with used counters: {status:?}")
        });
        if let Some(held) = status.state.leased() {
            self.base.insert(id, 0);
            let lease = held.lease.id;
            let new = self.leases.insert(lease);
            self.must(new, Invariant::Lease, &[id], || format!("job {id}: a lease is assigned twice"));
        }
        if let Some(key) = live_key(&job) {
            self.keys.entry(key).or_default().insert(id);
        }
        self.rows.insert(id, job);
    }

    /// A row moved from one state to another.
    pub(super) fn moved(&mut self, before: &Job, after: &Job) {
        let id = before.id;
        let (old, new) = (&before.status, &after.status);
        self.went_on(id, (old.state.name(), old.rev), (new.state.name(), new.rev));
        let steps = (new.claim.checked_sub(old.claim), new.attempt.checked_sub(old.attempt));
        let regular = matches!(steps, (Some(0..=1), Some(0..=1)));
        self.must(regular, Invariant::Lease, &[id], || {
            format!(
                "job {id}: claim, attempt went from {}, {} to {}, {}",
                old.claim, old.attempt, new.claim, new.attempt
            )
        });
        let back = matches!(new.state, State::Queued(_)) && new.attempt > 0;
        self.must(!(back && after.spec.retry.at_most_once), Invariant::Once, &[id], || {
            format!("job {id} runs at most once, and is queued again after an attempt: {new:?}")
        });
        self.within_bounds(after);
        self.lease_moved(before, after);
        self.place_moved(before, after);
        self.rows.insert(id, after.clone());
        let Some(key) = after.spec.key.clone().map(|key| (after.spec.job_type.clone(), key)) else { return };
        let live = self.keys.entry(key).or_default();
        if new.state.is_terminal() {
            live.remove(&id)
        } else {
            live.insert(id)
        };
    }

    /// A completed job does not change, and every change increases the rev.
    pub(super) fn went_on(&mut self, id: JobId, old: (StateName, u32), new: (StateName, u32)) {
        self.must(!old.0.is_terminal(), Invariant::Final, &[id], || {
            format!("job {id} was {} at rev {} and became {} at rev {}", old.0, old.1, new.0, new.1)
        });
        self.must(new.1 > old.1, Invariant::Lease, &[id], || format!("job {id}: rev did not increase"));
    }

    pub(super) fn within_bounds(&mut self, job: &Job) {
        let (status, max) = (&job.status, u32::from(job.spec.retry.max_attempts));
        let tries = status.attempt.saturating_sub(u32::from(status.lost)).saturating_sub(status.snoozed);
        let open = !status.state.is_terminal();
        let good = tries <= max
            && status.lost <= LOST
            && status.unaccepted <= UNACCEPTED
            && !(open && (status.lost == LOST || status.unaccepted == UNACCEPTED))
            && status.attempt <= status.claim;
        self.must(good, Invariant::Sound, &[job.id], || format!("job {}: out of bounds: {status:?}", job.id));
    }

    /// A job without a lease leaves its state only by a claim, a cancel or a release.
    fn place_moved(&mut self, before: &Job, after: &Job) {
        let id = before.id;
        match (&before.status.state, &after.status.state) {
            (
                State::Queued(_) | State::Blocked(_),
                State::Cancelled(defeat) | State::Failed(defeat) | State::Crashed(defeat),
            ) if is_cascading(defeat) => self.cascaded(before, defeat),
            (State::Queued(_) | State::Blocked(_), State::Cancelled(defeat)) => {
                let known = self.is_known_cancel(before, defeat);
                self.must(known, Invariant::Cancel, &[id], || {
                    format!("job {id}: cancelled without a request")
                });
            }
            (State::Blocked(old), State::Queued(_)) => self.unblocked(before, *old, FREE),
            (State::Blocked(old), State::Blocked(new)) => self.unblocked(before, *old, *new),
            (State::Blocked(old), State::Assigned(_)) => {
                self.unblocked(before, *old, FREE);
            }
            (State::Queued(_), State::Queued(_)) => {}
            (State::Queued(_), State::Assigned(_)) => {
                let claimed = after.status.claim == before.status.claim + 1;
                self.must(claimed, Invariant::Lease, &[id], || {
                    format!("job {id} is assigned without a claim")
                });
            }
            (State::Queued(_) | State::Blocked(_), state) => {
                self.fail(Invariant::Lease, &[id], format!("job {id} went from waiting to {state:?}"));
            }
            _ => {}
        }
    }

    /// Whether a request or a rule caused the cancel of a job.
    pub(super) fn is_known_cancel(&self, job: &Job, defeat: &Unsuccessful) -> bool {
        let parent = job.spec.parent.and_then(|parent| self.rows.get(&parent));
        let orphan = defeat.failure.reason == "parent_ended"
            && parent.is_none_or(|parent| parent.status.state.is_terminal());
        self.cancel_asked.contains(&job.id)
            || orphan
            || defeat.failure.reason == "superseded"
            || self.cancelled_in_group(job, defeat)
    }

    /// A blocked job has fewer open dependencies.
    fn unblocked(&mut self, job: &Job, old: Blocked, new: Blocked) {
        let id = job.id;
        if let Some(holder) = old.holder.filter(|_| new.holder.is_none()) {
            let ended = self.rows.get(&holder).is_none_or(|job| job.status.state.is_terminal());
            self.must(ended, Invariant::Key, &[id, holder], || {
                format!("job {id} was released while {holder} is open")
            });
        }
        if old.dependencies && !new.dependencies {
            self.is_free(job, "released");
        }
    }

    /// A job that must run again does so when it ends, except after a cancel.
    fn follows_up(&mut self, unit: &Unit, before: &Job, after: &Job) {
        let Some(again) = &before.status.again else { return };
        if !after.status.state.is_terminal() || matches!(after.status.state, State::Cancelled(_)) {
            return;
        }
        let made = unit.inserts.iter().any(|insert| {
            let spec = &insert.job.spec;
            (&spec.job_type, &spec.key, &spec.params)
                == (&before.spec.job_type, &before.spec.key, &again.params)
        });
        self.must(made, Invariant::Stored, &[before.id], || {
            format!("job {} ended without the follow-up that was acknowledged", before.id)
        });
    }

    fn key_held_once(&mut self, id: JobId) {
        let Some(key) = self.rows.get(&id).and_then(live_key) else { return };
        let Some(all) = self.keys.get(&key) else { return };
        let all: Vec<_> = all.iter().copied().collect();
        let next = |id: &&JobId| {
            self.rows.get(id).is_some_and(|job| {
                matches!(job.status.state, State::Blocked(Blocked { holder: Some(_), .. }))
            })
        };
        let waiting = all.iter().filter(next).count();
        self.one_holder(&key, &all, waiting);
    }

    /// Of the open jobs with a key, one holds it, and at most one waits for it.
    pub(super) fn one_holder(&mut self, key: &(TypeName, Key), all: &[JobId], waiting: usize) {
        let good = all.len() - waiting <= 1 && waiting <= 1 && all.len() > waiting;
        self.must(good, Invariant::Key, all, || {
            format!("{key:?} is held by {all:?}, {waiting} of them blocked")
        });
    }

    fn name_stored(&mut self, name: &StoredIdempotencyKey) {
        let known = self.names.entry((name.scope.clone(), name.key.clone())).or_default();
        let remembered = known.last().is_some_and(|last| last.at >= name.forget_before);
        known.push(Named { body: name.body, answer: name.answer.clone(), at: name.at });
        let jobs: Vec<_> = name.answer.iter().map(|submitted| submitted.id).collect();
        self.must(!remembered, Invariant::Key, &jobs, || {
            format!("the idempotency key {:?} was stored again before it expired", name.key)
        });
    }

    fn feed_written(&mut self, number: Option<u64>, entries: Vec<FeedEntry>) {
        let expected = (!entries.is_empty()).then_some(self.feed_last + 1);
        self.must(number == expected, Invariant::Sound, &[], || {
            format!("a commit has the feed number {number:?} and not {expected:?}")
        });
        if let Some(number) = number {
            self.feed.insert(number, entries);
            self.feed_last = number;
        }
    }
}

/// The key that a job has while it is open.
fn live_key(job: &Job) -> Option<(TypeName, Key)> {
    let key = job.spec.key.clone().filter(|_| !job.status.state.is_terminal())?;
    Some((job.spec.job_type.clone(), key))
}
