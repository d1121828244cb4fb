//! Transactions of a few statements, sent together.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use super::CHUNK_BYTES;
use crate::file_store::Write;

/// Small writes are added to the last chunk until it has this size. Adding rewrites the row, so it must stay short.
/// Measured on a log of 3,000 writes of 100 bytes, compared with a row per write: one eighth of the rows and three
/// fifths of the space for one twelfth more write-ahead log. Rows three times as long needed seven tenths more
/// write-ahead log.
const ROW_BYTES: i64 = 512;

/// The error of a statement for an epoch that has ended.
pub(super) const FENCED: SqlState = SqlState::DIVISION_BY_ZERO;
/// Locks the leadership until the transaction ends, or fails.
const FENCE: &str = "WITH leadership AS (SELECT FROM jobhall.leadership WHERE epoch = $1 FOR KEY SHARE)
SELECT 1 / (SELECT count(*) FROM leadership)";

type Parameter<'a> = (Box<dyn ToSql + Sync + 'a>, Type);
type Sent<'a> = Pin<Box<dyn Future<Output = Result<u64, Error>> + 'a>>;

/// An unnamed statement and its parameters.
pub(super) struct Statement<'a> {
    sql: &'static str,
    parameters: Vec<Parameter<'a>>,
}

impl<'a> Statement<'a> {
    pub(super) fn new(sql: &'static str) -> Statement<'a> {
        Statement { sql, parameters: Vec::new() }
    }

    pub(super) fn with(mut self, kind: Type, value: impl ToSql + Sync + 'a) -> Statement<'a> {
        self.parameters.push((Box::new(value), kind));
        self
    }

    pub(super) async fn query(&self, client: &Client) -> Result<Vec<Row>, Error> {
        client.query_typed(self.sql, &self.typed()).await
    }

    async fn execute(&self, client: &Client) -> Result<u64, Error> {
        client.execute_typed(self.sql, &self.typed()).await
    }

    fn typed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.parameters.iter().map(|(value, kind)| (value.as_ref() as _, kind.clone())).collect()
    }
}

/// Statements that are executed all or nothing.
pub(super) struct Transaction<'a> {
    statements: Vec<Statement<'a>>,
    /// Whether a crash of the database may lose it, as long as no later transaction is kept.
    relaxed: bool,
}

impl<'a> Transaction<'a> {
    pub(super) fn new() -> Transaction<'a> {
        Transaction { statements: Vec::new(), relaxed: false }
    }

    pub(super) fn relaxed() -> Transaction<'a> {
        Transaction { relaxed: true, ..Transaction::new() }
    }

    pub(super) fn add(&mut self, statement: Statement<'a>) {
        self.statements.push(statement);
    }

    /// Adds the fence before all other statements.
    pub(super) fn fenced(mut self, epoch: Option<u64>) -> Transaction<'a> {
        if let Some(epoch) = epoch {
            self.statements.insert(0, Statement::new(FENCE).with(Type::INT8, signed(epoch)));
        }
        self
    }

    /// Appends bytes to a file, in chunks.
    pub(super) fn write(&mut self, write: &Write<'a>) {
        let name = write.name.to_string();
        if write.at != write.was {
            self.cut(&name, write);
        }
        if write.bytes.is_empty() && write.at == 0 {
            self.add(
                Statement::new(include_str!("make.sql"))
                    .with(Type::TEXT, name.clone())
                    .with(Type::INT8, write.modified_ms.map(signed)),
            );
        }
        let mut at = write.at;
        for chunk in write.bytes.chunks(CHUNK_BYTES) {
            let sql = if at == 0 { include_str!("begin.sql") } else { include_str!("append.sql") };
            let mut statement = Statement::new(sql)
                .with(Type::TEXT, name.clone())
                .with(Type::INT8, signed(at))
                .with(Type::BYTEA, chunk)
                .with(Type::INT8, write.modified_ms.map(signed));
            if at > 0 {
                statement = statement.with(Type::INT8, ROW_BYTES);
            }
            self.add(statement);
            at += chunk.len() as u64;
        }
    }

    /// Cuts off invalid bytes. A file of another length is unchanged, and the next append fails.
    fn cut(&mut self, name: &str, write: &Write<'_>) {
        for sql in
            [include_str!("cut_chunks.sql"), include_str!("cut_last.sql"), include_str!("cut_file.sql")]
        {
            self.add(
                Statement::new(sql)
                    .with(Type::TEXT, name.to_owned())
                    .with(Type::INT8, signed(write.was))
                    .with(Type::INT8, signed(write.at)),
            );
        }
    }

    /// Sends all statements, then waits. If a statement fails, the rest is refused and nothing is stored. Returns the
    /// number of rows that the last one changed.
    pub(super) async fn run(&self, client: &Client) -> Result<u64, Error> {
        let plain = |sql: &'static str| -> Sent<'_> {
            Box::pin(async move { client.batch_execute(sql).await.map(|()| 0) })
        };
        let begin = if self.relaxed { "BEGIN; SET LOCAL synchronous_commit TO off" } else { "BEGIN" };
        let mut sent: Vec<Sent<'_>> = vec![plain(begin)];
        sent.extend(
            self.statements.iter().map(|statement| -> Sent<'_> { Box::pin(statement.execute(client)) }),
        );
        sent.push(plain("COMMIT"));
        let done: Result<Vec<u64>, Error> = in_order(sent).await.into_iter().collect();
        Ok(done?.iter().rev().nth(1).copied().unwrap_or(0))
    }
}

/// Starts all of these in order before it waits for any.
async fn in_order(mut sent: Vec<Sent<'_>>) -> Vec<Result<u64, Error>> {
    let mut done: Vec<Option<Result<u64, Error>>> = sent.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, done) in sent.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(result) = future.as_mut().poll(context)
            {
                *done = Some(result);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// As a signed number for the database. No value here is near the limit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that the database does not permit to be negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
