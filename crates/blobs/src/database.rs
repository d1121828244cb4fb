//! Files in tables of a database that all nodes of a hall share.
//!
//! A file is a row with its length, plus its chunks. Unlike a directory, the tables are shared: during a take-over
//! the previous node may still be writing. Nothing here therefore relies on cached state. A write names the length
//! it was decided on, in the transaction that changes it; a removal names the time it was decided on. Where the
//! epoch of the leadership is known, every transaction locks the leadership row (`FOR KEY SHARE`), so that a node
//! which lost the leadership cannot write.
//!
//! A write is one transaction in one round trip: all statements are sent at once, and each of them fails if its
//! condition does not hold, which rolls back the others. Statements are unnamed and sessions have no state, so a
//! pooler may change connections between transactions.

mod batch;
mod connection;
mod content;
mod temp;
mod transaction;

use std::collections::HashSet;
use std::fmt;
use std::sync::Mutex;

use deadpool_postgres::Pool;
use tokio::runtime::Handle;
use tokio_postgres::types::Type;

use crate::file_store::{Batch, FileStore, Found, Name, Opened, Shelf, Temp, Whole, Write};
use crate::{BlobError, guard};
use connection::Connection;
use content::Chunks;
use transaction::{Statement, Transaction, signed, unsigned};

/// Maximum size of one chunk.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// How to connect to the database of a hall.
#[derive(Clone)]
pub struct Database {
    /// The connection pool. Each transaction may use another connection.
    pub pool: Pool,
    /// The runtime of their futures, while a thread of the caller waits.
    pub runtime: Handle,
    /// The epoch of this node's leadership: once another node leads, nothing is written. None without leadership.
    pub epoch: Option<u64>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// The tables of blobs.
#[derive(Debug)]
pub(crate) struct Tables {
    connection: Connection,
    /// Temporary files being written by this process.
    live: Mutex<HashSet<String>>,
}

impl Tables {
    pub(crate) fn open(database: Database) -> Result<Tables, BlobError> {
        let connection = Connection::new(database);
        connection.make_tables(include_str!("database/blobs.sql"))?;
        Ok(Tables { connection, live: Mutex::default() })
    }

    /// A row of the table of files.
    fn row(&self, doing: &'static str, name: &Name) -> Result<Option<(i64, Found)>, BlobError> {
        let statement =
            Statement::new("SELECT id, bytes, touched_ms FROM jobhall.blob_files WHERE name = $1")
                .with(Type::TEXT, name.to_string());
        let rows = self.connection.query(doing, &name.to_string(), &statement)?;
        Ok(rows.first().map(|row| {
            let found =
                Found { regular: true, bytes: unsigned(row.get(1)), modified_ms: unsigned(row.get(2)) };
            (row.get(0), found)
        }))
    }
}

impl FileStore for Tables {
    fn look(&self, name: &Name) -> Result<Option<Found>, BlobError> {
        Ok(self.row("look at", name)?.map(|(_, found)| found))
    }

    fn may_have(&self, _name: &Name) -> Result<bool, BlobError> {
        Ok(true)
    }

    fn open(&self, name: &Name) -> Result<Option<Opened>, BlobError> {
        let Some((file, found)) = self.row("open", name)? else { return Ok(None) };
        let (connection, name) = (self.connection.clone(), name.to_string());
        let content = Box::new(Chunks { connection, file, name });
        Ok(Some(Opened { content, bytes: found.bytes }))
    }

    fn write(&self, writes: &[Write<'_>]) -> Result<(), BlobError> {
        let mut transaction = Transaction::new();
        writes.iter().for_each(|write| transaction.write(write));
        let what = writes.first().map(|write| write.name.to_string()).unwrap_or_default();
        self.connection.run("write", &what, transaction).map(drop)
    }

    /// Written data was committed, so it is durable.
    fn sync(&self, _files: &[&Name], _names: bool) -> Result<(), BlobError> {
        Ok(())
    }

    fn touch(&self, name: &Name, bytes: Option<u64>, now_ms: u64) -> Result<bool, BlobError> {
        let mut transaction = Transaction::new();
        transaction.add(
            Statement::new(include_str!("database/touch.sql"))
                .with(Type::TEXT, name.to_string())
                .with(Type::INT8, bytes.map(signed))
                .with(Type::INT8, signed(now_ms)),
        );
        Ok(self.connection.run("touch", &name.to_string(), transaction)? > 0)
    }

    fn remove(&self, name: &Name, modified_ms: u64) -> Result<bool, BlobError> {
        let mut transaction = Transaction::new();
        transaction.add(
            Statement::new("DELETE FROM jobhall.blob_files WHERE name = $1 AND touched_ms = $2")
                .with(Type::TEXT, name.to_string())
                .with(Type::INT8, signed(modified_ms)),
        );
        Ok(self.connection.run("remove", &name.to_string(), transaction)? > 0)
    }

    fn rename(&self, name: &Name, to: &Name) -> Result<(), BlobError> {
        let mut transaction = Transaction::new();
        transaction.add(
            Statement::new("DELETE FROM jobhall.blob_files WHERE name = $1").with(Type::TEXT, to.to_string()),
        );
        transaction.add(
            Statement::new("UPDATE jobhall.blob_files SET name = $2 WHERE name = $1")
                .with(Type::TEXT, name.to_string())
                .with(Type::TEXT, to.to_string()),
        );
        match self.connection.run("rename", &name.to_string(), transaction)? {
            0 => Err(BlobError::Missing { what: name.to_string() }),
            _ => Ok(()),
        }
    }

    fn names(&self, shelf: Shelf) -> Result<Vec<String>, BlobError> {
        // The character after a slash is a zero.
        let statement =
            Statement::new("SELECT name FROM jobhall.blob_files WHERE name > $1 || '/' AND name < $1 || '0'")
                .with(Type::TEXT, shelf.to_string());
        let rows = self.connection.query("list", &shelf.to_string(), &statement)?;
        let within = shelf.to_string().len() + 1;
        Ok(rows.iter().map(|row| row.get::<_, &str>(0)[within..].to_owned()).collect())
    }

    fn temp(&self) -> Result<Box<dyn Temp + '_>, BlobError> {
        Ok(Box::new(temp::Temp::new(self)))
    }

    fn batch<'a>(&'a self, files: &'a [Whole<'a>], now_ms: u64) -> Result<Box<dyn Batch + 'a>, BlobError> {
        Ok(Box::new(batch::Batch::prepare(self, files, now_ms)?))
    }

    fn is_live(&self, temp: &str) -> bool {
        guard(&self.live).contains(temp)
    }
}
