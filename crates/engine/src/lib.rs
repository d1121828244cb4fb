//! The driver around the kernel: it passes requests to the kernel, units to the store, and effects to their recipients.
//!
//! The state machine itself is `jobhall-kernel`, whose types are re-exported here. [`Engine`] waits only for the store.
#![forbid(unsafe_code)]

mod clock;
mod driver;
mod first_start;
mod job_log_events;
mod watch;

pub use clock::{Clock, SystemClock};
pub use driver::{Answers, Engine, EngineError, Opening, Session, SessionEvent};
pub use first_start::set_first_rule;
pub use jobhall_kernel::*;
pub use watch::{JobChanges, Watch, Watched};
