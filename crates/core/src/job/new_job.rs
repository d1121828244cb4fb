//! A job to be submitted, its defaults, and the [`JobSpec`] that it becomes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{GroupId, JobId};
use crate::job::JobSpec;
use crate::job::retry::RetryPolicy;
use crate::job::timeouts::Timeouts;
use crate::json::Json;
use crate::name::{Key, Owner, QueueName, ScheduleName, Tag, TypeName};
use crate::needs::{Needs, Uses};
use crate::scope::Scope;
use crate::time::Time;
use crate::time::window::Windows;

/// What to do when a live job has the same (type, key).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// Return that job.
    #[default]
    Join,
    /// Reject the submit.
    Reject,
    /// Cancel that job and wait as its successor.
    Supersede,
    /// Run again with these params when that job has ended.
    RunAgain,
}

/// Which success of the same (type, key) is returned instead of a new job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Reuse {
    /// One that is at most this many milliseconds old; limited by the type's reuse window.
    #[serde(rename = "max_age_ms")]
    MaxAge(u64),
    /// Any.
    Any,
    /// One with a higher id than this job.
    #[serde(serialize_with = "write_id", deserialize_with = "read_id")]
    Above(JobId),
}

fn write_id<S: Serializer>(id: &JobId, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(id.get())
}

fn read_id<'de, D: Deserializer<'de>>(from: D) -> Result<JobId, D::Error> {
    JobId::new(u64::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// Reads the stored form: until version 0.1.0 it was the maximum age alone.
fn stored_reuse<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Reuse>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        MaxAge(u64),
        Reuse(Reuse),
    }
    Ok(Option::deserialize(from)?.map(|stored| match stored {
        Stored::MaxAge(ms) => Reuse::MaxAge(ms),
        Stored::Reuse(reuse) => reuse,
    }))
}

/// A dependency of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// This job.
    Job(JobId),
    /// The result of the earlier job of the same submit at this position.
    Position(usize),
}

/// One job to be submitted. Its fields are validated values; a field that is none takes the type's default.
///
/// The serialised form is the stored form of a schedule's job. Its format must stay readable: a field that is added
/// has `#[serde(default)]`. A field that the job of a schedule cannot have is skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// The type of work.
    #[serde(rename = "type")]
    pub job_type: TypeName,
    /// Identifies the work within its type.
    pub key: Option<Key>,
    /// The queue.
    pub queue: QueueName,
    /// The parameters for the worker.
    #[serde(with = "crate::json::raw")]
    pub params: Json,
    /// Requirements that a worker must match.
    pub needs: Needs,
    /// What it uses of its worker's resources while it runs.
    pub uses: Uses,
    /// Whether retries prefer workers that did not have it before.
    pub avoid: bool,
    /// The time windows in which it may start.
    pub windows: Windows,
    /// Its weight against limits; 0 is exempt from them.
    pub throttle_factor: u32,
    /// The time limits of an attempt; a field that is none takes the type's value.
    pub timeouts: Timeouts,
    /// Jobs that must end before it starts.
    #[serde(skip)]
    pub after: Vec<After>,
    /// Whether a dependency may end in any state.
    #[serde(skip)]
    pub after_any: bool,
    /// The group it belongs to.
    #[serde(skip)]
    pub group: Option<GroupId>,
    /// Whether it serves its group without being a member.
    #[serde(skip)]
    pub attached: bool,
    /// The job that it is a speculative copy of.
    #[serde(skip)]
    pub copy_of: Option<JobId>,
    /// The owner.
    pub owner: Option<Owner>,
    /// Tags for filtering.
    pub tags: Vec<Tag>,
    /// The priority; lower values go first.
    pub priority: i32,
    /// The earliest start; none: now.
    #[serde(skip)]
    pub run_at: Option<Time>,
    /// The retry policy; none: the type's.
    pub retry: Option<RetryPolicy>,
    /// What to do if a live job has the same key.
    pub on_duplicate: OnDuplicate,
    /// Which success is returned instead, if there is one.
    #[serde(default, alias = "reuse_max_age_ms", deserialize_with = "stored_reuse")]
    pub reuse: Option<Reuse>,
    /// The queues that the caller may access: a job in another queue is neither returned nor changed.
    #[serde(skip)]
    pub scope: Scope,
    /// The completed job that this one repeats.
    #[serde(skip)]
    pub retry_of: Option<JobId>,
    /// The schedule that creates it.
    #[serde(skip)]
    pub schedule: Option<ScheduleName>,
}

