//! Errors of SQLite, classified by what they mean for a transaction.

use std::fmt;

use rusqlite::types::FromSqlError;
use rusqlite::{Error, ErrorCode};

/// Why a statement or a row failed.
#[derive(Debug)]
pub(crate) enum SqlError {
    /// An error of SQLite.
    Sql(Error),
    /// A stored value that this code never writes.
    Damaged(String),
}

impl SqlError {
    fn code(&self) -> Option<ErrorCode> {
        match self {
            SqlError::Sql(error) => error.sqlite_error_code(),
            SqlError::Damaged(_) => None,
        }
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.code() == Some(ErrorCode::DiskFull)
    }

    /// Whether another connection holds SQLite's lock, so that nothing was tried.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether the file contains invalid data.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            SqlError::Damaged(_) => true,
            SqlError::Sql(
                Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::InvalidColumnType(..)
                | Error::Utf8Error(..),
            ) => true,
            SqlError::Sql(_) => {
                matches!(self.code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
            }
        }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlError::Sql(error) => match error.sqlite_extended_error_code() {
                Some(code) => write!(f, "{error} (sqlite code {code})"),
                None => error.fmt(f),
            },
            SqlError::Damaged(what) => f.write_str(what),
        }
    }
}

impl From<Error> for SqlError {
    fn from(error: Error) -> SqlError {
        SqlError::Sql(error)
    }
}

impl From<FromSqlError> for SqlError {
    fn from(error: FromSqlError) -> SqlError {
        SqlError::Damaged(format!("a stored value has the wrong type: {error}"))
    }
}

/// An error for an invalid stored value.
pub(crate) fn damaged(what: &str, why: impl fmt::Display) -> SqlError {
    SqlError::Damaged(format!("stored {what} is damaged: {why}"))
}
