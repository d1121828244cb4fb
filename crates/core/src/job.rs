//! A job: its request ([`JobSpec`]) and its progress ([`JobStatus`]).

pub(crate) mod disposition;
pub(crate) mod event;
mod indicator;
mod new_job;
pub(crate) mod outcome;
pub(crate) mod retry;
pub(crate) mod state;
pub(crate) mod timeouts;

use std::sync::Arc;

use crate::id::{GroupId, JobId, LeaseId};
use crate::json::Json;
use crate::name::{Key, Owner, QueueName, ScheduleName, Tag, TypeName, WorkerName};
use crate::needs::class::Class;
use crate::needs::{Needs, Uses};
use crate::time::Time;
use crate::time::window::Windows;

use outcome::{Failure, Outcome, Report};
use retry::RetryPolicy;
use state::{Blocked, Lease, Leased, State, StateName};
use timeouts::Timeouts;

pub use indicator::Indicator;
pub use new_job::{After, NewJob, OnDuplicate, Reuse};

/// The request. Set at submit; replaced later only by an edit, and its `params` by a retry verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// The type of work.
    pub job_type: TypeName,
    /// Identifies the work within its type; without a key the job is never a duplicate.
    pub key: Option<Key>,
    /// The queue.
    pub queue: QueueName,
    /// The parameters for the worker.
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
    /// The time limits of an attempt.
    pub timeouts: Timeouts,
    /// The priority; lower values go first.
    pub priority: i32,
    /// The retry policy.
    pub retry: RetryPolicy,
    /// When it was submitted.
    pub created_at: Time,
    /// The completed job that this one repeats; only set by a manual retry.
    pub retry_of: Option<JobId>,
    /// Jobs that must end before it starts, in ascending order without repetition.
    pub after: Box<[JobId]>,
    /// Whether these may end in any state; otherwise one that fails or is cancelled also ends this job.
    pub after_any: bool,
    /// The job whose attempt requested it.
    pub parent: Option<JobId>,
    /// The group it belongs to.
    pub group: Option<GroupId>,
    /// Whether it serves its group without being a member.
    pub attached: bool,
    /// The job that it is a speculative copy of: the two are one member of their group.
    pub copy_of: Option<JobId>,
    /// The owner.
    pub owner: Option<Owner>,
    /// Tags for filtering, in ascending order without repetition.
    pub tags: Box<[Tag]>,
    /// The schedule that created it.
    pub schedule: Option<ScheduleName>,
}

impl JobSpec {
    /// Whether every optional field has its default: stores write such jobs through a shorter code path.
    pub fn is_plain(&self) -> bool {
        self.group.is_none() && self.is_plain_member()
    }

    /// The same, except that it may be a member of a group.
    pub fn is_plain_member(&self) -> bool {
        self.uses.is_empty()
            && !self.avoid
            && self.windows.is_always()
            && self.throttle_factor == 1
            && !self.retry.at_most_once
            && self.timeouts == Timeouts::default()
            && self.after.is_empty()
            && !self.after_any
            && self.parent.is_none()
            && !self.attached
            && self.copy_of.is_none()
            && self.owner.is_none()
            && self.tags.is_empty()
            && self.schedule.is_none()
    }

    /// A job of this type in which every optional field has its default.
    pub fn plain(job_type: TypeName, queue: QueueName, created_at: Time) -> JobSpec {
        let new = NewJob { queue, ..NewJob::new(job_type) };
        new.spec(Vec::new(), RetryPolicy::named(), created_at)
    }

    /// The class. Jobs of one class match the same workers.
    pub fn class(&self) -> Class {
        Class {
            queue: self.queue.clone(),
            job_type: self.job_type.clone(),
            needs: self.needs.clone(),
            uses: self.uses.clone(),
        }
    }

    /// Whether this is its class.
    pub fn is_of(&self, class: &Class) -> bool {
        let Class { queue, job_type, needs, uses } = class;
        self.queue == *queue && self.job_type == *job_type && self.needs == *needs && self.uses == *uses
    }
}

/// The follow-up that `run_again` requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// Its params: those of the latest request.
    pub params: Json,
}

/// The progress of a job. Every transition creates a new one with a higher `rev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// Increases with every transition, so a write guarded by it is guarded by the whole content.
    pub rev: u32,
    /// The fencing number: increases with every claim.
    pub claim: u32,
    /// The attempt number shown to users: the number of claims that were accepted.
    pub attempt: u32,
    /// Attempts that ended because their worker was lost.
    pub lost: u16,
    /// Attempts that were snoozed and do not count.
    pub snoozed: u32,
    /// Consecutive claims that were not accepted.
    pub unaccepted: u16,
    /// Whether the job is held, so that it is not claimed.
    pub hold: bool,
    /// The earliest start.
    pub run_at: Time,
    /// The time of the last transition; strictly later than the one before.
    pub updated_at: Time,
    /// A follow-up to be created when this job ends.
    pub again: Option<Box<Again>>,
    /// Its state.
    pub state: State,
}

impl JobStatus {
    /// Whether it has no optional data: queued, leased or succeeded, without an error, a stop, a hold, a follow-up or
    /// a wait. Stores write such jobs through a shorter code path.
    pub fn is_plain(&self) -> bool {
        let plain = match &self.state {
            State::Queued(error) => error.is_none(),
            State::Assigned(held) | State::Accepted(held) | State::Running(held) => {
                let Leased { lease, stop, error, early } = &**held;
                stop.is_none() && error.is_none() && early.is_none() && lease.is_plain()
            }
            State::Succeeded(success) => success.last.is_plain(),
            _ => false,
        };
        plain && !self.hold && self.again.is_none()
    }

