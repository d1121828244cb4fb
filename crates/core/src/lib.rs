//! The pure rules of Jobhall: what a job is, which state follows which event, when it is retried, and which worker
//! matches it.
//!
//! This crate has no IO, clocks, random numbers, threads or async: its manifest has no such dependency, and a test
//! (`xtask/tests/tidy.rs`) checks its sources. Time and random bits are arguments ([`Time`], [`Dice`]), so the engine,
//! the stores, recovery and the simulator all decide through the same functions.
//!
//! ```text
//!   Spec (what was asked, does not change)  ┐
//!   Life (state, counters, rev)             ├─ Job
//!                                           ┘
//!   transition(life, event, now) ──▶ Decision::Step { life', past attempt, … } | Same | IllegalTransition
//! ```
#![forbid(unsafe_code)]

pub mod bounds;
mod id;
mod job;
mod json;
pub mod limits;
mod name;
pub mod needs;
pub mod query;
mod relations;
pub mod retention;
mod scope;
mod settings;
mod time;
mod transition;

pub use id::{AttemptId, GroupId, IdError, IdHash, IdMap, JobId, LeaseId};
pub use job::disposition::{Disposition, Submitted};
pub use job::event::{Event, EventName};
pub use job::outcome::{DelayError, Failure, FailureError, Outcome, Report, Verdict, When};
pub use job::retry::{Backoff, Dice, OutcomeSet, RetryError, RetryPolicy};
pub use job::state::{
    Blocked, Lease, Leased, State, StateName, StopRequest, StopWhy, Success, Unsuccessful, WaitFor, Waiting,
};
pub use job::timeouts::{TimeoutError, Timeouts};
pub use job::{After, Again, Indicator, Job, JobSpec, JobStatus, NewJob, OnDuplicate, PastAttempt, Reuse};
pub use json::{Json, JsonError, base64};
pub use name::{
    Application, Key, NameError, Owner, QueueName, RecordKind, Reserved, ReservedTypes, ScheduleName, Tag,
    TokenName, TypeName, WorkerName,
};
pub use needs::class::Class;
pub use relations::dependency::{Dependency, circle};
pub use relations::group::{Group, GroupCounts, GroupEnd, GroupState, GroupVerdict, Standing};
pub use retention::{Retention, RetentionError};
pub use scope::{Scope, ScopeError};
pub use settings::queue_config::{QueueConfig, QueueConfigError};
pub use settings::type_config::{TypeConfig, TypeConfigError};
pub use time::schedule;
pub use time::schedule::{Cron, CronError, Rhythm, Schedule, ScheduleError};
pub use time::window::{WindowError, WindowErrorKind, Windows};
pub use time::zone::{Zone, ZoneError};
pub use time::{Time, TimeError, TimeSpan};
pub use transition::{Decision, IllegalTransition, Reason, Step, guard, transition};
