//! What travels on the wire: requests, answers, problems, session messages and file formats.
//!
//! Everything here is plain data with one JSON form. Requests refuse fields that they do not know and name them;
//! answers may gain fields, so readers must not refuse them.
#![forbid(unsafe_code)]

mod job;
mod problem;
mod session;
mod span;
mod submit;
mod timestamp;
mod token;
mod worker;
mod worker_file;

pub use job::{Attempt, Explanation, Failure, Indicator, Job, Page, Reason};
pub use problem::{Code, Problem};
pub use session::{
    Assigned, AssignedJob, Assignments, HeldAttempt, Outcome, OutcomeReport, Progress, Renewals, Renewed,
    RetryVerdict, Vacancy,
};
pub use span::{Span, SpanError};
pub use submit::{BackoffKind, FieldError, OnDuplicate, Retry, Reuse, SubmitJob, Submitted};
pub use timestamp::Timestamp;
pub use token::{Act, CreateToken, CreatedToken, Join, Token, TokenKind, TokenRole};
pub use worker::{Cancel, Change, LogPosition, Moved, SetType, TypeSettings, Worker};
pub use worker_file::{Ability, EXEC, Exec, TypeCommand, WorkerFile};

/// The prefix of every route but those of health.
pub const API: &str = "/api/v1";
/// The header that carries a lease.
pub const LEASE_HEADER: &str = "jobhall-lease";
