//! Reads a file from its chunks.

use std::io;

use tokio_postgres::types::Type;

use super::connection::Connection;
use super::transaction::{Statement, signed};
use crate::file_store::Content;

/// Maximum number of bytes per query, which are held in memory.
const PIECE_BYTES: usize = 1 << 20;

/// The chunks of a file. They are removed with the file, so a late reader finds nothing.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) connection: Connection,
    pub(super) file: i64,
    pub(super) name: String,
}

impl Content for Chunks {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        // The length at the time of opening is not a limit: a log may have grown since, and its reader knows.
        let most = out.len().min(PIECE_BYTES);
        if most == 0 {
            return Ok(0);
        }
        let statement = Statement::new(include_str!("read.sql"))
            .with(Type::INT8, self.file)
            .with(Type::INT8, signed(offset))
            .with(Type::INT8, signed(most as u64));
        let rows = self.connection.query("read", &self.name, &statement).map_err(io::Error::other)?;
        let (mut filled, begins) = (0, signed(offset));
        for row in &rows {
            let (from, part): (i64, &[u8]) = (row.get(0), row.get(1));
            let end = filled + part.len();
            // A chunk is missing: the bytes after the gap must not be returned as the next ones.
            if from != begins + signed(filled as u64) || end > most {
                break;
            }
            out[filled..end].copy_from_slice(part);
            filled = end;
        }
        Ok(filled)
    }
}
