//! The use cases of the engine: submit, match, lease, report, retry, cancel and explain jobs.
//!
//! The [`Kernel`] is synchronous and does no IO. Its inputs are requests, commit results and deadlines; its outputs
//! are units to commit, reads to make and effects to carry out. It decides through `core`, keeps the open jobs in
//! memory, and acknowledges nothing before the commit has succeeded. [`Engine`] is the thin driver around it; it waits
//! only for the store.
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

mod answer;
mod avoid;
mod board;
mod cancel;
mod cascade;
mod clock;
mod config;
mod counts;
mod credit;
mod cycle;
mod dependencies;
mod driver;
mod edit;
mod effect;
mod entry;
mod explain;
mod external;
mod groups;
mod histogram;
mod ids;
mod job_log_events;
mod kernel;
mod limits;
mod links;
mod load;
mod membership;
mod queue_settings;
mod queues;
mod recent;
mod remove;
mod report;
mod request;
mod resources;
mod retry;
mod schedules;
mod session;
mod settings;
mod settle;
mod show;
mod specs;
mod step;
mod sub_job;
mod submit;
mod timing;
pub mod upkeep;
mod vacancy;
mod wait;
mod watch;
mod windows;

pub use answer::{Answer, Rejected, Shown};
pub use clock::{Clock, Mono, Now, SystemClock};
pub use config::Config;
pub use counts::{ByOutcome, Counts, NAMED_QUEUES, TROUBLE_MS, Takers, Workforce};
pub use driver::{Answers, Engine, EngineError, Session, SessionEvent};
pub use edit::Edit;
pub use effect::{Assignment, Effect, Ended, SessionId, Ticket, VacancyId};
pub use explain::{Explanation, TooLarge, UsedUp, Why, WorkerWhy};
pub use groups::{NewGroup, ShownGroup};
pub use histogram::{Histogram, MS_BOUNDS, US_BOUNDS};
pub use kernel::{Kernel, StoreReply, StoreRequest};
pub use limits::{LimitOf, LimitWhy, Missing};
pub use queues::Tally;
pub use recent::Rates;
pub use request::{After, IdempotencyKey, Indicator, OnDuplicate, Request, Submit, SubmitJob};
pub use resources::WorkerUse;
pub use schedules::{ScheduleConfig, ShownSchedule};
pub use watch::{Watch, Watched};
