//! How the reference applies units: it changes the maps and undoes the changes if a stage finds a conflict.

use std::sync::Arc;

use jobhall_core::{Group, Job, JobId, JobSpec, State, guard};

use super::{KeyOf, StoredKey, Tables};
use crate::{
    AuditRow, Change, Check, Committed, Conflict, Done, FeedRow, GroupWrite, Insert, KeyPlace, Link, News,
    RecordWrite, ReuseRange, Setting, SettingWrite, StoredIdempotencyKey, Unit, key_place,
};

/// A change to undo if the unit is refused.
enum Undo {
    Job(JobId, Option<Box<Job>>),
    Key(KeyPlace, KeyOf, Option<JobId>),
}

impl Tables {
    pub(super) fn commit(&mut self, units: Vec<Unit>) -> Committed {
        let mut news = News::default();
        let mut results = Vec::with_capacity(units.len());
        for unit in units {
            let result = self.apply(&unit);
            if result.is_ok() {
                news.add(&unit);
                self.record(unit);
            }
            results.push(result);
        }
        let feed = (!news.entries.is_empty()).then(|| {
            let n = self.feed_end() + 1;
            self.feed.push(FeedRow { n, at: news.at, entries: news.entries });
            n
        });
        Committed { feed, results }
    }

    pub(super) fn apply(&mut self, unit: &Unit) -> Result<Done, Vec<Conflict>> {
        let conflicts = self.idempotency_key_conflict(unit.idempotency_key.as_ref());
        refuse_if(conflicts)?;
        let mut conflicts: Vec<_> = unit.checks.iter().filter_map(|check| self.check(check)).collect();
        conflicts.extend(unit.settings.iter().enumerate().filter_map(|(at, write)| self.setting(at, write)));
        conflicts.extend(unit.groups.iter().enumerate().filter_map(|(at, write)| self.group(at, write)));
        conflicts.extend(
            unit.records.iter().enumerate().filter_map(|(at, write)| self.record_conflict(at, write)),
        );
        conflicts.extend(unit.changes.iter().filter_map(|change| self.stale(change)));
        refuse_if(conflicts)?;

        let mut undo = Vec::new();
        let result = self.change_all(unit, &mut undo).and_then(|specs| {
            refuse_if(unit.inserts.iter().filter_map(|insert| self.insert(insert, &mut undo)).collect())?;
            Ok(Done { specs })
        });
        if result.is_err() {
            self.undo(undo);
        }
        result
    }

    fn idempotency_key_conflict(&self, idempotency_key: Option<&StoredIdempotencyKey>) -> Vec<Conflict> {
        let Some(idempotency_key) = idempotency_key else { return Vec::new() };
        match self.idempotency_keys.get(&(idempotency_key.scope.clone(), idempotency_key.key.clone())) {
            Some(stored) if stored.at < idempotency_key.forget_before => Vec::new(),
            Some(stored) if stored.body == idempotency_key.body => {
                vec![Conflict::Repeated(stored.answer.clone())]
            }
            Some(_) => vec![Conflict::IdempotencyKeyReused],
            None => Vec::new(),
        }
    }

    fn check(&self, check: &Check) -> Option<Conflict> {
        match check {
            Check::Open(id) => {
                let open = self.jobs.get(id).is_some_and(|job| !job.status.state.is_terminal());
                (!open).then_some(Conflict::NotOpen(*id))
            }
            Check::Joinable(id) => {
                let joinable = self.groups.get(id).is_some_and(|group| !group.closed);
                (!joinable).then_some(Conflict::NotJoinable(*id))
            }
            Check::GroupOpen(id) => {
                let open = self.groups.get(id).is_some_and(Group::takes_helpers);
                (!open).then_some(Conflict::NotJoinable(*id))
            }
        }
    }

