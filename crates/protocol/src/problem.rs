//! Errors on the wire: RFC 9457 problems with a code that programs can rely on.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::QueryProblem;

/// Stable code of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is not JSON, or one of its fields is invalid.
    BadRequest,
    /// The token is missing or unknown.
    Unauthorized,
    /// The token does not permit this request.
    Forbidden,
    /// The resource does not exist.
    NotFound,
    /// The route does not support the method.
    MethodNotAllowed,
    /// A live job has the same type and key.
    KeyHeld,
    /// The idempotency key was used for another request.
    IdempotencyKeyReused,
    /// The lease is not the current one.
    LeaseLost,
    /// A dependency does not exist, or has ended without success.
    DependencyUnmet,
    /// The group accepts no further jobs.
    GroupClosed,
    /// The state of the job does not permit the request.
    Conflict,
    /// The resource has another version than the request expects.
    PreconditionFailed,
    /// The value is not cached, and the token does not permit computing it.
    NotComputed,
    /// A step of the query failed.
    StepFailed,
    /// A step of the query crashed.
    StepCrashed,
    /// A step of the query was cancelled.
    StepCancelled,
    /// A step of the query has no value because a file of its command has changed, or the data that its check speaks of; ask
    /// again.
    VersionChanged,
    /// A command asks for a query that waits for it.
    QueryCycle,
    /// The text of the query cannot be read.
    QuerySyntax,
    /// The text of the query is too long.
    QueryTooLong,
    /// The query has too many steps, or its links are nested too deeply.
    QueryTooLarge,
    /// The query has a command that no worker has declared.
    UnknownCommand,
    /// An argument of the query is wrong, missing or one too many.
    WrongArgument,
    /// A step of the query cannot run on the worker that the query designates.
    WrongPlace,
    /// The query begins with data that is not stored.
    UnknownSource,
    /// The recipes that the query needs also need each other.
    RecipeCycle,
    /// The value cannot be made in the format of the file name.
    FormatNotOffered,
    /// The value of a step cannot leave its worker.
    NotSerialisable,
    /// The body is larger than allowed.
    TooLarge,
    /// The body took too long to arrive.
    Timeout,
    /// The range is outside the log.
    RangeNotSatisfiable,
    /// The request was meant for another host.
    Misdirected,
    /// Too many invalid tokens came from the same address.
    TooManyRequests,
    /// The server is overloaded or stopping.
    Unavailable,
    /// No node leads, or the leader cannot be reached. The request was not executed.
    NoLeader,
    /// The leader was lost before it responded. It is unknown whether the request was executed.
    OutcomeUnknown,
    /// The disk is full.
    StorageFull,
    /// An internal error of the server.
    Internal,
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// URI reference that identifies the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// Title of the kind.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// Explanation of this occurrence.
    pub detail: String,
    /// Code for programs.
    pub code: Code,
    /// Request id, as in the server's log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// What is wrong with a query, and where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Box<QueryProblem>>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}
