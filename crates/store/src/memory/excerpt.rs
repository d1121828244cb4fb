//! Applies the rules of the reference to part of another store. A store that has read all rows that some units
//! touch decides the units here and writes the result. The stages and the order of conflicts are therefore
//! implemented once.

use jobhall_core::{Group, Job, JobId, Key, RecordKind, Submitted, Time};

use super::apply::key_of;
use super::{StoredKey, Tables};
use crate::{Conflict, Done, Record, Setting, Unit, key_place};

/// The rows that a store has read so far. A unit is decided correctly if all rows that it touches are known: the
/// jobs, groups, settings and records that it names, its idempotency key, the holders of the keys of its jobs, and the newest
/// success for an insert that permits reuse.
#[derive(Debug)]
pub struct Excerpt {
    tables: Tables,
}

impl Default for Excerpt {
    fn default() -> Excerpt {
        Excerpt { tables: Tables { trusting: true, ..Tables::default() } }
    }
}

impl Excerpt {
    /// Adds a stored job, with its place on its key.
    pub fn know_job(&mut self, job: Job) {
        if let Some(key) = key_of(&job) {
            self.tables.write_key(key_place(&job.status.state), key, Some(job.id));
        }
        self.tables.jobs.insert(job.id, job);
    }

    pub fn know_group(&mut self, group: Group) {
        self.tables.groups.insert(group.id, group);
    }

    pub fn know_setting(&mut self, setting: Setting) {
        self.tables.settings.insert((setting.kind, setting.name.clone()), setting);
    }

    pub fn know_record(&mut self, record: Record) {
        self.tables.records.insert((record.kind.clone(), record.key.clone()), record);
    }

    /// Adds a stored idempotency key: scope, key, body, answer, time.
    pub fn know_idempotency_key(
        &mut self,
        scope: String,
        key: String,
        body: u128,
        answer: Vec<Submitted>,
        at: Time,
    ) {
        self.tables.idempotency_keys.insert((scope, key), StoredKey { body, answer, at });
    }

    /// Applies a unit as the reference does; later units are decided on the result.
    pub fn decide(&mut self, unit: &Unit) -> Result<Done, Vec<Conflict>> {
        let done = self.tables.apply(unit)?;
        self.tables.record(unit.clone());
        Ok(done)
    }

    /// A record after the units so far.
    pub fn record(&self, kind: &RecordKind, key: &Key) -> Option<&Record> {
        self.tables.records.get(&(kind.clone(), key.clone()))
    }

    /// A job after the units so far.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.tables.jobs.get(&id)
    }
}
