//! Reads the whole content of a file, to move it to another store.
//!
//! The file is locked as a server locks it, so that no server runs meanwhile, and opened read-only. The export is
//! read in chunks bounded by rows and by bytes, however large the file is.

use std::path::Path;

use jobhall_core::{GroupId, Job, JobId};
use jobhall_store::{ExportChunk, GroupFilter, Holdings, Marks, Record, StoreError, StoredIdempotencyKey};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::apply::records;
use crate::data_dir::DataDir;
use crate::data_dir::moved;
use crate::database::{failed, open_reader};
use crate::error::SqlError;
use crate::migrations;
use crate::options::Options;
use crate::reads::limit;
use crate::rows::row;
use crate::rows::submitted;
use crate::statements::{Reads, sql};

/// Maximum number of rows in one chunk.
const ROWS: usize = 1_000;
/// A chunk of jobs ends with the job that makes it this large; params, result and error are counted.
const BYTES: usize = 8 << 20;

/// The position in the file.
#[derive(Clone, Debug)]
enum Stage {
    Settings,
    Blocks,
    Groups(Option<GroupId>),
    Jobs(i64),
    Links(Option<(JobId, String)>),
    IdempotencyKeys(String, String),
    Acts(Option<u64>),
    Records(String, String),
    End,
}

/// A file that is read from beginning to end. No other process can open it while this value exists.
#[derive(Debug)]
pub struct Export {
    conn: Connection,
    stage: Stage,
    /// Dropped last: the file must be closed before another process may lock it.
    place: DataDir,
}

