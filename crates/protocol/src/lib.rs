//! Wire types: requests, responses, problems, session messages and file formats.
//!
//! All types are plain data with one JSON form. Requests refuse unknown fields and name them. Responses may gain
//! fields, so clients must ignore unknown ones.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod artifact;
mod format;
mod group;
mod job;
mod log_frame;
mod problem;
mod query;
mod server;
mod session;
mod settings;
mod token;
mod worker;

pub use jobhall_core::{Indicator, OnDuplicate};

pub use artifact::Artifact;
pub use artifact::input::{INPUT_ARTIFACTS, INPUT_RESULTS_BYTES, Input, InputArtifact, InputName, Parent};
pub use format::timestamp::Timestamp;
pub use format::timestamp::span::{Span, SpanError};
pub use group::{CreateGroup, Group, GroupCounts};
pub use job::after::{After, AfterError};
pub use job::edit::{EditJob, EditTimeouts};
pub use job::filter::JobFilter;
pub use job::operation::{Operation, OperationState, StartOperation, Verb};
pub use job::schema;
pub use job::sub_job::{Called, SubJob, SubJobState, Wait, Waited};
pub use job::submit::{BackoffKind, FieldError, Retry, Reuse, SubmitJob, Submitted, Timeouts};
pub use job::{Attempt, Explanation, Failure, Job, Page, ProgressChange, Reason};
pub use log_frame::{LogFrame, LogStream, NDJSON};
pub use problem::{Code, Problem};
pub use query::cache::{
    CacheCommand, CacheDropped, CacheMisses, CachePin, CacheStats, CacheVerified, CachedValue, DamagedValue,
};
pub use query::command::{
    ArgumentType, Command, CommandArgument, CommandsDeclared, DeclareCommands, DeclaredCommand, KnownCommand,
};
pub use query::command_file::{COMMAND_FILES_MAX, CommandFile, FILE_WORD_BYTES_MAX};
pub use query::metadata::{QueryDependency, QueryMetadata, QueryPreview};
pub use query::recipe::{
    MadeRecipe, MakeRecipes, PutRecipe, RECIPES_MADE_MAX, Recipe, RecipeLine, RecipeLines, RecipeState,
};
pub use query::source::Source;
pub use query::sub_query::{AskSubQuery, HERE_BYTES_MAX, HERE_MAX, SubQuery, SubQueryState};
pub use query::{
    AskQuery, CACHE_COMPUTED, CACHE_HEADER, CACHE_HIT, CACHE_JOINED, PlannedNode, QueryCheck, QueryPlan,
    QueryProblem, QueryProgress, QueryPromise, QueryStep, REFRESH_ALL,
};
pub use server::node::{Node, NodeRole};
pub use server::stats::{Asker, Disk, Durations, Kept, KeptType, Queue, Rates, Stats, Totals, Workforce};
pub use session::{
    Assigned, AssignedJob, Assignments, AttemptRef, Encoding, FEATURE_ABILITIES, FEATURE_FINISH,
    FEATURE_MOVED, FRAME_BYTES, FRAME_MESSAGES, FRAME_READ_BYTES, FrameError, FrameWriter, Hello,
    INDICATOR_BYTES, Outcome, OutcomeReport, Progress, RENEWALS, REPORTED_INDICATORS, Renewals, Renewed,
    RenewedAttempt, RetryVerdict, SESSION_FEATURES, SESSION_MS, SESSION_VERSION, ToServer, ToWorker, Vacancy,
    WAIT_S, Welcome, Word, read_frame, read_message, split_frame,
};
pub use settings::limit::{Limit, QueueSettings, Rate, Retention, SetQueue, SetRetention};
pub use settings::schedule::{Schedule, SetSchedule, Tick};
pub use token::{
    Act, CreateToken, CreatedToken, JOIN_MS, JOIN_USES, Join, TOKEN_MS, Token, TokenKind, TokenRole,
};
pub use worker::worker_file::{Ability, Allow, EXEC, Exec, Keep, ProcessLimits, TypeCommand, WorkerFile};
pub use worker::{
    Cancel, CancelGroup, Change, LogPosition, Moved, SetTimeouts, SetType, TypeSettings, Worker,
};

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
/// The keys of sources that are named by the digest of their data begin with this.
pub const SOURCE_BY_DIGEST: &str = "blake3/";
/// Maximum size of one artifact, and of the data of one source.
pub const ARTIFACT_BYTES: u64 = 1 << 30;
/// Maximum number of artifacts of one attempt.
pub const ARTIFACTS: usize = 10_000;
