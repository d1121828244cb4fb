//! Settings of types, queues and schedules, and the server's rule for completed jobs.

pub(crate) mod queues;
pub(crate) mod reserved;
pub(crate) mod retention;
pub(crate) mod schedules;
pub(crate) mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jobhall_core::{QueueConfig, QueueName, Reserved, Retention, ScheduleName, TypeConfig, TypeName};
use lru::LruCache;

use schedules::ScheduleState;

/// Maximum number of configured types; more are rejected.
const TYPES: usize = 10_000;
/// Types without configuration that are remembered; the least recently used one is forgotten.
const USED_TYPES: usize = 10_000;

/// The settings in memory.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The types of applications.
    reserved: Reserved,
    /// The configured types, with their revisions.
    types: HashMap<TypeName, (u32, Arc<TypeConfig>)>,
    /// Types without configuration of which a job was submitted or is open. They are not stored, so that a submit cannot
    /// grow the settings.
    used: LruCache<TypeName, ()>,
    /// Queue configurations, with their revisions.
    queues: BTreeMap<QueueName, (u32, Arc<QueueConfig>)>,
    schedules: BTreeMap<ScheduleName, ScheduleState>,
    /// The server's rule for completed jobs, with its revision.
    retention: (u32, Retention),
    /// Number of queues whose jobs are counted apart.
    counted_queues: usize,
}

impl Settings {
    pub fn new(reserved: Reserved) -> Settings {
        let (types, queues, schedules) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        let (used, retention) = (LruCache::unbounded(), (0, Retention::default()));
        Settings { reserved, types, used, queues, schedules, retention, counted_queues: 0 }
    }

    /// The configuration of a type, or the default.
    pub fn type_config(&self, job_type: &TypeName) -> &Arc<TypeConfig> {
        self.types.get(job_type).map_or_else(|| TypeConfig::shared(job_type), |(_, config)| config)
    }

    /// There is a job of this type.
    pub fn used(&mut self, job_type: &TypeName) {
        // Most jobs are of the same type as the one before.
        if self.used.peek_mru().is_some_and(|(last, ())| last == job_type) {
            return;
        }
        if self.types.contains_key(job_type) || self.used.get(job_type).is_some() {
            return;
        }
        self.used.put(job_type.clone(), ());
        if self.used.len() > USED_TYPES {
            self.used.pop_lru();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> TypeName {
        TypeName::new(text).unwrap()
    }

    #[test]
    fn audit_m5_the_least_recently_used_type_is_forgotten() {
        let mut settings = Settings::new(Reserved::default());
        settings.used(&name("old"));
        settings.used(&name("mail"));
        for n in 0..USED_TYPES - 1 {
            settings.used(&name("mail"));
            settings.used(&name(&format!("t{n}")));
        }
        assert_eq!(settings.used.len(), USED_TYPES);
        assert!(settings.used.contains(&name("mail")) && !settings.used.contains(&name("old")));
    }

    #[test]
    fn a_first_use_does_not_replace_a_configuration() {
        let mut settings = Settings::new(Reserved::default());
        let config = TypeConfig { keep_count: Some(3), ..TypeConfig::of(&name("mail")) };
        settings.types.insert(name("mail"), (7, Arc::new(config)));
        settings.used(&name("mail"));
        assert_eq!(settings.types[&name("mail")].0, 7);
        assert!(settings.removes_jobs());
    }

    #[test]
    fn types_without_a_rule_remove_nothing() {
        let mut settings = Settings::new(Reserved::default());
        settings.used(&name("mail"));
        assert!(!settings.removes_jobs());
    }
}
