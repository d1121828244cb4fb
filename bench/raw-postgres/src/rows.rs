//! The rows, written in the best known way: statements that set only changed columns, an array of values for each
//! column, one transaction for a whole batch, all sent before the first reply is read.

use std::collections::VecDeque;

use futures_util::future::try_join_all;
use jobhall_bench_raw_store::machine::Failed;
use jobhall_bench_raw_store::rows::params;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

/// The store's own tables, and its fence.
const TABLES: [&str; 2] = [
    include_str!("../../../crates/store-postgres/src/migrations/0001_hall.sql"),
    include_str!("../../../crates/store-postgres/src/migrations/0002_desk.sql"),
];

const FENCE: &str =
    "SELECT 1 / count(*) FROM (SELECT 1 FROM jobhall.leadership WHERE epoch = 1 FOR KEY SHARE) AS held";
const INSERT_SPECS: &str = "INSERT INTO jobhall.specs (
        id, type, queue, needs, priority, max_attempts, backoff, backoff_ms, backoff_cap_ms, retry_on, created_at, params
    ) SELECT id, 'noop', 'default', '', 100, 5, 2, 5000, 3600000, 28, $3, params
    FROM unnest($1::bigint[], $2::text[]) AS new (id, params)";
const INSERT_QUEUED: &str = "INSERT INTO jobhall.jobs (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at
    ) SELECT id, 1, 1, 0, 0, 0, 0, 0, $2, $2 FROM unnest($1::bigint[]) AS new (id)";
const INSERT_ASSIGNED: &str = "INSERT INTO jobhall.jobs (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at, lease, worker, assigned_at
    ) SELECT id, 2, 3, 1, 0, 0, 0, 0, $3, $3, lease, 'bench-1', $3
    FROM unnest($1::bigint[], $2::bytea[]) AS new (id, lease)";
const CLAIM: &str = "UPDATE jobhall.jobs AS job SET
        rev = 2, state = 3, claim = 1, updated_at = $3, lease = new.lease, worker = 'bench-1', assigned_at = $3
    FROM unnest($1::bigint[], $2::bytea[]) AS new (id, lease) WHERE job.id = new.id AND job.rev = 1";
const END: &str = "UPDATE jobhall.jobs AS job SET
        rev = 3, state = 8, attempt = 1, updated_at = $2, outcome = 0, ended_at = $2
    FROM unnest($1::bigint[]) AS new (id) WHERE job.id = new.id AND job.rev = 2";
const FEED: &str = "INSERT INTO jobhall.feed (n, at, entries) VALUES ($1, $2, $3)";

/// The content of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One commit inserts a batch, claims the previous one and ends the one before that.
    Mixed,
    /// One commit inserts a batch as assigned and ends the previous one.
    FusedMixed,
}

/// Creates missing tables, and takes the leadership.
pub async fn make_tables(database: &str) -> Result<(), Failed> {
    let client = connect(database).await?;
    let there = client.query_one("SELECT to_regclass('jobhall.jobs') IS NOT NULL", &[]).await?;
    if !there.get::<_, bool>(0) {
        client.batch_execute("CREATE SCHEMA IF NOT EXISTS jobhall").await?;
        for tables in TABLES {
            client.batch_execute(tables).await?;
        }
    }
    client.batch_execute("UPDATE jobhall.leadership SET epoch = 1").await?;
    Ok(())
}

/// Checks that every started life cycle has ended.
pub async fn assert_ended(database: &str, lives: u64) -> Result<(), Failed> {
    let client = connect(database).await?;
    let counted =
        client.query_one("SELECT count(*), count(*) FILTER (WHERE state = 8) FROM jobhall.jobs", &[]);
    let counted = counted.await?;
    let (rows, ended): (i64, i64) = (counted.get(0), counted.get(1));
    if rows == ended && ended >= i64::try_from(lives)? {
        return Ok(());
    }
    Err(format!("{lives} lives, but {rows} rows and {ended} that ended").into())
}

async fn connect(database: &str) -> Result<Client, Failed> {
    let (client, connection) = tokio_postgres::connect(database, NoTls).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            eprintln!("a connection ended: {error}");
        }
    });
    Ok(client)
}

