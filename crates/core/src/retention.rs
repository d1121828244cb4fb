//! Which completed jobs are kept.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds::{JOB_ID, KEEP_MS};
use crate::id::{GroupId, JobId};
use crate::name::{QueueName, TypeName};
use crate::settings::queue_config::QueueConfig;
use crate::settings::type_config::TypeConfig;
use crate::time::Time;

/// How long completed jobs are kept, and how many of each type. A number that is not set leaves the decision to the next
/// rule: the type's, the queue's, the server's. Without any rule jobs are kept forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Completed jobs older than this are removed; [`KEEP_MS`] keeps them forever.
    pub keep_ms: Option<u64>,
    /// Maximum number of completed jobs of a type, the newest; [`JOB_ID`] keeps all.
    pub keep_count: Option<u64>,
}

impl Retention {
    /// The server's rule in a new store.
    pub const DEFAULT: Retention =
        Retention { keep_ms: Some(30 * 24 * 3_600 * 1_000), keep_count: Some(1_000_000) };

    /// Rejects values that are out of bounds.
    pub fn check(&self) -> Result<(), RetentionError> {
        let limits = [("keep_ms", self.keep_ms, KEEP_MS), ("keep_count", self.keep_count, JOB_ID)];
        match limits.into_iter().find(|(_, given, most)| given.is_some_and(|given| given > *most)) {
            Some((field, given, most)) => Err(RetentionError { field, given: given.unwrap_or(0), most }),
            None => Ok(()),
        }
    }

    /// Whether it removes jobs.
    pub fn is_set(&self) -> bool {
        self.keep_ms.is_some() || self.keep_count.is_some()
    }
}

/// A number of a rule is beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionError {
    /// The field.
    pub field: &'static str,
    /// The given value.
    pub given: u64,
    /// The limit.
    pub most: u64,
}

impl fmt::Display for RetentionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} is outside 0 to {}", self.field, self.given, self.most)
    }
}

impl std::error::Error for RetentionError {}

/// The rule for the jobs of one type in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How long and how many jobs are kept.
    pub keep: Retention,
    /// Whether the number is the queue's: only the jobs of the type in this queue count.
    pub counts_queue: bool,
    /// How long the newest success of a key is kept in any case.
    pub reuse_window_ms: u64,
}

impl Rule {
    /// The rule that follows from these three. For a reserved type only its own numbers count: its application removes
    /// its jobs.
    pub fn of(is_reserved: bool, own: &TypeConfig, queue: &QueueConfig, server: Retention) -> Rule {
        let (queue, server) = match is_reserved {
            true => Default::default(),
            false => (queue.retention(), server),
        };
        let own_rule = own.retention();
        Rule {
            keep: Retention {
                keep_ms: own_rule.keep_ms.or(queue.keep_ms).or(server.keep_ms),
                keep_count: own_rule.keep_count.or(queue.keep_count).or(server.keep_count),
            },
            counts_queue: own_rule.keep_count.is_none() && queue.keep_count.is_some(),
            reuse_window_ms: own.reuse_window_ms,
        }
    }
}

/// The data of a completed job that retention needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Its id.
    pub id: JobId,
    /// Its type.
    pub job_type: TypeName,
    /// Its queue.
    pub queue: QueueName,
    /// When it was submitted.
    pub created_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// Whether it is the newest success of its key.
    pub newest_success: bool,
    /// The job that requested it.
    pub parent: Option<JobId>,
    /// The group it belongs to.
    pub group: Option<GroupId>,
}

/// What becomes of a completed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is removed.
    Removed,
    /// It is kept at least until this time, unless there are too many newer ones.
    KeptUntil(Time),
    /// It would be removed, but it can be reused until this time, unless a newer success replaces it.
    Spared(Time),
}

