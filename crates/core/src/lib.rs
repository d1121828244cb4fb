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
mod class;
mod dependency;
mod disposition;
mod event;
mod group;
mod id;
mod id_map;
mod job;
mod json;
pub mod limits;
mod name;
pub mod needs;
mod outcome;
mod queue_config;
pub mod retention;
mod retry;
pub mod schedule;
mod scope;
mod state;
mod time;
mod timeouts;
mod transition;
mod type_config;
mod window;
mod zone;

pub use class::Class;
pub use dependency::{Dependency, circle};
pub use disposition::{Disposition, Submitted};
pub use event::{Event, EventName};
pub use group::{Group, GroupCounts, GroupEnd, GroupState, GroupVerdict, Standing};
pub use id::{AttemptId, GroupId, IdError, JobId, LeaseId};
pub use id_map::{IdHash, IdMap};
pub use job::{After, Again, Indicator, Job, JobSpec, JobStatus, NewJob, OnDuplicate, PastAttempt, Reuse};
pub use json::{Json, JsonError};
pub use name::{
    Application, Key, NameError, Owner, QueueName, RecordKind, Reserved, ReservedTypes, ScheduleName, Tag,
    TokenName, TypeName, WorkerName,
};
pub use outcome::{DelayError, Failure, FailureError, Outcome, Report, Verdict, When};
pub use queue_config::{QueueConfig, QueueConfigError};
pub use retention::{Retention, RetentionError};
pub use retry::{Backoff, Dice, OutcomeSet, RetryError, RetryPolicy};
pub use schedule::{Cron, CronError, Rhythm, Schedule, ScheduleError};
pub use scope::{Scope, ScopeError};
pub use state::{
    Blocked, Lease, Leased, State, StateName, StopRequest, StopWhy, Success, Unsuccessful, WaitFor, Waiting,
};
pub use time::{Time, TimeError};
pub use timeouts::{TimeoutError, Timeouts};
pub use transition::{Decision, IllegalTransition, Reason, Step, guard, transition};
pub use type_config::{TypeConfig, TypeConfigError};
pub use window::{WindowError, WindowErrorKind, Windows};
pub use zone::{Zone, ZoneError};
