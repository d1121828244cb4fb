//! Errors of a store.

use thiserror::Error;

/// Why a transaction was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// Nothing was written; a retry may succeed.
    #[error("nothing was written: {message}")]
    NotCommitted {
        /// Whether the disk is full.
        full: bool,
        message: String,
    },
    /// It is unknown whether it was written. The store accepts no further commits; a restart shows the outcome.
    #[error("it is unknown whether it was written; a restart will show: {message}")]
    Unknown { message: String },
    /// The store accepts no further commits.
    #[error("the store has stopped: {message}")]
    Stopped { message: String },
}

/// Why a read failed, or a store did not open.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct StoreError {
    pub message: String,
    /// The store did not answer: a retry may succeed soon.
    pub away: bool,
}

impl StoreError {
    pub fn new(message: impl Into<String>) -> StoreError {
        StoreError { message: message.into(), away: false }
    }

    /// An error of a store that does not answer.
    #[must_use]
    pub fn away(message: impl Into<String>) -> StoreError {
        StoreError { message: message.into(), away: true }
    }
}
