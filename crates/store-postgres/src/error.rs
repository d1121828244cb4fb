//! Errors of the database, classified by what they mean for a transaction.

use std::error::Error as _;
use std::fmt;

use jobhall_store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

/// Raised by `begin_commit`: another node leads.
const FENCED: &str = "JH001";
/// Raised by `begin_commit`: the number of the commit is in use.
const NUMBERED: &str = "JH002";
/// Raised by `expect`: rows are not as expected.
const SURPRISED: &str = "JH003";

/// The advice for a missing prepared statement, or another one with its name.
pub(crate) const POOLED: &str =
    "the database seems to be behind a pooler in transaction mode, which requires --database-pooled";

/// Why a statement or a row failed.
#[derive(Debug)]
pub(crate) enum PgError {
    /// An error of PostgreSQL or of the connection.
    Sql(Error),
    /// A stored value that this code never writes.
    Damaged(String),
    /// No reply within the time limit.
    Late,
}

impl PgError {
    fn code(&self) -> Option<&SqlState> {
        match self {
            PgError::Sql(error) => error.code(),
            PgError::Damaged(_) | PgError::Late => None,
        }
    }

    fn is(&self, code: &str) -> bool {
        self.code().is_some_and(|found| found.code() == code)
    }

    /// Whether another node leads.
    pub(crate) fn is_fenced(&self) -> bool {
        self.is(FENCED)
    }

    /// Whether the number of the commit is in use.
    pub(crate) fn is_numbered(&self) -> bool {
        self.is(NUMBERED)
    }

    /// Whether rows were not as expected.
    pub(crate) fn is_surprise(&self) -> bool {
        self.is(SURPRISED) || self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.code() == Some(&SqlState::DISK_FULL)
    }

    /// Whether the connection is unusable, so that the outcome of the transaction is unknown. An error that the
    /// server reports without closing the connection certainly rolls back.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            PgError::Late => true,
            PgError::Damaged(_) => false,
            PgError::Sql(error) => error.as_db_error().is_none_or(|told| {
                let fatal = matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
                // The server is a standby, or its schema was changed after statements were prepared; or the error is
                // a pooler's own.
                let other = [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::FEATURE_NOT_SUPPORTED];
                fatal || other.contains(told.code()) || told.code().code().starts_with("08")
            }),
        }
    }

    /// Whether nothing was written and an immediate retry may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        self.code().is_some_and(|code| {
            [
                &SqlState::T_R_SERIALIZATION_FAILURE,
                &SqlState::T_R_DEADLOCK_DETECTED,
                &SqlState::LOCK_NOT_AVAILABLE,
            ]
            .contains(&code)
        })
    }

    /// Whether the database contains invalid data.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, PgError::Damaged(_))
    }

    /// The error of a read or an opening.
    pub(crate) fn while_doing(&self, what: &str) -> StoreError {
        let message = format!("failed to {what}: {self}");
        if self.is_broken() { StoreError::away(message) } else { StoreError::new(message) }
    }
}

impl fmt::Display for PgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PgError::Sql(error) => match error.as_db_error() {
                Some(told) => {
                    write!(f, "{} (sqlstate {})", told.message(), told.code().code())?;
                    let pooled = [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT];
                    if pooled.contains(told.code()) { write!(f, ": {POOLED}") } else { Ok(()) }
                }
                None => match error.source() {
                    Some(source) => write!(f, "{error}: {source}"),
                    None => error.fmt(f),
                },
            },
            PgError::Damaged(what) => f.write_str(what),
            PgError::Late => f.write_str("the database did not answer in time"),
        }
    }
}

impl From<Error> for PgError {
    fn from(error: Error) -> PgError {
        PgError::Sql(error)
    }
}

/// An error for an invalid stored value.
pub(crate) fn damaged(what: &str, why: impl fmt::Display) -> PgError {
    PgError::Damaged(format!("stored {what} is damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use jobhall_throwaway::Cluster;

    use super::*;
    use crate::connect::Connector;

    #[test]
    fn what_a_pooler_does_to_prepared_statements_is_told_with_what_to_do() {
        let shared = Cluster::shared();
        let connector = Connector::to(&shared.database().url(), true).expect("a url");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        for (text, hinted) in [
            ("EXECUTE s5", true),
            ("PREPARE s AS SELECT 1; PREPARE s AS SELECT 2", true),
            ("SELECT 1 / 0", false),
        ] {
            let said = runtime.block_on(async {
                let client = connector.connect().await.expect("a connection");
                let error = client.batch_execute(text).await.expect_err("it is wrong");
                PgError::from(error).while_doing("ask").message
            });
            assert_eq!(said.contains("--database-pooled"), hinted, "{said}");
        }
    }
}
