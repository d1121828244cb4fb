//! A job: what was asked ([`JobSpec`]), and how far it has come ([`JobStatus`]).

use std::sync::Arc;

use crate::class::Class;
use crate::id::{GroupId, JobId, LeaseId};
use crate::json::Json;
use crate::name::{Key, Owner, QueueName, ScheduleName, Tag, TypeName, WorkerName};
use crate::needs::{Needs, Uses};
use crate::outcome::{Failure, Outcome};
use crate::retry::RetryPolicy;
use crate::state::{Blocked, Lease, Leased, State, StateName};
use crate::time::Time;
use crate::timeouts::Timeouts;
use crate::window::Windows;

/// What was asked for. Set at submit; replaced later only by an edit, and its `params` by a retry verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// What kind of work it is.
    pub job_type: TypeName,
    /// Names the work within its type; none means that it is never a duplicate.
    pub key: Option<Key>,
    /// The queue it stands in.
    pub queue: QueueName,
    /// What the worker gets.
    pub params: Json,
    /// Which workers suit it.
    pub needs: Needs,
    /// What it takes of its worker's numbers while it runs.
    pub uses: Uses,
    /// Whether another worker is preferred to those that had it before.
    pub avoid: bool,
    /// When on a day it may start.
    pub windows: Windows,
    /// What it weighs against limits; 0 is exempt from them.
    pub throttle_factor: u32,
    /// How long an attempt may take.
    pub timeouts: Timeouts,
    /// Lower goes first.
    pub priority: i32,
    /// When attempts are repeated.
    pub retry: RetryPolicy,
    /// When it was submitted.
    pub created_at: Time,
    /// The completed job that this one repeats; none unless made by a manual retry.
    pub retry_of: Option<JobId>,
    /// The jobs that must end before it, in ascending order without repetition.
    pub after: Box<[JobId]>,
    /// Whether any end of those will do; otherwise one that fails or is cancelled takes it along.
    pub after_any: bool,
    /// The job whose attempt asked for it.
    pub parent: Option<JobId>,
    /// The group it belongs to.
    pub group: Option<GroupId>,
    /// Whether it serves its group without being a member of it.
    pub attached: bool,
    /// The job that it is a speculative copy of: the two are one member of their group.
    pub copy_of: Option<JobId>,
    /// Whose it is.
    pub owner: Option<Owner>,
    /// What it is found by, in ascending order without repetition.
    pub tags: Box<[Tag]>,
    /// The schedule that made it.
    pub schedule: Option<ScheduleName>,
}

impl JobSpec {
    /// Whether it asks for nothing but what every job has: stores write such jobs by shorter ways.
    pub fn is_plain(&self) -> bool {
        self.group.is_none() && self.is_plain_member()
    }

    /// The same, but for the group that it is a member of, if any.
    pub fn is_plain_member(&self) -> bool {
        self.uses.is_empty()
            && !self.avoid
            && self.windows.is_always()
            && self.throttle_factor == 1
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

    /// A job of this type that asks for nothing in particular.
    pub fn plain(job_type: TypeName, queue: QueueName, created_at: Time) -> JobSpec {
        JobSpec {
            job_type,
            key: None,
            queue,
            params: Json::empty_object(),
            needs: Needs::default(),
            uses: Uses::default(),
            avoid: false,
            windows: Windows::default(),
            throttle_factor: 1,
            timeouts: Timeouts::default(),
            priority: 100,
            retry: RetryPolicy::named(),
            created_at,
            retry_of: None,
            after: Box::default(),
            after_any: false,
            parent: None,
            group: None,
            attached: false,
            copy_of: None,
            owner: None,
            tags: Box::default(),
            schedule: None,
        }
    }

    /// Jobs of one class are matched alike.
    pub fn class(&self) -> Class {
        Class {
            queue: self.queue.clone(),
            job_type: self.job_type.clone(),
            needs: self.needs.clone(),
            uses: self.uses.clone(),
        }
    }

    /// Whether that is its class.
    pub fn is_of(&self, class: &Class) -> bool {
        let Class { queue, job_type, needs, uses } = class;
        self.queue == *queue && self.job_type == *job_type && self.needs == *needs && self.uses == *uses
    }
}

/// The follow-up that `run_again` asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// Its params: those of the latest request.
    pub params: Json,
}

