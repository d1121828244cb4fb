//! Tokens, joins and the audit: who may do what, and who did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::span::Span;
use crate::timestamp::Timestamp;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenRole {
    /// Looks.
    Viewer,
    /// Submits, cancels and retries too.
    Client,
    /// Takes jobs and reports on them.
    Worker,
    /// May do everything.
    Admin,
}

/// How a token is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Again and again.
    #[default]
    Plain,
    /// Once: a worker exchanges it for a credential of its own.
    Join,
}

/// Asks for a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What it is called; for a worker, the worker's name. A join token gets a name if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it may do.
    pub role: TokenRole,
    /// How it is used.
    #[serde(default)]
    pub kind: TokenKind,
    /// Which queues it reaches, such as `mail` or `ci-*`; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// How long it is good; for ever if missing. A join token is good for an hour at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<Span>,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Names it in every later word about it; the secret's public part.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What it may do.
    pub role: TokenRole,
    /// How it is used.
    pub kind: TokenKind,
    /// Which queues it reaches; all if empty.
    pub queues: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops being good; never if none.
    pub expires_at: Option<Timestamp>,
}

/// A new token, with the secret that is told this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedToken {
    /// The token itself.
    pub secret: String,
    /// What it is.
    #[serde(flatten)]
    pub token: Token,
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
    /// What the worker is called.
    pub name: String,
}

/// One act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Act {
    /// Its number.
    pub n: u64,
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub who: String,
    /// What was done.
    pub act: String,
    /// To what.
    pub subject: String,
    /// More about it.
    pub detail: String,
}
