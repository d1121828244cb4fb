//! Many files in one transaction.
//!
//! Which files exist is asked first, so that only the contents of the others are sent. The transaction fails if that has
//! changed meanwhile; then it is asked again.

use std::collections::HashMap;

use tokio_postgres::types::Type;

use super::transaction::{Statement, Transaction, signed};
use super::{CHUNK_BYTES, Tables};
use crate::BlobError;
use crate::file_store::{self, Whole};

/// How often the transaction is tried. It fails every time if another node leads.
const TRIES: usize = 3;

pub(super) struct Batch<'a> {
    tables: &'a Tables,
    files: &'a [Whole<'a>],
    /// For each file the length that is stored.
    found: Vec<Option<i64>>,
    now_ms: u64,
}

impl<'a> Batch<'a> {
    pub(super) fn prepare(
        tables: &'a Tables,
        files: &'a [Whole<'a>],
        now_ms: u64,
    ) -> Result<Batch<'a>, BlobError> {
        let mut batch = Batch { tables, files, found: Vec::new(), now_ms };
        batch.look()?;
        Ok(batch)
    }

    fn look(&mut self) -> Result<(), BlobError> {
        let names: Vec<String> = self.files.iter().map(|file| file.name.to_string()).collect();
        let statement = Statement::new("SELECT name, bytes FROM jobhall.blob_files WHERE name = ANY($1)")
            .with(Type::TEXT_ARRAY, names.clone());
        let rows = self.tables.connection.query("look at", &self.what(), &statement)?;
        let found: HashMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        self.found = names.iter().map(|name| found.get(name).copied()).collect();
        Ok(())
    }

    fn run(&self) -> Result<Vec<bool>, BlobError> {
        let both = || self.files.iter().zip(&self.found);
        let existed: Vec<bool> = both().map(|(file, found)| *found == Some(length(file))).collect();
        let with = |wanted: bool| {
            let picked = self.files.iter().zip(&existed).filter(move |(_, existed)| **existed == wanted);
            picked.map(|(file, _)| file).collect::<Vec<_>>()
        };
        let damaged: Vec<String> = both()
            .filter(|(file, found)| found.is_some_and(|bytes| bytes != length(file)))
            .map(|(file, _)| file.name.to_string())
            .collect();
        let mut transaction = Transaction::new();
        if !damaged.is_empty() {
            transaction.add(
                Statement::new("DELETE FROM jobhall.blob_files WHERE name = ANY($1)")
                    .with(Type::TEXT_ARRAY, damaged),
            );
        }
        touch(&mut transaction, &with(true), self.now_ms);
        store(&mut transaction, &with(false), self.now_ms);
        self.tables.connection.run("store", &self.what(), transaction)?;
        Ok(existed)
    }

    fn what(&self) -> String {
        let first = self.files.first().map(|file| file.name.to_string()).unwrap_or_default();
        format!("{} files, {first} the first", self.files.len())
    }
}

impl file_store::Batch for Batch<'_> {
    fn publish(&mut self) -> Result<Vec<bool>, BlobError> {
        for _ in 1..TRIES {
            match self.run() {
                Err(BlobError::Overtaken { .. }) => self.look()?,
                done => return done,
            }
        }
        self.run()
    }
}

fn touch(transaction: &mut Transaction<'_>, files: &[&Whole<'_>], now_ms: u64) {
    if files.is_empty() {
        return;
    }
    transaction.add(
        Statement::new(include_str!("touch_many.sql"))
            .with(Type::TEXT_ARRAY, names(files))
            .with(Type::INT8_ARRAY, files.iter().map(|file| length(file)).collect::<Vec<_>>())
            .with(Type::INT8, signed(now_ms)),
    );
}

fn store<'a>(transaction: &mut Transaction<'a>, files: &[&Whole<'a>], now_ms: u64) {
    if files.is_empty() {
        return;
    }
    let (mut owners, mut offsets, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    let mut tails = Vec::with_capacity(files.len());
    for file in files {
        let mut tail = 0;
        for (at, part) in (0_i64..).step_by(CHUNK_BYTES).zip(file.bytes.chunks(CHUNK_BYTES)) {
            tail = at;
            owners.push(file.name.to_string());
            offsets.push(at);
            parts.push(part);
        }
        tails.push(tail);
    }
    transaction.add(
        Statement::new(include_str!("store_many.sql"))
            .with(Type::TEXT_ARRAY, names(files))
            .with(Type::INT8_ARRAY, files.iter().map(|file| length(file)).collect::<Vec<_>>())
            .with(Type::INT8_ARRAY, tails)
            .with(Type::INT8, signed(now_ms))
            .with(Type::TEXT_ARRAY, owners)
            .with(Type::INT8_ARRAY, offsets)
            .with(Type::BYTEA_ARRAY, parts),
    );
}

fn names(files: &[&Whole<'_>]) -> Vec<String> {
    files.iter().map(|file| file.name.to_string()).collect()
}

fn length(file: &Whole<'_>) -> i64 {
    signed(file.bytes.len() as u64)
}
