//! The schema over time: an ordered list that only grows. Each migration runs in one transaction with the row that
//! records it and the file's version number, so that a crash at any statement leaves the file before it or after it.
//!
//! The checksum guards against an edited migration, not against an attacker: a file that ran another text has another
//! schema than this code expects.

#[cfg(test)]
mod tests;

use std::path::Path;

use jobhall_store::StoreError;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection, ErrorCode};

use crate::database::failed;
use crate::error::SqlError;

/// Marks a SQLite file as a Jobhall store: "JOBH".
const APPLICATION_ID: i32 = 0x4A4F_4248;

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// The name, for people.
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

pub(crate) const ALL: &[Migration] = &[
    Migration { name: "0001_jobs", sql: include_str!("migrations/0001_jobs.sql") },
    Migration { name: "0002_audit", sql: include_str!("migrations/0002_audit.sql") },
    Migration { name: "0003_kernel", sql: include_str!("migrations/0003_kernel.sql") },
    Migration { name: "0004_idempotency_keys", sql: include_str!("migrations/0004_idempotency_keys.sql") },
    Migration { name: "0005_words", sql: include_str!("migrations/0005_words.sql") },
    Migration { name: "0006_at_most_once", sql: include_str!("migrations/0006_at_most_once.sql") },
    Migration { name: "0007_records", sql: include_str!("migrations/0007_records.sql") },
    Migration { name: "0008_progress", sql: include_str!("migrations/0008_progress.sql") },
    Migration { name: "0009_group_fails", sql: include_str!("migrations/0009_group_fails.sql") },
];

/// Called before every statement of a migration; for tests.
pub(crate) type Observer<'a> = &'a mut dyn FnMut();

/// Why a file is not opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The file could not be read or written.
    SqlError(SqlError),
    /// The file does not belong to this program.
    Foreign(String),
}

impl OpenError {
    /// The error with the name of the file.
    pub(crate) fn of(self, path: &Path) -> StoreError {
        match self {
            OpenError::SqlError(trouble) => failed("open", path, &trouble),
            OpenError::Foreign(why) => {
                StoreError::new(format!("{} {why}; nothing was changed in it", path.display()))
            }
        }
    }

    /// The error code of SQLite, if any.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            OpenError::SqlError(SqlError::Sql(error)) => error.sqlite_error_code(),
            _ => None,
        }
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> OpenError {
        OpenError::SqlError(error.into())
    }
}

/// FNV-1a, 64 bits.
fn checksum(text: &str) -> i64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    text.bytes().fold(0xCBF2_9CE4_8422_2325, fold).cast_signed()
}

fn version(conn: &Connection) -> rusqlite::Result<usize> {
    conn.query_row("PRAGMA user_version", [], |row| position(row, 0))
}

fn position(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<usize> {
    Ok(row.get::<_, u32>(column)? as usize)
}

/// Refuses files that this program must not change: another program's file, a newer schema, an edited migration.
pub(crate) fn check(conn: &Connection, list: &[Migration]) -> Result<(), OpenError> {
    let objects: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let version = version(conn)?;
    if objects == 0 && version == 0 {
        return Ok(());
    }
    let application: i32 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if application != APPLICATION_ID {
        return Err(OpenError::Foreign("is a database of another program".to_owned()));
    }
    let newest: usize =
        conn.query_row("SELECT coalesce(max(n), 0) FROM migrations", [], |row| position(row, 0))?;
    if version.max(newest) > list.len() {
        return Err(OpenError::Foreign(format!(
            "has schema {}, this jobhall knows schemas up to {}: it was used by a newer one",
            version.max(newest),
            list.len()
        )));
    }
    let mut rows = conn.prepare("SELECT n, name, checksum FROM migrations ORDER BY n")?;
    let rows = rows.query_map([], |row| Ok((position(row, 0)?, row.get(1)?, row.get(2)?)))?;
    compare(version, &rows.collect::<Result<Vec<_>, _>>()?, list)
}

/// Also refuses a file whose schema is older than this program's.
pub(crate) fn check_newest(conn: &Connection, list: &[Migration]) -> Result<(), OpenError> {
    check(conn, list)?;
    match version(conn)? {
        0 => Err(OpenError::Foreign("is empty: no hall ever ran on it".to_owned())),
        old if old < list.len() => Err(OpenError::Foreign(format!(
            "has schema {old}, this jobhall needs {}: start and stop a hall on it once, which brings it up to date",
            list.len()
        ))),
        _ => Ok(()),
    }
}

fn compare(version: usize, applied: &[(usize, String, i64)], list: &[Migration]) -> Result<(), OpenError> {
    if applied.len() != version {
        let why = format!("has schema {version}, but records {} migrations", applied.len());
        return Err(OpenError::Foreign(why));
    }
    for ((n, name, sum), known) in applied.iter().zip(list) {
        if name != known.name || *sum != checksum(known.sql) {
            return Err(OpenError::Foreign(format!(
                "was made by another text of migration {n} ({name}) than this jobhall has ({})",
                known.name
            )));
        }
    }
    Ok(())
}

pub(crate) fn run(conn: &Connection, list: &[Migration], observer: Observer<'_>) -> Result<(), OpenError> {
    for (at, migration) in list.iter().enumerate().skip(version(conn)?) {
        migrate(conn, at + 1, migration, observer)?;
    }
    Ok(())
}

fn migrate(
    conn: &Connection,
    n: usize,
    migration: &Migration,
    observer: Observer<'_>,
) -> Result<(), OpenError> {
    observer();
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = statements(conn, n, migration, observer).and_then(|()| {
        observer();
        Ok(conn.execute_batch("COMMIT")?)
    });
    if done.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    observer();
    done
}

fn statements(
    conn: &Connection,
    n: usize,
    migration: &Migration,
    observer: Observer<'_>,
) -> Result<(), OpenError> {
    let mut batch = Batch::new(conn, migration.sql);
    while let Some(mut statement) = batch.next()? {
        observer();
        statement.execute([])?;
    }
    observer();
    conn.execute_batch(include_str!("sql/migrations.sql"))?;
    observer();
    let sum = checksum(migration.sql);
    conn.execute(
        include_str!("sql/insert_migration.sql"),
        (i64::try_from(n).unwrap_or(i64::MAX), migration.name, sum),
    )?;
    observer();
    conn.execute_batch(&format!("PRAGMA user_version = {n}; PRAGMA application_id = {APPLICATION_ID}"))?;
    Ok(())
}
