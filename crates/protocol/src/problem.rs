//! Errors on the wire: RFC 9457 problems with a code that programs can rely on.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What went wrong, as a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is not JSON, or a field of it is wrong.
    BadRequest,
    /// No token, or not a known one.
    Unauthorized,
    /// The token may not do this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The method does not exist there.
    MethodNotAllowed,
    /// A live job has the same type and key.
    KeyHeld,
    /// The idempotency key was used for another request.
    IdempotencyKeyReused,
    /// The lease is not, or no longer, the current one.
    LeaseLost,
    /// A job that another was to come after does not exist, or has ended without success.
    DependencyUnmet,
    /// The group takes no more jobs.
    GroupClosed,
    /// The state of the job does not allow it.
    Conflict,
    /// It is no longer what the request was made for.
    PreconditionFailed,
    /// The body is larger than allowed.
    TooLarge,
    /// The body took too long to arrive.
    Timeout,
    /// The log has no such bytes.
    RangeNotSatisfiable,
    /// The request was meant for another host.
    Misdirected,
    /// Too many wrong tokens came from the same address.
    TooManyRequests,
    /// The hall has as much work as it may, or is stopping.
    Unavailable,
    /// No node of the hall leads, or the one that does cannot be reached. Nothing was done.
    NoLeader,
    /// the leader was gone before it answered. Whether anything was done is not known.
    OutcomeUnknown,
    /// The disk is full.
    StorageFull,
    /// Something is broken on our side.
    Internal,
}

/// An error as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// A name for this kind of problem, as a URI reference.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The status code.
    pub status: u16,
    /// What happened this time.
    pub detail: String,
    /// The kind as a word for programs.
    pub code: Code,
    /// Names the request in the hall's log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}
