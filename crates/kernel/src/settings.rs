//! Settings of types and queues.

pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jobhall_core::{QueueConfig, QueueName, ScheduleName, TypeConfig, TypeName};
use jobhall_store::SettingWrite;

use schedules::ScheduleState;

/// The settings in memory.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Type configurations, with their revisions.
    types: HashMap<TypeName, (u32, Arc<TypeConfig>)>,
    /// Queue configurations, with their revisions.
    queues: BTreeMap<QueueName, (u32, Arc<QueueConfig>)>,
    schedules: BTreeMap<ScheduleName, ScheduleState>,
}

impl Settings {
    /// The writes that register the types among these that no job had before.
    pub fn first_use<'a>(&self, used: impl Iterator<Item = &'a TypeName>) -> Vec<SettingWrite> {
        types::first_use(&self.types, used)
    }

    /// A job of this type was stored.
    pub fn used(&mut self, job_type: &TypeName) {
        if !self.types.contains_key(job_type) {
            self.types.insert(job_type.clone(), (1, Arc::new(TypeConfig::of(job_type))));
        }
    }

    /// Whether completed jobs of some type are removed.
    pub fn removes_jobs(&self) -> bool {
        self.types.values().any(|(_, config)| config.keep_ms.is_some() || config.keep_count.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> TypeName {
        TypeName::new(text).unwrap()
    }

    #[test]
    fn a_type_is_written_by_its_first_job_only() {
        let mut settings = Settings::default();
        let (mail, thumb) = (name("mail"), name("thumb"));
        let writes = settings.first_use([&thumb, &mail, &thumb].into_iter());
        let names: Vec<_> = writes.iter().map(|write| (write.name.as_str(), write.expected)).collect();
        assert_eq!(names, [("mail", 0), ("thumb", 0)]);
        settings.used(&mail);
        let writes = settings.first_use([&thumb, &mail].into_iter());
        assert_eq!(writes.len(), 1);
        assert_eq!(writes[0].name, "thumb");
    }

    #[test]
    fn a_first_use_does_not_replace_a_configuration() {
        let mut settings = Settings::default();
        let config = TypeConfig { keep_count: Some(3), ..TypeConfig::of(&name("mail")) };
        settings.types.insert(name("mail"), (7, Arc::new(config)));
        settings.used(&name("mail"));
        assert_eq!(settings.types[&name("mail")].0, 7);
        assert!(settings.removes_jobs());
    }

    #[test]
    fn types_without_a_rule_remove_nothing() {
        let mut settings = Settings::default();
        settings.used(&name("mail"));
        assert!(!settings.removes_jobs());
    }
}