    fn group(&self, write: usize, wanted: &GroupWrite) -> Option<Conflict> {
        let stored = self.groups.get(&wanted.group.id);
        let rev = stored.map_or(0, |stored| stored.rev);
        (rev != wanted.expected).then(|| Conflict::Group { write, stored: stored.cloned().map(Box::new) })
    }

    fn setting(&self, write: usize, wanted: &SettingWrite) -> Option<Conflict> {
        let stored = self.settings.get(&(wanted.kind, wanted.name.clone()));
        let rev = stored.map_or(0, |stored| stored.rev);
        (rev != wanted.expected).then(|| Conflict::Setting { write, stored: stored.cloned() })
    }

    fn record_conflict(&self, write: usize, wanted: &RecordWrite) -> Option<Conflict> {
        let stored = self.records.get(&(wanted.kind.clone(), wanted.key.clone()));
        let rev = stored.map_or(0, |stored| stored.rev);
        (rev != wanted.expected).then(|| Conflict::Record { write, stored: stored.cloned().map(Box::new) })
    }

    fn stale(&self, change: &Change) -> Option<Conflict> {
        let job = self.jobs.get(&change.id);
        let fresh = job.is_some_and(|job| job.status.rev == change.expected);
        (!fresh).then(|| Conflict::Stale { id: change.id, job: job.cloned() })
    }

    /// Applies the changes in two passes, so that keys are released before they are taken.
    fn change_all(&mut self, unit: &Unit, undo: &mut Vec<Undo>) -> Result<Vec<Arc<JobSpec>>, Vec<Conflict>> {
        let mut conflicts = Vec::new();
        let mut specs = Vec::new();
        let mut takers = Vec::new();
        for change in &unit.changes {
            let before = self.jobs[&change.id].clone();
            if !self.trusting
                && let Err(rule) = guard(&before.status, &change.status)
            {
                panic!("job {}: {rule}: {:?} to {:?}", change.id, before.status, change.status);
            }
            let after = changed(&before, change);
            self.put(after.clone(), undo);
            let (from, to) = (key_place(&before.status.state), key_place(&after.status.state));
            if let Some(key) = key_of(&after).filter(|_| from != to) {
                self.set_key(from, key.clone(), None, undo);
                takers.push((to, key, change.id));
            }
            if change.want_spec {
                specs.push(after.spec);
            }
        }
        for (place, key, id) in takers {
            if place == KeyPlace::Free {
                conflicts.extend(self.successor(id, &key));
            } else if let Some(holder) = self.holder(place, &key) {
                conflicts.push(Conflict::KeyHeld { id, job: self.jobs[&holder].clone() });
            } else {
                self.set_key(place, key, Some(id), undo);
            }
        }
        refuse_if(conflicts)?;
        Ok(specs)
    }

    /// A job that still waits for the released key after the unit's changes are applied.
    fn successor(&self, id: JobId, key: &KeyOf) -> Option<Conflict> {
        let next = self.next_keys.get(key)?;
        Some(Conflict::Successor { id, job: self.jobs[next].clone() })
    }

    fn insert(&mut self, insert: &Insert, undo: &mut Vec<Undo>) -> Option<Conflict> {
        let job = &insert.job;
        if let Some(stored) = self.jobs.get(&job.id) {
            return Some(Conflict::Stale { id: job.id, job: Some(stored.clone()) });
        }
        if let Some(key) = key_of(job) {
            if let Some(success) = insert.reuse.and_then(|range| self.success(&key, range)) {
                return Some(Conflict::Reusable { id: job.id, job: success });
            }
            let place = key_place(&job.status.state);
            if let Some(holder) = self.holder(place, &key) {
                return Some(Conflict::KeyHeld { id: job.id, job: self.jobs[&holder].clone() });
            }
            self.set_key(place, key, Some(job.id), undo);
        }
        self.put(job.clone(), undo);
        None
    }

