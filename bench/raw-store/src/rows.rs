//! The rows of the engine's store, written in the best way known from the spike: one writer in a closed loop,
//! prepared statements that set only changed columns, one transaction for a whole step.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, Statement};

use crate::machine::Failed;

pub const SCHEMA: &str = include_str!("schema.sql");

/// As in the engine's writer.
const PRAGMAS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = 1000;
";

/// For rows that exist before the measurement.
const PREFILLING: &str = "PRAGMA synchronous = OFF";
const PREFILLED: &str = "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous = FULL;";
/// Number of rows per transaction of the prefill.
const PREFILL_BATCH: u64 = 20_000;

const INSERT_SPEC: &str = "INSERT INTO specs (
        id, type, key, queue, needs, priority, max_attempts, backoff, backoff_ms, backoff_cap_ms, retry_on,
        created_at, retry_of, params
    ) VALUES (?1, ?2, NULL, 'default', '', 100, 5, 2, 5000, 3600000, 28, ?3, NULL, ?4)";
const INSERT_QUEUED: &str = "INSERT INTO jobs (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at
    ) VALUES (?1, 1, 1, 0, 0, 0, 0, 0, ?2, ?2)";
const INSERT_ASSIGNED: &str = "INSERT INTO jobs (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at, lease, worker, assigned_at
    ) VALUES (?1, 2, 3, 1, 0, 0, 0, 0, ?2, ?2, ?3, ?4, ?2)";
const INSERT_COMPLETED: &str = "INSERT INTO jobs (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at,
        lease, worker, assigned_at, accepted_at, outcome, ended_at
    ) VALUES (?1, 3, 7, 1, 1, 0, 0, 0, ?2, ?2, ?3, ?4, ?2, ?2, 0, ?2)";
const CLAIM: &str = "UPDATE jobs SET
        rev = 2, state = 3, claim = 1, updated_at = ?2, lease = ?3, worker = ?4, assigned_at = ?2
    WHERE id = ?1 AND rev = 1";
const END: &str = "UPDATE jobs SET
        rev = 3, state = 7, attempt = 1, updated_at = ?2, accepted_at = ?2, outcome = 0, ended_at = ?2
    WHERE id = ?1 AND rev = 2";
const INSERT_FEED: &str = "INSERT INTO feed (n, at, entries) VALUES (?1, ?2, ?3)";
const LEND: &str = "INSERT INTO blocks (first, last, live) VALUES (?1, ?2, NULL)";
const LENT: &str = "UPDATE meta SET value = ?1 WHERE name = 'last_id'";
const CLOSE: &str = "DELETE FROM blocks WHERE last < ?1 AND first > ?2";

const QUEUED: u8 = 1;
const ASSIGNED: u8 = 3;
const SUCCEEDED: u8 = 7;
/// Number of ids in a block, as in the engine under load.
const BLOCK: u64 = 64_000;
const WORKER: &str = "worker-1";

/// The content of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Insert, claim and end of a batch in one commit each.
    Sep,
    /// The inserts of one batch, the claims of the previous one and the ends of the one before that in one commit.
    Mixed,
    /// Inserts as assigned, then ends: two commits.
    Fused,
    /// Inserts as assigned, with the ends of the previous batch in one commit.
    FusedMixed,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Sep, Mode::Mixed, Mode::Fused, Mode::FusedMixed];

    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Sep => "sep",
            Mode::Mixed => "mixed",
            Mode::Fused => "fused",
            Mode::FusedMixed => "fused-mixed",
        }
    }

    /// Number of commits for the life cycles of one batch.
    pub fn commits_per_batch(self) -> f64 {
        match self {
            Mode::Sep => 3.0,
            Mode::Fused => 2.0,
            Mode::Mixed | Mode::FusedMixed => 1.0,
        }
    }
}

/// Params of about 300 bytes.
pub fn params() -> String {
    let digits = "0123456789".repeat(24);
    format!(r#"{{"input":"s3://bucket/path/to/an/object","size":12345,"text":"{digits}"}}"#)
}

/// Opens an empty store in this file.
pub fn open(path: &Path) -> Result<Connection, Failed> {
    let conn = Connection::open(path)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(format!("journal mode WAL was refused, it is {mode}").into());
    }
    conn.execute_batch(PRAGMAS)?;
    conn.execute_batch(SCHEMA)?;
    Ok(conn)
}