    /// A new job that is queued until `run_at`.
    pub fn queued(now: Time, run_at: Time) -> JobStatus {
        JobStatus::with(now, run_at, State::Queued(None))
    }

    /// A new job that waits for the end of the holder of its key.
    pub fn behind(now: Time, run_at: Time, holder: JobId) -> JobStatus {
        let blocked = Blocked { holder: Some(holder), dependencies: false };
        JobStatus::with(now, run_at, State::Blocked(blocked))
    }

    /// The same job, blocked until its dependencies have ended.
    #[must_use]
    pub fn after_others(mut self) -> JobStatus {
        let holder = match self.state {
            State::Blocked(blocked) => blocked.holder,
            _ => None,
        };
        self.state = State::Blocked(Blocked { holder, dependencies: true });
        self
    }

    fn with(now: Time, run_at: Time, state: State) -> JobStatus {
        JobStatus {
            rev: 1,
            claim: 0,
            attempt: 0,
            lost: 0,
            snoozed: 0,
            unaccepted: 0,
            hold: false,
            run_at,
            updated_at: now,
            again: None,
            state,
        }
    }

    /// Attempts that count against `max_attempts`.
    pub fn tries(&self) -> u32 {
        self.attempt.saturating_sub(u32::from(self.lost)).saturating_sub(self.snoozed)
    }

    /// Attempts in the history: all accepted ones, except the current one or the last one of a completed job.
    pub fn past_attempts(&self) -> u32 {
        let current = self.state.lease().is_some_and(|lease| lease.accepted_at.is_some());
        self.attempt.saturating_sub(u32::from(current))
    }

    /// The state's name at this time: a queued job is `retrying` after an attempt, and `scheduled` before `run_at`.
    pub fn name(&self, now: Time) -> StateName {
        match self.state {
            State::Queued(_) if self.attempt > 0 => StateName::Retrying,
            State::Queued(_) if self.run_at > now => StateName::Scheduled,
            _ => self.state.name(),
        }
    }
}

/// A job as stored and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The request.
    pub spec: Arc<JobSpec>,
    /// Its progress.
    pub status: JobStatus,
}

/// An attempt that ended while its job continued. The last attempt of a completed job is in the job itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastAttempt {
    /// Its claim.
    pub claim: u32,
    /// Its lease, by which a repeated report is recognised.
    pub lease: LeaseId,
    /// Its worker.
    pub worker: WorkerName,
    /// When it was assigned.
    pub assigned_at: Time,
    /// When the worker accepted it; none if no accept was received.
    pub accepted_at: Option<Time>,
    /// When the work began; none if that is not known.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Time,
    /// How it ended.
    pub outcome: Outcome,
    /// The failure.
    pub failure: Failure,
    /// Its last progress.
    pub progress: Box<[Indicator]>,
}

impl PastAttempt {
    /// Whether this report ended it. A lost attempt ended without one.
    #[must_use]
    pub fn ended_by(&self, report: &Report) -> bool {
        self.outcome != Outcome::Lost
            && self.outcome == report.outcome()
            && report.failure() == Some(&self.failure)
    }

    /// The record of a lease that ended without success.
    pub fn of(claim: u32, lease: Lease, ended_at: Time, outcome: Outcome, failure: Failure) -> PastAttempt {
        PastAttempt {
            claim,
            lease: lease.id,
            worker: lease.worker,
            assigned_at: lease.assigned_at,
            accepted_at: lease.accepted_at,
            started_at: lease.started_at,
            ended_at,
            outcome,
            failure,
            progress: lease.progress,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_of_the_class_of_its_queue_type_and_needs() {
        let (job_type, queue) = (TypeName::new("render").unwrap(), QueueName::new("fast").unwrap());
        let spec = JobSpec {
            key: Some(Key::new("k").unwrap()),
            needs: Needs::parse("gpu>=1").unwrap(),
            uses: Uses::parse("gpu=1").unwrap(),
            ..JobSpec::plain(job_type, queue, Time::EPOCH)
        };
        let Class { queue, job_type, needs, uses } = spec.class();
        assert_eq!((queue, job_type), (spec.queue, spec.job_type));
        assert_eq!((needs, uses), (spec.needs, spec.uses));
    }

    #[test]
    fn a_new_life_has_nothing_behind_it() {
        let (now, later) = (Time::EPOCH.plus_ms(5), Time::EPOCH.plus_ms(9));
        let holder = JobId::new(3).unwrap();
        let lives = [JobStatus::queued(now, later), JobStatus::behind(now, later, holder)];
        let blocked = |holder, dependencies| State::Blocked(Blocked { holder, dependencies });
        let [queued, behind] = lives.clone();
        assert_eq!(queued.clone().after_others().state, blocked(None, true));
        assert_eq!(behind.clone().after_others().state, blocked(Some(holder), true));
        assert_eq!([queued.state, behind.state], [State::Queued(None), blocked(Some(holder), false)]);
        for status in lives {
            assert_eq!((status.rev, status.claim, status.attempt), (1, 0, 0));
            assert_eq!((status.lost, status.snoozed, status.unaccepted), (0, 0, 0));
            assert_eq!((status.run_at, status.updated_at, &status.again), (later, now, &None));
            assert_eq!((status.tries(), status.past_attempts()), (0, 0));
        }
    }
}
