//! Which completed jobs are kept. A pass goes from the newest job to the oldest and decides each.

use std::collections::{HashMap, HashSet};

use crate::id::{GroupId, JobId};
use crate::name::{Key, TypeName};
use crate::time::Time;
use crate::type_config::TypeConfig;

/// The data of a completed job that retention needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Its id.
    pub id: JobId,
    /// Its type.
    pub job_type: TypeName,
    /// Its key.
    pub key: Option<Key>,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// When it ended.
    pub ended_at: Time,
    /// The job that requested it.
    pub parent: Option<JobId>,
    /// The group it belongs to.
    pub group: Option<GroupId>,
}

/// One pass over the completed jobs, newest first.
#[derive(Debug)]
pub struct Pass {
    now: Time,
    seen: HashMap<TypeName, u64>,
    spared: HashSet<(TypeName, Key)>,
}

impl Pass {
    /// A new pass.
    pub fn new(now: Time) -> Pass {
        Pass { now, seen: HashMap::new(), spared: HashSet::new() }
    }

    /// Whether this job is to be removed. A key's newest success within the type's reuse window is always kept.
    pub fn removes(&mut self, job: &Completed, config: &TypeConfig) -> bool {
        let count = self.seen.entry(job.job_type.clone()).or_default();
        *count += 1;
        let age_ms = self.now.since(job.ended_at);
        let too_old = config.keep_ms.is_some_and(|keep_ms| age_ms > keep_ms);
        let too_many = config.keep_count.is_some_and(|keep| *count > keep);
        let newest_success = self.is_newest_success(job);
        let reusable = newest_success && age_ms <= config.reuse_window_ms;
        (too_old || too_many) && !reusable
    }

    fn is_newest_success(&mut self, job: &Completed) -> bool {
        match &job.key {
            Some(key) if job.succeeded => self.spared.insert((job.job_type.clone(), key.clone())),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn job(id: u64, key: Option<&str>, succeeded: bool, age_ms: i64) -> Completed {
        Completed {
            id: JobId::new(id).unwrap(),
            job_type: TypeName::new("t").unwrap(),
            key: key.map(|key| Key::new(key).unwrap()),
            succeeded,
            ended_at: Time::from_ms(NOW - age_ms).unwrap(),
            parent: None,
            group: None,
        }
    }

    fn removed(jobs: &[Completed], config: &TypeConfig) -> Vec<u64> {
        let mut pass = Pass::new(Time::from_ms(NOW).unwrap());
        jobs.iter().filter(|job| pass.removes(job, config)).map(|job| job.id.get()).collect()
    }

    fn config(keep_ms: Option<u64>, keep_count: Option<u64>, reuse_window_ms: u64) -> TypeConfig {
        let default = TypeConfig::of(&TypeName::new("t").unwrap());
        TypeConfig { keep_ms, keep_count, reuse_window_ms, ..default }
    }

    #[test]
    fn without_rules_everything_stays() {
        assert_eq!(removed(&[job(1, None, true, 999_999)], &config(None, None, 0)), [0u64; 0]);
    }

    #[test]
    fn jobs_go_by_age() {
        let jobs = [job(3, None, true, 99), job(2, None, false, 100), job(1, None, true, 101)];
        assert_eq!(removed(&jobs, &config(Some(100), None, 0)), [1]);
    }

    #[test]
    fn jobs_go_by_count_per_type_oldest_first() {
        let mut jobs = vec![job(4, None, true, 1), job(3, None, false, 2), job(2, None, true, 3)];
        assert_eq!(removed(&jobs, &config(None, Some(2), 0)), [2]);
        jobs[1].job_type = TypeName::new("other").unwrap();
        assert_eq!(removed(&jobs, &config(None, Some(2), 0)), [0u64; 0]);
    }

    #[test]
    fn the_newest_success_of_a_key_stays_for_its_reuse_window() {
        let jobs = [
            job(5, Some("k"), false, 10),
            job(4, Some("k"), true, 200),
            job(3, Some("k"), true, 201),
            job(2, Some("other"), true, 300),
            job(1, Some("old"), true, 301),
        ];
        assert_eq!(removed(&jobs, &config(Some(100), None, 300)), [3, 1]);
        assert_eq!(removed(&jobs, &config(None, Some(0), 300)), [5, 3, 1]);
    }
}
