//! How units are applied inside an open transaction.
//!
//! Almost no unit is refused. The changes are therefore tried at once, each with one guarded statement. Only if one
//! matches no row is the unit rolled back and checked in the four stages that the port describes.
//!
//! ```text
//!   idempotency key, checks, settings ──▶ guarded updates ── all match ──▶ inserts ──▶ side rows
//!                        │                  │ one does not
//!                        └── conflict ──▶ stages: revs, then keys released and taken, then inserts
//! ```

pub(crate) mod records;
mod stages;

use std::sync::Arc;

use jobhall_core::{Job, JobId, Key, TypeName};
use jobhall_store::{
    AuditEntry, Change, Check, Committed, Conflict, Done, Insert, KeyPlace, News, ReuseRange, Setting,
    SettingWrite, StoredIdempotencyKey, Unit, key_place, pack,
};
use rusqlite::Statement;

use crate::error::{SqlError, damaged};
use crate::rows::row;
use crate::rows::spec;
use crate::rows::submitted;
use crate::statements::Writes;

/// Executes a statement without parameters.
pub(crate) fn run(statement: &mut Statement<'_>) -> Result<usize, SqlError> {
    Ok(statement.raw_execute()?)
}

/// The text for a (type, key). A type contains no `/`, so the text is unique.
fn key_text(job_type: &str, key: &str) -> String {
    let mut text = String::with_capacity(job_type.len() + 1 + key.len());
    text.push_str(job_type);
    text.push('/');
    text.push_str(key);
    text
}

/// The key text of a job, if it has a key.
fn key_of(job: &Job) -> Option<String> {
    job.spec.key.as_ref().map(|key| key_text(job.spec.job_type.as_str(), key.as_str()))
}

/// Splits a key by its place: what `live_key` and `next_key` hold.
fn placed(place: KeyPlace, key: Option<&str>) -> (Option<&str>, Option<&str>) {
    match place {
        KeyPlace::Live => (key, None),
        KeyPlace::Next => (None, key),
        KeyPlace::Free => (None, None),
    }
}

