//! Wire types: requests, responses, problems, session messages and file formats.
//!
//! All types are plain data with one JSON form. Requests refuse unknown fields and name them. Responses may gain
//! fields, so clients must ignore unknown ones.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod after;
mod artifact;
mod base64;
mod document;
mod edit;
mod filter;
mod group;
mod job;
mod limit;
mod log_frame;
mod node;
mod operation;
mod problem;
mod schedule;
mod session;
mod span;
mod stats;
mod sub_job;
mod submit;
mod timestamp;
mod token;
mod worker;
mod worker_file;

pub use jobhall_core::{Indicator, OnDuplicate};

pub use after::{After, AfterError};
pub use artifact::Artifact;
pub use artifact::input::{INPUT_ARTIFACTS, INPUT_RESULTS_BYTES, Input, InputArtifact, InputName, Parent};
pub use edit::{EditJob, EditTimeouts};
pub use filter::JobFilter;
pub use group::{CreateGroup, Group, GroupCounts};
pub use job::{Attempt, Explanation, Failure, Job, Page, ProgressChange, Reason};
pub use limit::{Limit, QueueSettings, Rate, Retention, SetQueue, SetRetention};
pub use log_frame::{LogFrame, LogStream, NDJSON};
pub use node::{Node, NodeRole};
pub use operation::{Operation, OperationState, StartOperation, Verb};
pub use problem::{Code, Problem};
pub use schedule::{Schedule, SetSchedule, Tick};
pub use session::{
    Assigned, AssignedJob, Assignments, AttemptRef, Encoding, FEATURE_FINISH, FEATURE_MOVED, FRAME_BYTES,
    FRAME_MESSAGES, FrameError, FrameWriter, Hello, Outcome, OutcomeReport, Progress, Renewals, Renewed,
    RenewedAttempt, RetryVerdict, SESSION_FEATURES, SESSION_VERSION, ToServer, ToWorker, Vacancy, Welcome,
    Word, read_frame,
};
pub use span::{Span, SpanError};
pub use stats::{Asker, Disk, Durations, Kept, KeptType, Queue, Rates, Stats, Totals, Workforce};
pub use sub_job::{Called, SubJob, SubJobState, Wait, Waited};
pub use submit::{BackoffKind, FieldError, Retry, Reuse, SubmitJob, Submitted, Timeouts};
pub use timestamp::Timestamp;
pub use token::{Act, CreateToken, CreatedToken, Join, Token, TokenKind, TokenRole};
pub use worker::{
    Cancel, CancelGroup, Change, LogPosition, Moved, SetTimeouts, SetType, TypeSettings, Worker,
};
pub use worker_file::{Ability, Allow, EXEC, Exec, Keep, ProcessLimits, TypeCommand, WorkerFile};

/// The prefix of every route except health checks.
pub const API: &str = "/api/v1";
/// The header with a lease.
pub const LEASE_HEADER: &str = "jobhall-lease";
/// The header with the name of the worker that an administrator's token acts for. Other tokens name their own worker.
pub const WORKER_HEADER: &str = "jobhall-worker";
/// The header with the BLAKE3 digest of a body, as 64 lower-case hex digits.
pub const DIGEST_HEADER: &str = "jobhall-digest";
/// The name of the artifact with the job's result, if the result is not an inline value.
pub const RESULT_ARTIFACT: &str = "result";
/// Maximum size of a result that a worker sends as a value; a larger one becomes an artifact.
pub const INLINE_RESULT_BYTES: u64 = 64 * 1024;
/// Maximum size of the explanation of a failure.
pub const EXPLANATION_BYTES: usize = jobhall_core::bounds::EXPLANATION_BYTES;
/// Maximum size of one artifact.
pub const ARTIFACT_BYTES: u64 = 1 << 30;
/// Maximum number of artifacts of one attempt.
pub const ARTIFACTS: usize = 10_000;