impl NewJob {
    /// A job of this type with every default: queue `default`, params `{}`, priority 100.
    pub fn new(job_type: TypeName) -> NewJob {
        NewJob {
            job_type,
            key: None,
            queue: QueueName::new("default").expect("a constant name"),
            params: Json::empty_object(),
            needs: Needs::default(),
            uses: Uses::default(),
            avoid: false,
            windows: Windows::default(),
            throttle_factor: 1,
            timeouts: Timeouts::default(),
            after: Vec::new(),
            after_any: false,
            group: None,
            attached: false,
            copy_of: None,
            owner: None,
            tags: Vec::new(),
            priority: 100,
            run_at: None,
            retry: None,
            on_duplicate: OnDuplicate::default(),
            reuse: None,
            scope: Scope::default(),
            retry_of: None,
            schedule: None,
        }
    }

    /// A new job with the content of an existing one. It is independent: it has no dependencies, group, parent or
    /// schedule, and it repeats no other job. The pattern is complete, so that a new field is not lost here.
    pub fn like(spec: &JobSpec) -> NewJob {
        let JobSpec {
            job_type,
            key,
            queue,
            params,
            needs,
            uses,
            avoid,
            windows,
            throttle_factor,
            timeouts,
            priority,
            retry,
            owner,
            tags,
            created_at: _,
            retry_of: _,
            after: _,
            after_any: _,
            parent: _,
            group: _,
            attached: _,
            copy_of: _,
            schedule: _,
        } = spec.clone();
        NewJob {
            key,
            queue,
            params,
            needs,
            uses,
            avoid,
            windows,
            throttle_factor,
            timeouts,
            priority,
            retry: Some(retry),
            owner,
            tags: tags.into_vec(),
            ..NewJob::new(job_type)
        }
    }