impl Writes<'_> {
    /// Applies the units in order, and writes one feed row under the next number if a job changed.
    pub(crate) fn commit_units(
        &mut self,
        units: &[Unit],
        feed_last: &mut u64,
    ) -> Result<Committed, SqlError> {
        let mut news = News::default();
        let mut results = Vec::with_capacity(units.len());
        for unit in units {
            let result = self.apply(unit)?;
            if result.is_ok() {
                news.add(unit);
            }
            results.push(result);
        }
        if news.entries.is_empty() {
            return Ok(Committed { feed: None, results });
        }
        *feed_last += 1;
        self.insert_feed.raw_bind_parameter(1, feed_last.cast_signed())?;
        self.insert_feed.raw_bind_parameter(2, news.at.as_ms())?;
        self.insert_feed.raw_bind_parameter(3, pack(&news.entries))?;
        run(&mut self.insert_feed)?;
        Ok(Committed { feed: Some(*feed_last), results })
    }

    fn apply(&mut self, unit: &Unit) -> Result<Result<Done, Vec<Conflict>>, SqlError> {
        if let Some(conflict) = self.idempotency_key_conflict(unit.idempotency_key.as_ref())? {
            return Ok(Err(vec![conflict]));
        }
        let before = self.checks_and_settings(unit)?;
        // One change or one insert is one guarded statement, and its side rows cannot be refused.
        let mut nested = unit.rows() > 1;
        if nested {
            run(&mut self.savepoint)?;
        }
        let conflicts = if before.is_empty() && self.try_changes(unit)? {
            self.insert_all(unit)?
        } else {
            if nested {
                run(&mut self.rollback_to)?;
            } else {
                run(&mut self.savepoint)?;
                nested = true;
            }
            self.in_stages(unit, before)?
        };
        if conflicts.is_empty() {
            self.write_company(unit)?;
        } else if nested {
            run(&mut self.rollback_to)?;
        }
        if nested {
            run(&mut self.release)?;
        }
        if conflicts.is_empty() { Ok(Ok(Done { specs: self.specs(unit)? })) } else { Ok(Err(conflicts)) }
    }

    fn idempotency_key_conflict(
        &mut self,
        idempotency_key: Option<&StoredIdempotencyKey>,
    ) -> Result<Option<Conflict>, SqlError> {
        let Some(wanted) = idempotency_key else { return Ok(None) };
        self.idempotency_key.raw_bind_parameter(1, wanted.scope.as_str())?;
        self.idempotency_key.raw_bind_parameter(2, wanted.key.as_str())?;
        let mut rows = self.idempotency_key.raw_query();
        let Some(stored) = rows.next()? else { return Ok(None) };
        if row::time(stored, 2)? < wanted.forget_before {
            Ok(None)
        } else if row::number128(stored, 0)? == wanted.body {
            Ok(Some(Conflict::Repeated(submitted::from_text(row::text(stored, 1)?)?)))
        } else {
            Ok(Some(Conflict::IdempotencyKeyReused))
        }
    }

    fn checks_and_settings(&mut self, unit: &Unit) -> Result<Vec<Conflict>, SqlError> {
        let mut conflicts = Vec::new();
        for check in &unit.checks {
            match check {
                Check::Open(id) if !self.is_open(*id)? => conflicts.push(Conflict::NotOpen(*id)),
                Check::Joinable(id) if !self.is_joinable(*id)? => {
                    conflicts.push(Conflict::NotJoinable(*id));
                }
                Check::GroupOpen(id) if !self.is_group_open(*id)? => {
                    conflicts.push(Conflict::NotJoinable(*id));
                }
                Check::Open(_) | Check::Joinable(_) | Check::GroupOpen(_) => {}
            }
        }
        for (write, wanted) in unit.settings.iter().enumerate() {
            let stored = self.stored_setting(wanted)?;
            if stored.as_ref().map_or(0, |stored| stored.rev) != wanted.expected {
                conflicts.push(Conflict::Setting { write, stored });
            }
        }
        for (write, wanted) in unit.groups.iter().enumerate() {
            conflicts.extend(self.group_conflict(write, wanted)?);
        }
        for (write, wanted) in unit.records.iter().enumerate() {
            conflicts.extend(self.record_conflict(write, wanted)?);
        }
        Ok(conflicts)
    }

    fn is_open(&mut self, id: JobId) -> Result<bool, SqlError> {
        self.state.raw_bind_parameter(1, id.get().cast_signed())?;
        let mut rows = self.state.raw_query();
        match rows.next()? {
            Some(found) => Ok(!row::state_name(found.get(0)?)?.is_terminal()),
            None => Ok(false),
        }
    }

    fn stored_setting(&mut self, wanted: &SettingWrite) -> Result<Option<Setting>, SqlError> {
        self.setting.raw_bind_parameter(1, wanted.kind.as_str())?;
        self.setting.raw_bind_parameter(2, wanted.name.as_str())?;
        let mut rows = self.setting.raw_query();
        let Some(found) = rows.next()? else { return Ok(None) };
        let value = row::text(found, 1)?.to_owned();
        Ok(Some(Setting { kind: wanted.kind, name: wanted.name.clone(), rev: found.get(0)?, value }))
    }

    /// Tries the changes with their guarded statements; stops and returns false at the first that matches no row.
    fn try_changes(&mut self, unit: &Unit) -> Result<bool, SqlError> {
        for change in &unit.changes {
            let Change { id, expected, status, .. } = change;
            let hits = match key_place(&status.state) {
                KeyPlace::Live if status.is_plain() => {
                    row::bind_plain(&mut self.change_live_plain, *id, *expected, status)?;
                    run(&mut self.change_live_plain)?
                }
                KeyPlace::Free if status.is_plain() => {
                    row::bind_plain(&mut self.complete_job_plain, *id, *expected, status)?;
                    row::bind_end(&mut self.complete_job_plain, &status.state)?;
                    run(&mut self.complete_job_plain)?
                }
                KeyPlace::Live => {
                    row::bind_status(&mut self.change_live, *id, *expected, status)?;
                    run(&mut self.change_live)?
                }
                KeyPlace::Free => {
                    row::bind_status(&mut self.complete_job, *id, *expected, status)?;
                    row::bind_end(&mut self.complete_job, &status.state)?;
                    run(&mut self.complete_job)?
                }
                KeyPlace::Next => 0,
            };
            if hits == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Inserts the jobs without conflicts, and returns the conflicts of the others.
    fn insert_all(&mut self, unit: &Unit) -> Result<Vec<Conflict>, SqlError> {
        let mut conflicts = Vec::new();
        for insert in &unit.inserts {
            conflicts.extend(self.insert(insert)?);
        }
        Ok(conflicts)
    }

    fn insert(&mut self, insert: &Insert) -> Result<Option<Conflict>, SqlError> {
        let Insert { job, reuse } = insert;
        if let Some(range) = reuse
            && let Some(conflict) = self.reusable(job, *range)?
        {
            return Ok(Some(conflict));
        }
        let key = key_of(job);
        let place = key_place(&job.status.state);
        let hits = if key.is_none() && place == KeyPlace::Live && job.status.is_plain() {
            row::bind_plain(&mut self.insert_plain, job.id, 0, &job.status)?;
            run(&mut self.insert_plain)?
        } else {
            let (live_key, next_key) = placed(place, key.as_deref());
            row::bind_status(&mut self.insert_job, job.id, 0, &job.status)?;
            row::bind_end(&mut self.insert_job, &job.status.state)?;
            row::bind_keys(&mut self.insert_job, live_key, next_key)?;
            run(&mut self.insert_job)?
        };
        if hits == 0 {
            return self.what_stands_against(job.id, place, key.as_deref()).map(Some);
        }
        self.insert_spec_of(job)?;
        Ok(None)
    }

    fn insert_spec_of(&mut self, job: &Job) -> Result<(), SqlError> {
        let insert = match job.spec.group {
            None if job.spec.is_plain() => {
                spec::bind(&mut self.insert_spec, job.id, &job.spec)?;
                &mut self.insert_spec
            }
            Some(group) if job.spec.is_plain_member() => {
                spec::bind_member(&mut self.insert_spec_member, job.id, &job.spec, group)?;
                &mut self.insert_spec_member
            }
            _ => {
                spec::bind_whole(&mut self.insert_spec_whole, job.id, &job.spec)?;
                &mut self.insert_spec_whole
            }
        };
        run(insert)?;
        Ok(())
    }

    fn reusable(&mut self, job: &Job, range: ReuseRange) -> Result<Option<Conflict>, SqlError> {
        let Some(key) = &job.spec.key else { return Ok(None) };
        if let Some(stored) = self.stored_job(job.id)? {
            return Ok(Some(Conflict::Stale { id: job.id, job: Some(stored) }));
        }
        match success(&mut self.success_since, &job.spec.job_type, key, range)? {
            Some(id) => Ok(Some(Conflict::Reusable { id: job.id, job: self.known_job(id)? })),
            None => Ok(None),
        }
    }

    /// Why an insert wrote nothing: the id or the place on the key is in use.
    fn what_stands_against(
        &mut self,
        id: JobId,
        place: KeyPlace,
        key: Option<&str>,
    ) -> Result<Conflict, SqlError> {
        if let Some(stored) = self.stored_job(id)? {
            return Ok(Conflict::Stale { id, job: Some(stored) });
        }
        let holder = match key {
            Some(key) => self.holder(place, key)?,
            None => None,
        };
        let holder = holder.ok_or_else(|| damaged("key", "its place is taken, but no job holds it"))?;
        Ok(Conflict::KeyHeld { id, job: self.known_job(holder)? })
    }

    fn holder(&mut self, place: KeyPlace, key: &str) -> Result<Option<JobId>, SqlError> {
        let statement = match place {
            KeyPlace::Live => &mut self.live_holder,
            KeyPlace::Next => &mut self.next_holder,
            KeyPlace::Free => return Ok(None),
        };
        statement.raw_bind_parameter(1, key)?;
        first_id(statement)
    }

    fn stored_job(&mut self, id: JobId) -> Result<Option<Job>, SqlError> {
        self.job.raw_bind_parameter(1, id.get().cast_signed())?;
        let mut rows = self.job.raw_query();
        rows.next()?.map(row::job).transpose()
    }

    fn known_job(&mut self, id: JobId) -> Result<Job, SqlError> {
        self.stored_job(id)?.ok_or_else(|| damaged("job", format_args!("job {id} is missing")))
    }

    /// Writes the side rows of an applied unit.
    fn write_company(&mut self, unit: &Unit) -> Result<(), SqlError> {
        for change in &unit.changes {
            if let Some(spec) = &change.spec {
                spec::bind_whole(&mut self.replace_spec, change.id, spec)?;
                run(&mut self.replace_spec)?;
            }
            if let Some(past) = &change.past {
                row::bind_attempt(&mut self.insert_attempt, change.id, past)?;
                run(&mut self.insert_attempt)?;
            }
        }
        for write in &unit.settings {
            self.record_setting(write)?;
        }
        self.write_groups(unit)?;
        self.write_records(unit)?;
        for entry in &unit.audit {
            self.record_act(entry)?;
        }
        if let Some(StoredIdempotencyKey { scope, key, body, answer, at, .. }) = &unit.idempotency_key {
            self.put_idempotency_key.raw_bind_parameter(1, scope.as_str())?;
            self.put_idempotency_key.raw_bind_parameter(2, key.as_str())?;
            self.put_idempotency_key.raw_bind_parameter(3, body.to_be_bytes())?;
            self.put_idempotency_key.raw_bind_parameter(4, submitted::to_text(answer)?)?;
            self.put_idempotency_key.raw_bind_parameter(5, at.as_ms())?;
            run(&mut self.put_idempotency_key)?;
        }
        Ok(())
    }

    fn record_act(&mut self, entry: &AuditEntry) -> Result<(), SqlError> {
        let AuditEntry { at, who, act, subject, detail } = entry;
        self.insert_audit.raw_bind_parameter(1, at.as_ms())?;
        for (place, text) in [(2, who), (3, act), (4, subject), (5, detail)] {
            self.insert_audit.raw_bind_parameter(place, text.as_str())?;
        }
        run(&mut self.insert_audit)?;
        Ok(())
    }

    fn record_setting(&mut self, write: &SettingWrite) -> Result<(), SqlError> {
        let SettingWrite { kind, name, expected, value } = write;
        let statement = if value.is_some() { &mut self.put_setting } else { &mut self.remove_setting };
        statement.raw_bind_parameter(1, kind.as_str())?;
        statement.raw_bind_parameter(2, name.as_str())?;
        if let Some(value) = value {
            statement.raw_bind_parameter(3, expected + 1)?;
            statement.raw_bind_parameter(4, value.as_str())?;
        }
        run(statement)?;
        Ok(())
    }

    fn specs(&mut self, unit: &Unit) -> Result<Vec<Arc<jobhall_core::JobSpec>>, SqlError> {
        let mut specs = Vec::new();
        for change in unit.changes.iter().filter(|change| change.want_spec) {
            self.spec.raw_bind_parameter(1, change.id.get().cast_signed())?;
            let mut rows = self.spec.raw_query();
            let found = rows.next()?.ok_or_else(|| damaged("job", "it has no spec"))?;
            specs.push(Arc::new(spec::spec(found, 0)?));
        }
        Ok(specs)
    }
}

/// The newest success of a (type, key) in this range.
pub(crate) fn success(
    success_since: &mut Statement<'_>,
    job_type: &TypeName,
    key: &Key,
    range: ReuseRange,
) -> Result<Option<JobId>, SqlError> {
    success_since.raw_bind_parameter(1, job_type.as_str())?;
    success_since.raw_bind_parameter(2, key.as_str())?;
    success_since.raw_bind_parameter(3, range.since.as_ms())?;
    success_since.raw_bind_parameter(4, range.above.map_or(0, |id| id.get().cast_signed()))?;
    first_id(success_since)
}

fn first_id(statement: &mut Statement<'_>) -> Result<Option<JobId>, SqlError> {
    let mut rows = statement.raw_query();
    rows.next()?.map(|found| row::job_id(found, 0)).transpose()
}