/// How far a job has come. Every transition makes a new one with a higher `rev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// Rises at every transition, so it stands for the whole content when a write is guarded by it.
    pub rev: u32,
    /// The fence: rises at every claim.
    pub claim: u32,
    /// The number people see: claims that were accepted.
    pub attempt: u32,
    /// Attempts that ended because the worker was not heard of.
    pub lost: u16,
    /// Attempts that asked to be called later and do not count.
    pub snoozed: u32,
    /// Claims in a row that nobody accepted.
    pub unaccepted: u16,
    /// Whether someone keeps it from being claimed.
    pub hold: bool,
    /// Not before this moment.
    pub run_at: Time,
    /// The moment of the last transition; strictly later than the one before.
    pub updated_at: Time,
    /// A follow-up to be made when this job ends.
    pub again: Option<Box<Again>>,
    /// Where it stands.
    pub state: State,
}

impl JobStatus {
    /// Whether there is nothing particular about it: queued, held or succeeded, without an error, a stop, a hold, a
    /// follow-up or a wait. Stores write such jobs by shorter ways.
    pub fn is_plain(&self) -> bool {
        let plain = match &self.state {
            State::Queued(error) => error.is_none(),
            State::Assigned(held) | State::Accepted(held) | State::Running(held) => {
                let Leased { lease, stop, error, early } = &**held;
                stop.is_none() && error.is_none() && early.is_none() && lease.waited_ms == 0
            }
            State::Succeeded(success) => success.last.waited_ms == 0,
            _ => false,
        };
        plain && !self.hold && self.again.is_none()
    }

    /// A new job that waits for `run_at`.
    pub fn queued(now: Time, run_at: Time) -> JobStatus {
        JobStatus::with(now, run_at, State::Queued(None))
    }

    /// A new job that waits for the end of the holder of its key.
    pub fn behind(now: Time, run_at: Time, holder: JobId) -> JobStatus {
        let blocked = Blocked { holder: Some(holder), dependencies: false };
        JobStatus::with(now, run_at, State::Blocked(blocked))
    }

    /// The same job, if others must end before it.
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

    /// Attempts that are in the history: all accepted ones, but for the current one or the last of a completed job.
    pub fn past_attempts(&self) -> u32 {
        let current = self.state.lease().is_some_and(|lease| lease.accepted_at.is_some());
        self.attempt.saturating_sub(u32::from(current))
    }

    /// The state's name at this moment: a queued job is `retrying` after an attempt, `scheduled` before its time.
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
    /// Its number.
    pub id: JobId,
    /// What was asked for.
    pub spec: Arc<JobSpec>,
    /// How far it has come.
    pub life: JobStatus,
}

/// An attempt that ended while its job went on. The last attempt of a completed job is in the job itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastAttempt {
    /// The claim it had.
    pub claim: u32,
    /// The lease it had: a repeated report is recognised by it.
    pub lease: LeaseId,
    /// Who had it.
    pub worker: WorkerName,
    /// When it was assigned.
    pub assigned_at: Time,
    /// When the worker took it; none if that was never seen.
    pub accepted_at: Option<Time>,
    /// When the first progress came.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Time,
    /// How it ended.
    pub outcome: Outcome,
    /// Why.
    pub failure: Failure,
}

impl PastAttempt {
    /// The record of a hold that ended without success.
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
        for life in lives {
            assert_eq!((life.rev, life.claim, life.attempt), (1, 0, 0));
            assert_eq!((life.lost, life.snoozed, life.unaccepted), (0, 0, 0));
            assert_eq!((life.run_at, life.updated_at, &life.again), (later, now, &None));
            assert_eq!((life.tries(), life.past_attempts()), (0, 0));
        }
    }
}
