//! Files that are still being written.
//!
//! A file of at most one chunk is buffered in memory and stored under its final name at once; most results are that
//! small. The chunks of a longer file are stored one by one under a temporary name, so that memory stays bounded,
//! and the last chunk is stored together with the rename.

use std::thread;

use tokio_postgres::types::Type;

use super::transaction::{Statement, Transaction, signed};
use super::{CHUNK_BYTES, Tables};
use crate::file_store::{self, FileStore, Name, Section, Shelf, Write};
use crate::{BlobError, guard};

pub(super) struct Temp<'a> {
    tables: &'a Tables,
    /// The temporary name, once a chunk was stored.
    stored: Option<Name>,
    /// Number of stored bytes.
    was: u64,
    /// The bytes after them.
    rest: Vec<u8>,
    now_ms: u64,
}

impl<'a> Temp<'a> {
    pub(super) fn new(tables: &'a Tables) -> Temp<'a> {
        Temp { tables, stored: None, was: 0, rest: Vec::new(), now_ms: 0 }
    }

    /// Stores a chunk. It need not be durable before the file has its name.
    fn store(&mut self) -> Result<(), BlobError> {
        let name = self.named()?;
        let chunk = Write {
            name: &name,
            was: self.was,
            at: self.was,
            bytes: &self.rest[..CHUNK_BYTES],
            modified_ms: None,
        };
        let mut transaction = Transaction::relaxed();
        transaction.write(&chunk);
        self.tables.connection.run("write", &name.to_string(), transaction)?;
        self.was += CHUNK_BYTES as u64;
        self.rest.drain(..CHUNK_BYTES);
        Ok(())
    }

    /// The temporary name, which is unique among all nodes.
    fn named(&mut self) -> Result<Name, BlobError> {
        if let Some(name) = &self.stored {
            return Ok(name.clone());
        }
        let statement =
            Statement::new("SELECT nextval(pg_get_serial_sequence('jobhall.blob_files', 'id'))::text");
        let rows = self.tables.connection.query("name", "a temporary file", &statement)?;
        let number: String = rows
            .first()
            .map(|row| row.get(0))
            .ok_or_else(|| BlobError::Missing { what: "a name for a temporary file".to_owned() })?;
        guard(&self.tables.live).insert(number.clone());
        Ok(self.stored.insert(Shelf::whole(Section::Temps).file(number)).clone())
    }
}

impl file_store::Temp for Temp<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.rest.extend_from_slice(bytes);
        while self.rest.len() > CHUNK_BYTES {
            self.store()?;
        }
        Ok(())
    }

    /// The file becomes durable when it gets its name.
    fn settle(&mut self, now_ms: u64) -> Result<(), BlobError> {
        self.now_ms = now_ms;
        Ok(())
    }

    fn name(&mut self, name: &Name) -> Result<(), BlobError> {
        let bytes = self.was + self.rest.len() as u64;
        let mut transaction = Transaction::new();
        transaction.add(
            Statement::new("DELETE FROM jobhall.blob_files WHERE name = $1 AND bytes <> $2")
                .with(Type::TEXT, name.to_string())
                .with(Type::INT8, signed(bytes)),
        );
        let file_store = self.stored.as_ref().unwrap_or(name);
        let (was, at) = (self.was, self.was);
        transaction.write(&Write {
            name: file_store,
            was,
            at,
            bytes: &self.rest,
            modified_ms: Some(self.now_ms),
        });
        if let Some(stored) = &self.stored {
            transaction.add(
                Statement::new("UPDATE jobhall.blob_files SET name = $2, touched_ms = $3 WHERE name = $1")
                    .with(Type::TEXT, stored.to_string())
                    .with(Type::TEXT, name.to_string())
                    .with(Type::INT8, signed(self.now_ms)),
            );
        }
        self.tables.connection.run("store", &name.to_string(), transaction)?;
        self.forget();
        Ok(())
    }
}

impl Temp<'_> {
    /// Removes and returns the temporary name.
    fn forget(&mut self) -> Option<Name> {
        let name = self.stored.take()?;
        guard(&self.tables.live).remove(&name.file);
        Some(name)
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        // A file that remains is a leftover, which a later collection removes.
        if let Some(name) = self.forget()
            && !thread::panicking()
            && let Ok(Some(found)) = self.tables.look(&name)
        {
            let _ = self.tables.remove(&name, found.modified_ms);
        }
    }
}