/// One connection with its own ids.
pub struct Writer {
    client: Client,
    mode: Mode,
    batch: usize,
    params: String,
    next: i64,
    feed: i64,
    /// Batches that were inserted and not ended, the oldest first.
    open: VecDeque<Vec<i64>>,
    statements: Vec<Statement>,
}

/// The index of a prepared statement, with its parameters.
type Step = (usize, Vec<Box<dyn ToSql + Send + Sync>>);

const PREPARED: [&str; 9] =
    ["BEGIN", FENCE, INSERT_SPECS, INSERT_QUEUED, INSERT_ASSIGNED, CLAIM, END, FEED, "COMMIT"];

impl Writer {
    /// Connects, and prepares all statements.
    pub async fn connect(database: &str, mode: Mode, batch: usize, number: usize) -> Result<Writer, Failed> {
        let client = connect(database).await?;
        // As in the store: every row is accessed by its index.
        client
            .batch_execute("SET jit = off; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
            .await?;
        let mut statements = Vec::new();
        for sql in PREPARED {
            statements.push(client.prepare(sql).await?);
        }
        let base =
            client.query_one("SELECT coalesce(max(id), 0) FROM jobhall.jobs", &[]).await?.get::<_, i64>(0);
        let feed =
            client.query_one("SELECT coalesce(max(n), 0) FROM jobhall.feed", &[]).await?.get::<_, i64>(0);
        // Ids separate from those of other connections, and from existing ones.
        let apart = (i64::try_from(number)? + 1) << 36;
        Ok(Writer {
            client,
            mode,
            batch,
            params: params(),
            next: base + apart,
            feed: feed + apart,
            open: VecDeque::new(),
            statements,
        })
    }

    /// One commit; returns the number of ended life cycles.
    pub async fn round(&mut self) -> Result<u64, Failed> {
        let ids: Vec<i64> = (self.next..).take(self.batch).collect();
        self.next += i64::try_from(self.batch)?;
        self.commit(Some(ids)).await
    }

    /// Ends the open batches.
    pub async fn drain(&mut self) -> Result<u64, Failed> {
        let mut ended = 0;
        while !self.open.is_empty() {
            ended += self.commit(None).await?;
        }
        Ok(ended)
    }

    async fn commit(&mut self, ids: Option<Vec<i64>>) -> Result<u64, Failed> {
        let now = 1_700_000_000_000_i64 + self.feed;
        let mut steps: Vec<Step> = vec![(0, Vec::new()), (1, Vec::new())];
        let mut entries = 0;
        let depth = if self.mode == Mode::Mixed { 2 } else { 1 };
        let ending = (self.open.len() >= depth || ids.is_none()).then(|| self.open.pop_front()).flatten();
        if self.mode == Mode::Mixed
            && let Some(claimed) = self.open.back()
        {
            entries += claimed.len();
            steps.push((5, vec![Box::new(claimed.clone()), Box::new(leases(claimed)), Box::new(now)]));
        }
        if let Some(ids) = &ids {
            entries += ids.len();
            let texts = vec![self.params.clone(); ids.len()];
            match self.mode {
                Mode::Mixed => steps.push((3, vec![Box::new(ids.clone()), Box::new(now)])),
                Mode::FusedMixed => {
                    steps.push((4, vec![Box::new(ids.clone()), Box::new(leases(ids)), Box::new(now)]));
                }
            }
            steps.push((2, vec![Box::new(ids.clone()), Box::new(texts), Box::new(now)]));
        }
        let ended = ending.as_ref().map_or(0, Vec::len);
        if let Some(ending) = ending {
            entries += ended;
            steps.push((6, vec![Box::new(ending), Box::new(now)]));
        }
        self.feed += 1;
        steps.push((7, vec![Box::new(self.feed), Box::new(now), Box::new(vec![7_u8; entries * 3])]));
        steps.push((8, Vec::new()));
        let params: Vec<Vec<&(dyn ToSql + Sync)>> = steps
            .iter()
            .map(|(_, params)| params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect())
            .collect();
        let sent = steps
            .iter()
            .zip(&params)
            .map(|((at, _), params)| self.client.execute(&self.statements[*at], params));
        try_join_all(sent).await?;
        self.open.extend(ids);
        Ok(ended as u64)
    }
}

fn leases(ids: &[i64]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| u128::from(id.cast_unsigned()).to_be_bytes().to_vec()).collect()
}