impl Rule {
    /// What becomes of this job; `beyond`: as many newer jobs as are kept are there. A key's newest success within the
    /// reuse window is always kept.
    pub fn fate(&self, job: &Completed, beyond: bool, now: Time) -> Fate {
        let until = |ms: Option<u64>| job.ended_at.plus_ms(ms.unwrap_or(u64::MAX));
        let kept = until(self.keep.keep_ms);
        if now <= kept && !beyond {
            return Fate::KeptUntil(kept);
        }
        let reusable = until(Some(self.reuse_window_ms));
        if job.newest_success && now <= reusable { Fate::Spared(reusable) } else { Fate::Removed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn job(newest_success: bool, age_ms: i64) -> Completed {
        Completed {
            id: JobId::new(1).unwrap(),
            job_type: TypeName::new("t").unwrap(),
            queue: QueueName::new("q").unwrap(),
            created_at: Time::EPOCH,
            ended_at: at(NOW - age_ms),
            newest_success,
            parent: None,
            group: None,
        }
    }

    fn at(ms: i64) -> Time {
        Time::from_ms(ms).unwrap()
    }

    fn fate(rule: &Rule, job: &Completed, beyond: bool) -> Fate {
        rule.fate(job, beyond, at(NOW))
    }

    fn rule(keep_ms: Option<u64>, keep_count: Option<u64>, reuse_window_ms: u64) -> Rule {
        Rule { keep: Retention { keep_ms, keep_count }, counts_queue: false, reuse_window_ms }
    }

    #[test]
    fn each_number_is_that_of_the_type_or_the_queue_or_the_server() {
        let set = |keep_ms, keep_count| Retention { keep_ms, keep_count };
        let none = set(None, None);
        let (a, b, c) = (set(Some(1), None), set(Some(2), Some(20)), set(Some(3), Some(30)));
        let of = |is_reserved: bool, own: Retention, queue: Retention, server| {
            let name = TypeName::new("t").unwrap();
            let Retention { keep_ms, keep_count } = own;
            let own = TypeConfig { keep_ms, keep_count, ..TypeConfig::of(&name) };
            let Retention { keep_ms, keep_count } = queue;
            let queue = QueueConfig { keep_ms, keep_count, ..QueueConfig::default() };
            let rule = Rule::of(is_reserved, &own, &queue, server);
            (rule.keep, rule.counts_queue)
        };
        assert_eq!(of(false, a, b, c), (set(Some(1), Some(20)), true));
        assert_eq!(of(false, b, c, a), (b, false), "the type's number counts in all queues");
        assert_eq!(of(false, none, none, c), (c, false));
        assert_eq!(of(false, none, a, c), (set(Some(1), Some(30)), false));
        assert_eq!(of(false, none, none, none), (none, false));
        assert_eq!(of(true, none, b, c), (none, false), "a reserved type");
        assert_eq!(of(true, a, b, c), (a, false), "its own rule counts");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let most = Retention { keep_ms: Some(KEEP_MS), keep_count: Some(JOB_ID) };
        assert_eq!((most.check(), Retention::default().check()), (Ok(()), Ok(())));
        let long = Retention { keep_ms: Some(KEEP_MS + 1), ..most };
        assert_eq!(
            long.check().unwrap_err().to_string(),
            "keep_ms of 3153600000001 is outside 0 to 3153600000000"
        );
        let many = Retention { keep_count: Some(JOB_ID + 1), ..most };
        assert_eq!(many.check().unwrap_err().field, "keep_count");
    }

    #[test]
    fn without_rules_everything_stays() {
        let end_of_time = Time::EPOCH.plus_ms(u64::MAX);
        assert_eq!(fate(&rule(None, None, 0), &job(false, 999_999), false), Fate::KeptUntil(end_of_time));
    }

    #[test]
    fn jobs_go_by_age() {
        let rule = rule(Some(100), None, 0);
        assert_eq!(fate(&rule, &job(false, 99), false), Fate::KeptUntil(at(NOW + 1)));
        assert_eq!(fate(&rule, &job(false, 100), false), Fate::KeptUntil(at(NOW)));
        assert_eq!(fate(&rule, &job(true, 101), false), Fate::Removed);
    }

    #[test]
    fn jobs_go_by_number() {
        let by_number = rule(None, Some(5), 0);
        assert_eq!(fate(&by_number, &job(false, 1), true), Fate::Removed);
        let both = rule(Some(100), Some(5), 0);
        assert_eq!(fate(&both, &job(false, 1), true), Fate::Removed);
        assert_eq!(fate(&both, &job(false, 101), false), Fate::Removed);
    }

    #[test]
    fn the_newest_success_of_a_key_stays_for_its_reuse_window() {
        let rule = rule(Some(100), None, 300);
        assert_eq!(fate(&rule, &job(true, 300), false), Fate::Spared(at(NOW)));
        assert_eq!(fate(&rule, &job(true, 301), false), Fate::Removed);
        assert_eq!(fate(&rule, &job(false, 200), false), Fate::Removed);
        assert_eq!(fate(&rule, &job(true, 10), true), Fate::Spared(at(NOW + 290)));
        assert_eq!(fate(&rule, &job(true, 10), false), Fate::KeptUntil(at(NOW + 90)));
    }
}
