//! Applies the rules of the reference to part of another store. A store that has read all rows that some units
//! touch decides the units here and writes the result. The stages and the order of conflicts are therefore
//! implemented once.

use jobhall_core::{Group, Job, JobId, Submitted, Time};

use super::apply::key_of;
use super::{StoredKey, Tables};
use crate::{Conflict, Done, Setting, Unit, key_place};

/// What a store has read so far. A unit is decided rightly if everything is known that it touches: the jobs, groups
/// and settings that it names, its idempotency key, the holders of the keys of its jobs, and for an insert that may be
/// answered by a success, the newest one.
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
    /// A stored job, with its place on its key.
    pub fn know_job(&mut self, job: Job) {
        if let Some(key) = key_of(&job) {
            self.tables.write_key(key_place(&job.life.state), key, Some(job.id));
        }
        self.tables.jobs.insert(job.id, job);
    }

    /// A stored group.
    pub fn know_group(&mut self, group: Group) {
        self.tables.groups.insert(group.id, group);
    }

    /// A stored setting.
    pub fn know_setting(&mut self, setting: Setting) {
        self.tables.settings.insert((setting.kind, setting.name.clone()), setting);
    }

    /// A stored idempotency key: scope, key, body, answer, moment.
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

    /// Applies a unit as the reference does; what follows is decided on what it leaves.
    pub fn decide(&mut self, unit: &Unit) -> Result<Done, Vec<Conflict>> {
        let done = self.tables.apply(unit)?;
        self.tables.record(unit.clone());
        Ok(done)
    }

    /// A job as the units so far leave it.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.tables.jobs.get(&id)
    }
}
