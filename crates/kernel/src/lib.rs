//! The kernel: the state machine behind submit, match, lease, report, retry, cancel and explain.
//!
//! The [`Kernel`] is synchronous and does no IO. Its inputs are requests, replies of the store and the time; its
//! outputs are units to commit, reads to make and effects to carry out. It decides through `core`, keeps the open jobs
//! in memory, and acknowledges nothing before the commit has succeeded. The driver around it is `jobhall-engine`; the
//! simulator drives it with a virtual clock and a failing store.
//!
//! ```text
//!   request ─▶ Kernel ─▶ units ─▶ Store::commit ─▶ Kernel ─▶ effects (answers, assignments, cancels)
//!                ▲                                  │
//!                └───── deadlines (upkeep/) ◀───────┘
//! ```
//!
//! The kernel's memory is a hint; the guarded write is authoritative. While a unit that touches a job is in flight,
//! the job is *busy* and every other task for it is queued.
#![forbid(unsafe_code)]

mod api;
mod attempts;
mod commits;
mod explain;
#[cfg(test)]
mod fixtures;
mod groups;
mod jobs;
mod kernel;
mod limits;
mod matching;
mod relations;
mod settings;
mod stats;
mod submit;
pub mod upkeep;

pub use api::answer::{
    Answer, AnswerVisitor, ByReply, GroupCreated, Noted, OpenedSession, RecordConflict, Rejected, Reply,
    ReplyFamily, Shown, TypedAnswer, Waited,
};
pub use api::config::Config;
pub use api::effect::{Assignment, Effect, Ended, SessionId, VacancyId};
pub use api::observer::Observer;
pub use api::request::{
    AttemptRef, AttemptRequest, HallRequest, IdempotencyKey, JobRequest, NewRecord, NewRecordGroup, Request,
    SessionRequest, Submit, TypedRequest,
};
pub use api::ticket::Ticket;
pub use api::time::{Mono, Now};
pub use explain::{Blocker, EndWhy, Explanation, Format, TooLarge, UsedUp, Why, WorkerWhy, unserved};
pub use groups::{NewGroup, ShownGroup};
pub use jobs::edit::Edit;
pub use jobs::past::{WHOLE_ATTEMPTS, abridge};
pub use kernel::{Kernel, StoreReply, StoreRequest};
pub use limits::{Ahead, ExpectedStart, LimitOf, LimitWhy, Missing};
pub use matching::pause::{WorkerChange, WorkerConfig};
pub use matching::resources::WorkerUse;
pub use matching::session::Silence;
pub use settings::retention::retention_write;
pub use settings::schedules::{ScheduleConfig, ShownSchedule};
pub use settings::types::KnownType;
pub use stats::counts::{ByOutcome, Counts, KEPT_TYPES, NAMED_QUEUES, TROUBLE_MS, Takers, Workforce};
pub use stats::histogram::{Histogram, MS_BOUNDS, US_BOUNDS};
pub use stats::queues::Tally;
pub use stats::recent::Rates;