/// The only writer.
#[derive(Debug)]
pub struct Writer<'c> {
    conn: &'c Connection,
    insert_spec: Statement<'c>,
    insert_queued: Statement<'c>,
    insert_assigned: Statement<'c>,
    insert_completed: Statement<'c>,
    claim: Statement<'c>,
    end: Statement<'c>,
    insert_feed: Statement<'c>,
    begin: Statement<'c>,
    commit: Statement<'c>,
    params: String,
    next: u64,
    lent: u64,
    /// Blocks up to this id may contain jobs that stay queued.
    prefilled: u64,
    chance: u64,
    /// Number of transactions since the store was created: each has a feed row.
    pub feed: u64,
    entries: Vec<u8>,
    entry_before: i64,
    /// Batches that were inserted, and those that were claimed, oldest first.
    inserted: Option<Range<u64>>,
    claimed: Option<Range<u64>>,
    /// Number of completed jobs.
    pub lives: u64,
    /// The duration of each transaction, from BEGIN to the return of COMMIT.
    pub commits: Vec<Duration>,
}

impl<'c> Writer<'c> {
    /// Prepares all statements.
    pub fn new(conn: &'c Connection) -> Result<Writer<'c>, Failed> {
        Ok(Writer {
            conn,
            insert_spec: conn.prepare(INSERT_SPEC)?,
            insert_queued: conn.prepare(INSERT_QUEUED)?,
            insert_assigned: conn.prepare(INSERT_ASSIGNED)?,
            insert_completed: conn.prepare(INSERT_COMPLETED)?,
            claim: conn.prepare(CLAIM)?,
            end: conn.prepare(END)?,
            insert_feed: conn.prepare(INSERT_FEED)?,
            begin: conn.prepare("BEGIN IMMEDIATE")?,
            commit: conn.prepare("COMMIT")?,
            params: params(),
            next: 1,
            lent: 0,
            prefilled: 0,
            chance: 0x9e37_79b9_7f4a_7c15,
            feed: 0,
            entries: Vec::new(),
            entry_before: 0,
            inserted: None,
            claimed: None,
            lives: 0,
            commits: Vec::new(),
        })
    }

    /// Writes rows that exist before the measurement.
    pub fn prefill(&mut self, queued: u64, completed: u64) -> Result<(), Failed> {
        self.conn.execute_batch(PREFILLING)?;
        for (state, rows) in [(SUCCEEDED, completed), (QUEUED, queued)] {
            let mut left = rows;
            while left > 0 {
                let batch = left.min(PREFILL_BATCH);
                self.transact(|writer, now| writer.insert(batch, state, "stuck", now).map(|_| ()))?;
                left -= batch;
            }
        }
        self.conn.execute_batch(PREFILLED)?;
        self.prefilled = self.next - 1;
        self.commits.clear();
        Ok(())
    }

    /// One round of a mode: about one batch of inserts, of claims and of ends.
    pub fn round(&mut self, mode: Mode, batch: u64) -> Result<(), Failed> {
        match mode {
            Mode::Sep => {
                self.transact(|writer, now| writer.insert_batch(batch, QUEUED, now))?;
                self.transact(Writer::claim_batch)?;
                self.transact(Writer::end_batch)
            }
            Mode::Fused => {
                self.transact(|writer, now| writer.insert_batch(batch, ASSIGNED, now))?;
                self.transact(Writer::end_batch)
            }
            Mode::Mixed => self.transact(|writer, now| {
                writer.end_batch(now)?;
                writer.claim_batch(now)?;
                writer.insert_batch(batch, QUEUED, now)
            }),
            Mode::FusedMixed => self.transact(|writer, now| {
                writer.end_batch(now)?;
                writer.insert_batch(batch, ASSIGNED, now)
            }),
        }
    }

    /// Ends the open batches.
    pub fn drain(&mut self) -> Result<(), Failed> {
        while self.inserted.is_some() || self.claimed.is_some() {
            self.transact(|writer, now| {
                writer.end_batch(now)?;
                writer.claim_batch(now)
            })?;
        }
        Ok(())
    }

    fn transact(&mut self, step: impl FnOnce(&mut Self, i64) -> Result<(), Failed>) -> Result<(), Failed> {
        let begun = Instant::now();
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
        self.begin.raw_execute()?;
        step(self, now)?;
        self.feed += 1;
        self.insert_feed.execute((self.feed.cast_signed(), now, &self.entries))?;
        self.commit.raw_execute()?;
        self.entries.clear();
        self.entry_before = 0;
        self.commits.push(begun.elapsed());
        Ok(())
    }

    fn insert_batch(&mut self, batch: u64, state: u8, now: i64) -> Result<(), Failed> {
        let ids = self.insert(batch, state, "noop", now)?;
        let place = if state == QUEUED { &mut self.inserted } else { &mut self.claimed };
        *place = Some(ids);
        Ok(())
    }

    fn insert(&mut self, batch: u64, state: u8, job_type: &str, now: i64) -> Result<Range<u64>, Failed> {
        let ids = self.next..self.next + batch;
        self.next = ids.end;
        while self.lent < ids.end - 1 {
            self.lend()?;
        }
        for id in ids.clone() {
            self.insert_row(id, state, now)?;
            let spec = &mut self.insert_spec;
            spec.raw_bind_parameter(1, id.cast_signed())?;
            spec.raw_bind_parameter(2, job_type)?;
            spec.raw_bind_parameter(3, now)?;
            spec.raw_bind_parameter(4, self.params.as_str())?;
            spec.raw_execute()?;
        }
        Ok(ids)
    }

    fn insert_row(&mut self, id: u64, state: u8, now: i64) -> Result<(), Failed> {
        let lease = self.lease();
        let (row, rev) = match state {
            QUEUED => (&mut self.insert_queued, 1),
            ASSIGNED => (&mut self.insert_assigned, 2),
            _ => (&mut self.insert_completed, 3),
        };
        row.raw_bind_parameter(1, id.cast_signed())?;
        row.raw_bind_parameter(2, now)?;
        if state != QUEUED {
            row.raw_bind_parameter(3, lease)?;
            row.raw_bind_parameter(4, WORKER)?;
        }
        row.raw_execute()?;
        self.note(id, rev, state);
        Ok(())
    }

    fn claim_batch(&mut self, now: i64) -> Result<(), Failed> {
        let Some(ids) = self.inserted.take() else { return Ok(()) };
        for id in ids.clone() {
            let lease = self.lease();
            self.claim.raw_bind_parameter(1, id.cast_signed())?;
            self.claim.raw_bind_parameter(2, now)?;
            self.claim.raw_bind_parameter(3, lease)?;
            self.claim.raw_bind_parameter(4, WORKER)?;
            one(self.claim.raw_execute()?)?;
            self.note(id, 2, ASSIGNED);
        }
        self.claimed = Some(ids);
        Ok(())
    }

    fn end_batch(&mut self, now: i64) -> Result<(), Failed> {
        let Some(ids) = self.claimed.take() else { return Ok(()) };
        for id in ids.clone() {
            self.end.raw_bind_parameter(1, id.cast_signed())?;
            self.end.raw_bind_parameter(2, now)?;
            one(self.end.raw_execute()?)?;
            self.note(id, 3, SUCCEEDED);
        }
        self.lives += ids.end - ids.start;
        Ok(())
    }

    /// Takes the next block of ids, and closes those whose jobs are all completed. Rare, so not prepared.
    fn lend(&mut self) -> Result<(), Failed> {
        let first = self.lent + 1;
        self.lent += BLOCK;
        self.conn.execute(LEND, (first.cast_signed(), self.lent.cast_signed()))?;
        self.conn.execute(LENT, [self.lent.cast_signed()])?;
        let open = self.claimed.as_ref().or(self.inserted.as_ref()).map_or(first, |ids| ids.start);
        self.conn.execute(CLOSE, (open.cast_signed(), self.prefilled.cast_signed()))?;
        Ok(())
    }

    /// 128 pseudorandom bits (xorshift).
    fn lease(&mut self) -> [u8; 16] {
        let mut half = || {
            self.chance ^= self.chance << 13;
            self.chance ^= self.chance >> 7;
            self.chance ^= self.chance << 17;
            u128::from(self.chance)
        };
        (half() << 64 | half()).to_be_bytes()
    }

    /// Records a change for the feed row: id as difference to the previous one, rev and state, as variable-length
    /// numbers.
    fn note(&mut self, id: u64, rev: u64, state: u8) {
        let difference = id.cast_signed() - self.entry_before;
        self.entry_before = id.cast_signed();
        for number in [((difference << 1) ^ (difference >> 63)).cast_unsigned(), rev, u64::from(state)] {
            put(&mut self.entries, number);
        }
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
}

fn one(rows: usize) -> Result<(), Failed> {
    if rows == 1 { Ok(()) } else { Err("a job has an unexpected state".into()) }
}

/// Fails unless the store contains exactly these jobs, each with its spec, and one feed row per commit.
pub fn assert_rows(conn: &Connection, queued: u64, completed: u64, commits: u64) -> Result<(), Failed> {
    let count = |sql: &str| -> Result<u64, Failed> {
        Ok(conn.query_row(sql, [], |row| row.get::<_, i64>(0))?.cast_unsigned())
    };
    let found = [
        count("SELECT count(*) FROM jobs")?,
        count("SELECT count(*) FROM specs")?,
        count("SELECT count(*) FROM jobs WHERE state = 1 AND rev = 1 AND lease IS NULL")?,
        count("SELECT count(*) FROM jobs WHERE state = 7 AND rev = 3 AND ended_at IS NOT NULL")?,
        count("SELECT count(*) FROM feed")?,
    ];
    let expected = [queued + completed, queued + completed, queued, completed, commits];
    if found == expected {
        return Ok(());
    }
    Err(format!("jobs, specs, queued, completed, feed are {found:?} and should be {expected:?}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(SCHEMA).unwrap();
        conn
    }

    #[test]
    fn every_mode_leaves_whole_lives() {
        for mode in Mode::ALL {
            let conn = memory();
            let mut writer = Writer::new(&conn).unwrap();
            writer.prefill(3, 5).unwrap();
            for _ in 0..4 {
                writer.round(mode, 7).unwrap();
            }
            writer.drain().unwrap();
            assert_eq!(writer.lives, 28, "{mode:?}");
            let commits = writer.feed;
            assert_rows(&conn, 3, 33, commits).unwrap();
            assert!(assert_rows(&conn, 3, 34, commits).is_err());
        }
    }

    #[test]
    fn blocks_follow_the_ids() {
        let conn = memory();
        let mut writer = Writer::new(&conn).unwrap();
        for _ in 0..4 {
            writer.round(Mode::Mixed, BLOCK / 2 + 1).unwrap();
        }
        let blocks: i64 = conn.query_row("SELECT count(*) FROM blocks", [], |row| row.get(0)).unwrap();
        assert_eq!(blocks, 2, "the first one is closed");
    }

    /// Columns and indexes of the common tables are the same after any migration.
    #[test]
    fn the_schema_is_that_of_the_store() {
        let migrations =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/store-sqlite/src/migrations");
        let mut files: Vec<_> =
            std::fs::read_dir(migrations).unwrap().map(|file| file.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
        files.sort();
        let store = Connection::open_in_memory().unwrap();
        for file in files {
            store.execute_batch(&std::fs::read_to_string(file).unwrap()).unwrap();
        }
        let ours = memory();
        for table in ["specs", "jobs", "blocks", "feed", "meta"] {
            assert_eq!(shape(&ours, table), shape(&store, table), "{table}");
        }
    }

    fn shape(conn: &Connection, table: &str) -> Vec<String> {
        let columns =
            "SELECT printf('%d %s %s %d %d', cid, name, type, \"notnull\", pk) FROM pragma_table_info(?1)";
        let indexes = "SELECT name || ' ' || coalesce(sql, '') FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1";
        let mut rows = Vec::new();
        for sql in [columns, indexes] {
            let mut statement = conn.prepare(sql).unwrap();
            let found = statement.query_map([table], |row| row.get::<_, String>(0)).unwrap();
            rows.extend(found.map(Result::unwrap));
        }
        rows
    }
}
