//! Connections: one writer, several readers, and their setup.

use std::path::Path;

use jobhall_store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::SqlError;
use crate::migrations::{self, Migration, Observer};

/// Version 3.51.3 fixed a bug that could damage a file in WAL mode.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Settings of the writer. A page cache of 16 MB: with hundreds of MB every transaction that makes rows grow took an
/// additional 2.5 ms (21 k against 96 k job life cycles per second). The writer makes checkpoints itself, so
/// automatic ones are off.
const WRITER: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA foreign_keys = OFF;
    PRAGMA busy_timeout = 5000;
";

/// Settings of each reader.
const READER: &str = "
    PRAGMA query_only = ON;
    PRAGMA cache_size = -4096;
    PRAGMA temp_store = MEMORY;
    PRAGMA busy_timeout = 5000;
";

/// An error that names the file.
pub(crate) fn failed(verb: &str, path: &Path, trouble: &SqlError) -> StoreError {
    let hint = if trouble.is_damage() { ", it is damaged or not a Jobhall database" } else { "" };
    StoreError::new(format!("failed to {verb} {}{hint}: {trouble}", path.display()))
}

fn refuse_old_sqlite(version: i32) -> Result<(), StoreError> {
    if version >= OLDEST_SQLITE {
        return Ok(());
    }
    Err(StoreError::new(format!("SQLite {} is older than 3.51.3", rusqlite::version())))
}

/// Opens the writer's connection and migrates the schema. The file is first checked read-only: a file of a newer
/// version is not changed.
pub(crate) fn open_writer(
    path: &Path,
    list: &[Migration],
    observer: Observer<'_>,
) -> Result<Connection, StoreError> {
    refuse_old_sqlite(rusqlite::version_number())?;
    look_at(path, list)?;
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|t| failed("open", path, &t))?;
    migrations::check(&conn, list).map_err(|refusal| refusal.of(path))?;
    set_up(&conn).map_err(|trouble| failed("open", path, &trouble))?;
    migrations::run(&conn, list, observer).map_err(|refusal| refusal.of(path))?;
    Ok(conn)
}

fn look_at(path: &Path, list: &[Migration]) -> Result<(), StoreError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|t| failed("open", path, &t))?;
    // Closing must not copy a write-ahead log of an unknown format.
    let kept = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    kept.map_err(|error| failed("open", path, &error.into()))?;
    match migrations::check(&conn, list) {
        // A crash left a journal that only a writer can replay; the file is checked again after that.
        Err(refusal) if refusal.code() == Some(ErrorCode::ReadOnly) => Ok(()),
        other => other.map_err(|refusal| refusal.of(path)),
    }
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, SqlError> {
    Ok(Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?)
}

fn set_up(conn: &Connection) -> Result<(), SqlError> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(SqlError::Damaged(format!("journal mode WAL was refused, it is {mode}")));
    }
    Ok(conn.execute_batch(WRITER)?)
}

pub(crate) fn open_reader(path: &Path) -> Result<Connection, SqlError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    conn.execute_batch(READER)?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_sqlite_is_refused() {
        assert!(refuse_old_sqlite(3_051_003).is_ok());
        let error = refuse_old_sqlite(3_051_002).unwrap_err();
        assert!(error.message.ends_with("is older than 3.51.3"), "{error}");
        assert!(refuse_old_sqlite(rusqlite::version_number()).is_ok());
    }
}
