//! What can go wrong below the rules, sorted by what it means for a transaction.

use std::fmt;

use rusqlite::types::FromSqlError;
use rusqlite::{Error, ErrorCode};

/// Why a statement or a row failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// SQLite said no.
    Sql(Error),
    /// A stored value that this code never wrote.
    Damaged(String),
}

impl Trouble {
    fn code(&self) -> Option<ErrorCode> {
        match self {
            Trouble::Sql(error) => error.sqlite_error_code(),
            Trouble::Damaged(_) => None,
        }
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.code() == Some(ErrorCode::DiskFull)
    }

    /// Whether someone else holds SQLite's own lock, so that nothing was tried.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether the file does not hold what it should.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Trouble::Damaged(_) => true,
            Trouble::Sql(
                Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::InvalidColumnType(..)
                | Error::Utf8Error(..),
            ) => true,
            Trouble::Sql(_) => {
                matches!(self.code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
            }
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Sql(error) => match error.sqlite_extended_error_code() {
                Some(code) => write!(f, "{error} (sqlite code {code})"),
                None => error.fmt(f),
            },
            Trouble::Damaged(what) => f.write_str(what),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Sql(error)
    }
}

impl From<FromSqlError> for Trouble {
    fn from(error: FromSqlError) -> Trouble {
        Trouble::Damaged(format!("a stored value has the wrong type: {error}"))
    }
}

/// A stored value that does not read as what it should be.
pub(crate) fn damaged(what: &str, why: impl fmt::Display) -> Trouble {
    Trouble::Damaged(format!("stored {what} is damaged: {why}"))
}