    /// The newest success of a key in this range.
    pub(super) fn success(&self, key: &KeyOf, range: ReuseRange) -> Option<Job> {
        let of_key = self.jobs.values().rev().filter(|job| key_of(job).as_ref() == Some(key));
        let mut successes = of_key.filter(|job| matches!(job.status.state, State::Succeeded(_)));
        successes.find(|job| range.contains(job)).cloned()
    }

    fn holder(&self, place: KeyPlace, key: &KeyOf) -> Option<JobId> {
        match place {
            KeyPlace::Live => self.live_keys.get(key).copied(),
            KeyPlace::Next => self.next_keys.get(key).copied(),
            KeyPlace::Free => None,
        }
    }

    fn put(&mut self, job: Job, undo: &mut Vec<Undo>) {
        let id = job.id;
        undo.push(Undo::Job(id, self.jobs.insert(id, job).map(Box::new)));
    }

    fn set_key(&mut self, place: KeyPlace, key: KeyOf, id: Option<JobId>, undo: &mut Vec<Undo>) {
        undo.push(Undo::Key(place, key.clone(), self.holder(place, &key)));
        self.write_key(place, key, id);
    }

    pub(super) fn write_key(&mut self, place: KeyPlace, key: KeyOf, id: Option<JobId>) {
        let keys = match place {
            KeyPlace::Live => &mut self.live_keys,
            KeyPlace::Next => &mut self.next_keys,
            KeyPlace::Free => return,
        };
        match id {
            Some(id) => keys.insert(key, id),
            None => keys.remove(&key),
        };
    }

    fn undo(&mut self, undo: Vec<Undo>) {
        for step in undo.into_iter().rev() {
            match step {
                Undo::Job(id, Some(job)) => {
                    self.jobs.insert(id, *job);
                }
                Undo::Job(id, None) => {
                    self.jobs.remove(&id);
                }
                Undo::Key(place, key, id) => self.write_key(place, key, id),
            }
        }
    }

    /// Stores the parts of an applied unit besides its jobs.
    pub(super) fn record(&mut self, unit: Unit) {
        for change in unit.changes {
            if let Some(past) = change.past {
                self.attempts.entry(change.id).or_default().push(*past);
            }
        }
        for write in unit.settings {
            let SettingWrite { kind, name, expected, value } = write;
            match value {
                Some(value) => {
                    let setting = Setting { kind, name: name.clone(), rev: expected + 1, value };
                    self.settings.insert((kind, name), setting);
                }
                None => {
                    self.settings.remove(&(kind, name));
                }
            }
        }
        for GroupWrite { group, .. } in unit.groups {
            self.groups.insert(group.id, group);
        }
        for write in unit.records {
            let name = (write.kind.clone(), write.key.clone());
            let stored = self.records.remove(&name);
            if let Some(record) = write.result(stored.as_ref()) {
                self.records.insert(name, record);
            }
        }
        for Link { parent, call, job } in unit.links {
            self.links.insert((parent, call), job);
        }
        for gone in unit.unlinked {
            self.links.retain(|(parent, _), _| *parent != gone);
        }
        for entry in unit.audit {
            self.last_act += 1;
            self.audit.push(AuditRow { n: self.last_act, entry });
        }
        if let Some(StoredIdempotencyKey { scope, key, body, answer, at, .. }) = unit.idempotency_key {
            self.idempotency_keys.insert((scope, key), StoredKey { body, answer, at });
        }
    }
}

fn refuse_if(conflicts: Vec<Conflict>) -> Result<(), Vec<Conflict>> {
    if conflicts.is_empty() { Ok(()) } else { Err(conflicts) }
}

pub(super) fn key_of(job: &Job) -> Option<KeyOf> {
    job.spec.key.clone().map(|key| (job.spec.job_type.clone(), key))
}

fn changed(before: &Job, change: &Change) -> Job {
    let spec = change.spec.as_ref().unwrap_or(&before.spec).clone();
    Job { id: before.id, spec, status: change.status.clone() }
}
