//! Tokens, join requests and the audit log.

use jobhall_core::bounds::SCOPE_QUEUES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Span;
use crate::format::timestamp::Timestamp;
use crate::job::schema;

/// Lifetime of a join token if none is given, and the maximum if it works once, in milliseconds.
pub const JOIN_MS: u64 = 3_600_000;
/// Maximum number of uses of a join token.
pub const JOIN_USES: u32 = 10_000;
/// Maximum lifetime of a token, in milliseconds.
pub const TOKEN_MS: u64 = 3_650 * 24 * 3_600_000;

/// Role of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenRole {
    /// Reads.
    Viewer,
    /// Reads, submits, cancels and retries.
    Client,
    /// Takes jobs and reports on them.
    Worker,
    /// May do everything.
    Admin,
}

/// Kind of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Can be used repeatedly.
    #[default]
    Plain,
    /// Can be exchanged for worker tokens, as often as its `uses` say.
    Join,
}

/// A token to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = schema::create_token)]
pub struct CreateToken {
    /// Name of the token; for a worker, the name of the worker. A join token without a name gets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Name>")]
    pub name: Option<String>,
    /// Role of the token.
    pub role: TokenRole,
    /// Kind of the token.
    #[serde(default)]
    pub kind: TokenKind,
    /// Queues that the token can access, such as `mail` or `ci-*`; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::ScopeQueue>", length(max = SCOPE_QUEUES))]
    pub queues: Vec<String>,
    /// How many workers can join with a join token, 1 to 10,000; once if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = JOIN_USES))]
    pub uses: Option<u32>,
    /// Lifetime of the token; unlimited if missing. A join token is valid for one hour if missing, and without `uses` for
    /// at most one hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::SpanBetween<1_000, TOKEN_MS>>")]
    pub expires_in: Option<Span>,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Public id of the token, which is part of the secret.
    pub id: String,
    /// Name of the token.
    pub name: String,
    /// Role of the token.
    pub role: TokenRole,
    /// Kind of the token.
    pub kind: TokenKind,
    /// Queues that the token can access; all if empty.
    pub queues: Vec<String>,
    /// How many more workers can join with a join token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires; never if none.
    pub expires_at: Option<Timestamp>,
}

/// A new token. Only this response contains the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedToken {
    /// The token itself, a secret.
    pub secret: String,
    /// The properties of the token.
    #[serde(flatten)]
    pub token: Token,
    /// Identity of the server's store, 32 hexadecimal digits, the same at every address and on every node; only in the
    /// response to a join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hall: Option<String>,
}

impl std::fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// A worker exchanges its join token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Name of the worker.
    #[schemars(with = "schema::Name")]
    pub name: String,
}

/// One audit entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Act {
    /// Number of the entry.
    pub n: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Name of the token that did it.
    pub who: String,
    /// The action.
    pub act: String,
    /// The id or name of the changed thing.
    pub subject: String,
    /// Further details.
    pub detail: String,
}