impl Export {
    /// Opens a file that no server has open.
    ///
    /// # Errors
    /// The file does not exist, a server has it open, or its schema is not of this version.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Export, StoreError> {
        let path = path.as_ref();
        if !path.exists() {
            return Err(StoreError::new(format!("there is no file {}", path.display())));
        }
        let place = DataDir::take(path, options)?;
        let conn = open_reader(path).map_err(|trouble| failed("open", path, &trouble))?;
        // Closing must not copy the write-ahead log into the file.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(|error| failed("open", path, &error.into()))?;
        migrations::check_newest(&conn, migrations::ALL).map_err(|refusal| refusal.of(path))?;
        Ok(Export { conn, stage: Stage::Settings, place })
    }

    /// The target of an earlier move, if any.
    pub fn moved_to(&self) -> Result<Option<String>, StoreError> {
        moved::read(&self.place.path)
    }

    /// Marks the file as moved there, so that servers refuse to open it, or removes the mark.
    pub fn set_moved_to(&self, to: Option<&str>) -> Result<(), StoreError> {
        moved::set(&self.place.path, to)
    }

    /// The number of rows by kind.
    pub fn holdings(&self) -> Result<Holdings, StoreError> {
        self.one(include_str!("sql/export_holdings.sql"), |found| {
            let count = |column| found.get::<_, i64>(column).map(i64::cast_unsigned);
            Ok(Holdings {
                jobs: count(0)?,
                attempts: count(1)?,
                groups: count(2)?,
                links: count(3)?,
                settings: count(4)?,
                idempotency_keys: count(5)?,
                acts: count(6)?,
                blocks: count(7)?,
                records: count(8)?,
            })
        })
    }

    /// The counters of numbers that are never used twice.
    pub fn marks(&self) -> Result<Marks, StoreError> {
        self.one(include_str!("sql/export_marks.sql"), |found| {
            let number = |column| found.get::<_, i64>(column).map(i64::cast_unsigned);
            Ok(Marks { last_id: number(0)?, last_feed: number(1)?, last_act: number(2)? })
        })
    }

    fn one<T>(
        &self,
        sql: &str,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.conn.query_row(sql, [], read).map_err(|error| failed("read", &self.place.path, &error.into()))
    }

    /// The next chunk; none at the end.
    pub fn next_portion(&mut self) -> Result<Option<ExportChunk>, StoreError> {
        loop {
            let (portion, next) = match self.step() {
                Ok(None) => return Ok(None),
                Ok(Some(step)) => step,
                Err(trouble) => return Err(failed("read", &self.place.path, &trouble)),
            };
            self.stage = next;
            let mut found = Holdings::default();
            found.add(&portion);
            if !found.is_empty() {
                return Ok(Some(portion));
            }
        }
    }

    /// The chunk of this position, and the next position.
    fn step(&self) -> Result<Option<(ExportChunk, Stage)>, SqlError> {
        let mut reads = Reads::prepare(&self.conn)?;
        Ok(Some(match &self.stage {
            Stage::Settings => (ExportChunk::Settings(reads.all_settings(None)?), Stage::Blocks),
            Stage::Blocks => (ExportChunk::Blocks(reads.all_blocks()?), Stage::Groups(None)),
            Stage::Groups(before) => {
                let page = reads.groups_below(&GroupFilter::default(), *before, ROWS)?;
                let next = page.next.map_or(Stage::Jobs(0), |next| Stage::Groups(Some(next)));
                (ExportChunk::Groups(page.groups), next)
            }
            Stage::Jobs(after) => {
                let jobs = self.jobs(*after)?;
                let next =
                    jobs.last().map_or(Stage::Links(None), |job| Stage::Jobs(job.id.get().cast_signed()));
                let with_past = jobs.into_iter().map(|job| {
                    let past = reads.attempts_of(job.id, 0, usize::MAX)?;
                    Ok((job, past))
                });
                (ExportChunk::Jobs(with_past.collect::<Result<_, SqlError>>()?), next)
            }
            Stage::Links(after) => {
                let links = reads.links_after(after.as_ref(), ROWS)?;
                let next = links.last().map(|last| Stage::Links(Some((last.parent, last.call.clone()))));
                let first_key = Stage::IdempotencyKeys(String::new(), String::new());
                (ExportChunk::Links(links), next.unwrap_or(first_key))
            }
            Stage::IdempotencyKeys(scope, key) => {
                let keys = self.idempotency_keys(scope, key)?;
                let next =
                    keys.last().map(|last| Stage::IdempotencyKeys(last.scope.clone(), last.key.clone()));
                (ExportChunk::IdempotencyKeys(keys), next.unwrap_or(Stage::Acts(None)))
            }
            Stage::Acts(before) => {
                let acts = reads.acts(*before, ROWS)?;
                let next = acts.last().map(|last| Stage::Acts(Some(last.n)));
                let first_record = Stage::Records(String::new(), String::new());
                (ExportChunk::Acts(acts), next.unwrap_or(first_record))
            }
            Stage::Records(kind, key) => {
                let records = self.records(kind, key)?;
                let next =
                    records.last().map(|last| Stage::Records(last.kind.to_string(), last.key.to_string()));
                (ExportChunk::Records(records), next.unwrap_or(Stage::End))
            }
            Stage::End => return Ok(None),
        }))
    }

    fn jobs(&self, after: i64) -> Result<Vec<Job>, SqlError> {
        let mut statement = self.conn.prepare_cached(sql!(export_jobs))?;
        let mut rows = statement.query([after])?;
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while let Some(found) = rows.next()? {
            let job = row::job(found)?;
            bytes += size(found, &job)?;
            jobs.push(job);
            if jobs.len() >= ROWS || bytes >= BYTES {
                break;
            }
        }
        Ok(jobs)
    }

    fn records(&self, kind: &str, key: &str) -> Result<Vec<Record>, SqlError> {
        let mut statement = self.conn.prepare_cached(include_str!("sql/export_records.sql"))?;
        let mut rows = statement.query((kind, key))?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some(found) = rows.next()? {
            let record = records::record(found)?;
            bytes += record.value.len();
            records.push(record);
            if records.len() >= ROWS || bytes >= BYTES {
                break;
            }
        }
        Ok(records)
    }

    fn idempotency_keys(&self, scope: &str, key: &str) -> Result<Vec<StoredIdempotencyKey>, SqlError> {
        let mut statement = self.conn.prepare_cached(include_str!("sql/export_idempotency_keys.sql"))?;
        let mut rows = statement.query((scope, key, limit(ROWS)))?;
        let mut found = Vec::new();
        while let Some(stored) = rows.next()? {
            let at = row::time(stored, 4)?;
            found.push(StoredIdempotencyKey {
                scope: stored.get(0)?,
                key: stored.get(1)?,
                body: row::number128(stored, 2)?,
                answer: submitted::from_text(row::text(stored, 3)?)?,
                at,
                forget_before: at,
            });
        }
        Ok(found)
    }
}

/// The approximate size of a job: its result and error from their columns, its params from the job.
fn size(found: &rusqlite::Row<'_>, job: &Job) -> Result<usize, SqlError> {
    let length = |column| Ok::<_, SqlError>(row::text_or_null(found, column)?.map_or(0, str::len));
    Ok(job.spec.params.as_str().len() + length(20)? + length(21)?)
}
