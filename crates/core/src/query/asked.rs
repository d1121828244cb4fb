//! What was asked for while a value was made. A command that asks for other queries depends on their meaning, and that is
//! known only after it has run; so it is stored with the value, and with every value that is made from it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Maximum number of queries that are listed with a value; above it the list is [`AskedQueries::Any`].
pub const ASKED_MAX: usize = 16;
/// Maximum bytes of their texts together.
pub const ASKED_BYTES_MAX: usize = 16 << 10;

/// The queries that were asked for while a value and its inputs were made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AskedQueries {
    /// Each with its meaning at that time: an identity, or the digest of stored data.
    Queries(BTreeSet<(String, String)>),
    /// More than are listed, or some that are not known: every change may concern the value.
    Any(AnyQuery),
}

/// The word `any`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnyQuery {
    Any,
}

impl Default for AskedQueries {
    fn default() -> AskedQueries {
        AskedQueries::Queries(BTreeSet::new())
    }
}

impl AskedQueries {
    /// Every query may have been asked for.
    pub const ANY: AskedQueries = AskedQueries::Any(AnyQuery::Any);

    /// Whether nothing was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, AskedQueries::Queries(queries) if queries.is_empty())
    }

    /// Adds a query with its meaning.
    #[must_use]
    pub fn with(self, query: String, meaning: String) -> AskedQueries {
        self.and(&AskedQueries::Queries(BTreeSet::from([(query, meaning)])))
    }

    /// Adds what was asked for by another value.
    #[must_use]
    pub fn and(self, other: &AskedQueries) -> AskedQueries {
        let (AskedQueries::Queries(mut queries), AskedQueries::Queries(others)) = (self, other) else {
            return AskedQueries::ANY;
        };
        queries.extend(others.iter().cloned());
        let bytes: usize = queries.iter().map(|(query, _)| query.len()).sum();
        if queries.len() > ASKED_MAX || bytes > ASKED_BYTES_MAX {
            return AskedQueries::ANY;
        }
        AskedQueries::Queries(queries)
    }
}