    /// The spec of this job with its dependencies resolved. `retry` is the policy of its type. The job has no parent.
    pub fn spec(&self, after: Vec<JobId>, retry: RetryPolicy, created_at: Time) -> JobSpec {
        let mut tags = self.tags.clone();
        tags.sort_unstable();
        tags.dedup();
        JobSpec {
            job_type: self.job_type.clone(),
            key: self.key.clone(),
            queue: self.queue.clone(),
            params: self.params.clone(),
            needs: self.needs.clone(),
            uses: self.uses.clone(),
            avoid: self.avoid,
            windows: self.windows.clone(),
            throttle_factor: self.throttle_factor,
            timeouts: self.timeouts,
            priority: self.priority,
            retry: self.retry.unwrap_or(retry),
            created_at,
            retry_of: self.retry_of,
            after: after.into(),
            after_any: self.after_any,
            parent: None,
            group: self.group,
            attached: self.attached,
            copy_of: self.copy_of,
            owner: self.owner.clone(),
            tags: tags.into(),
            schedule: self.schedule.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::retry::Backoff;

    /// The job of a schedule as version 0.1.0 stored it.
    const STORED: &str = r#"{"type":"mail","key":null,"queue":"paused","params":{"to": "a@example.org"},"needs":"os=linux","uses":"mem_gb=1","avoid":true,"windows":"22:00-06:00 Europe/Berlin","throttle_factor":2,"timeouts":{"total_ms":3600000,"silence_ms":null},"owner":null,"tags":["year"],"priority":7,"retry":{"max_attempts":2,"backoff":{"constant":{"ms":1000}},"on":28},"on_duplicate":"supersede","reuse_max_age_ms":null}"#;

    fn job_type() -> TypeName {
        TypeName::new("mail").unwrap()
    }

    fn id(id: u64) -> JobId {
        JobId::new(id).unwrap()
    }

    fn tag(tag: &str) -> Tag {
        Tag::new(tag).unwrap()
    }

    #[test]
    fn the_stored_form_of_version_0_1_0_is_read() {
        let job: NewJob = serde_json::from_str(STORED).unwrap();
        let retry =
            RetryPolicy { max_attempts: 2, backoff: Backoff::Constant { ms: 1_000 }, ..RetryPolicy::named() };
        let expected = NewJob {
            queue: QueueName::new("paused").unwrap(),
            params: Json::params(r#"{"to": "a@example.org"}"#).unwrap(),
            needs: Needs::parse("os=linux").unwrap(),
            uses: Uses::parse("mem_gb=1").unwrap(),
            avoid: true,
            windows: Windows::parse("22:00-06:00 Europe/Berlin").unwrap(),
            throttle_factor: 2,
            timeouts: Timeouts { total_ms: Some(3_600_000), silence_ms: None },
            tags: vec![tag("year")],
            priority: 7,
            retry: Some(retry),
            on_duplicate: OnDuplicate::Supersede,
            ..NewJob::new(job_type())
        };
        assert_eq!(job, expected);
        let stored = STORED.replace("reuse_max_age_ms", "reuse");
        assert_eq!(serde_json::to_string(&job).unwrap(), stored);
    }

    #[test]
    fn ground_4_the_stored_form_of_reuse_is_read_as_it_was_and_as_it_is() {
        let read = |reuse: &str| {
            let stored = STORED.replace(r#""reuse_max_age_ms":null"#, reuse);
            serde_json::from_str::<NewJob>(&stored).map(|job| job.reuse)
        };
        assert_eq!(read(r#""reuse_max_age_ms":60000"#).unwrap(), Some(Reuse::MaxAge(60_000)));
        for reuse in [None, Some(Reuse::MaxAge(60_000)), Some(Reuse::Any), Some(Reuse::Above(id(17)))] {
            let written = serde_json::to_string(&reuse).unwrap();
            assert_eq!(read(&format!(r#""reuse":{written}"#)).unwrap(), reuse, "{written}");
        }
        assert_eq!(serde_json::to_string(&Reuse::Above(id(17))).unwrap(), r#"{"above":17}"#);
        assert!(read(r#""reuse":{"above":0}"#).is_err() && read(r#""reuse":{"below":1}"#).is_err());
    }

    #[test]
    fn a_stored_job_with_an_invalid_or_unknown_field_is_refused() {
        let changes = [
            (r#""queue":"paused""#, r#""queue":"""#, "queue is empty"),
            (r#""needs":"os=linux""#, r#""needs":"os=""#, "expected a value after"),
            (r#""avoid":true"#, r#""avoid":true,"group":1"#, "unknown field `group`"),
        ];
        for (old, new, expected) in changes {
            let error = serde_json::from_str::<NewJob>(&STORED.replace(old, new)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_spec_has_sorted_tags_and_the_retry_policy_of_the_type() {
        let job = NewJob { tags: ["b", "a", "b"].map(tag).into(), ..NewJob::new(job_type()) };
        let spec = job.spec(vec![id(3)], RetryPolicy::once(), Time::EPOCH);
        assert_eq!((&*spec.tags, &*spec.after), (&["a", "b"].map(tag)[..], &[id(3)][..]));
        assert_eq!(spec.retry, RetryPolicy::once());
        let own = NewJob { retry: Some(RetryPolicy::named()), ..job };
        assert_eq!(own.spec(Vec::new(), RetryPolicy::once(), Time::EPOCH).retry, RetryPolicy::named());
    }

    #[test]
    fn a_job_like_another_has_its_content_and_none_of_its_relations() {
        let stored: NewJob = serde_json::from_str(STORED).unwrap();
        let content =
            NewJob { key: Some(Key::new("k").unwrap()), owner: Some(Owner::new("ann").unwrap()), ..stored };
        let related = NewJob {
            after_any: true,
            group: Some(GroupId::new(4).unwrap()),
            attached: true,
            copy_of: Some(id(5)),
            retry_of: Some(id(6)),
            schedule: Some(ScheduleName::new("s").unwrap()),
            ..content.clone()
        };
        let spec = related.spec(vec![id(1)], RetryPolicy::once(), Time::EPOCH);
        let spec = JobSpec { parent: Some(id(2)), ..spec };
        assert_eq!(NewJob::like(&spec), NewJob { on_duplicate: OnDuplicate::Join, ..content });
    }
}
