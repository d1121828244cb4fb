//! Queries from a thread that may block.

use std::io;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::Database;
use super::transaction::{FENCED, Statement, Transaction};
use crate::BlobError;

/// Time limit for a transaction, including the wait for a connection.
const PATIENCE: Duration = Duration::from_secs(60);
/// Held while the tables are created, so that two nodes that start at the same time do not create them twice.
const MAKING: &str = "SELECT pg_advisory_xact_lock(7450300)";

/// The errors of a statement whose condition does not hold: a missing file, or a chunk or name that exists.
const UNMET: [SqlState; 3] =
    [SqlState::NOT_NULL_VIOLATION, SqlState::UNIQUE_VIOLATION, SqlState::FOREIGN_KEY_VIOLATION];

#[derive(Clone, Debug)]
pub(super) struct Connection {
    database: Database,
}

impl Connection {
    pub(super) fn new(database: Database) -> Connection {
        Connection { database }
    }

    /// Creates missing tables.
    pub(super) fn make_tables(&self, script: &str) -> Result<(), BlobError> {
        self.ask("make", "the tables of blobs", async |client| {
            client.batch_execute("BEGIN").await?;
            client.batch_execute(MAKING).await?;
            let there =
                Statement::new("SELECT to_regclass('jobhall.blob_chunks') IS NOT NULL").query(client).await?;
            if !there.first().is_some_and(|row| row.get(0)) {
                client.batch_execute(script).await?;
            }
            client.batch_execute("COMMIT").await
        })
    }

    pub(super) fn query(
        &self,
        doing: &'static str,
        what: &str,
        statement: &Statement<'_>,
    ) -> Result<Vec<Row>, BlobError> {
        self.ask(doing, what, async |client| statement.query(client).await)
    }

    /// Executes a transaction, all or nothing; returns the number of rows that its last statement changed.
    pub(super) fn run(
        &self,
        doing: &'static str,
        what: &str,
        transaction: Transaction<'_>,
    ) -> Result<u64, BlobError> {
        let transaction = &transaction.fenced(self.database.epoch);
        self.ask(doing, what, async move |client| transaction.run(client).await)
    }

    fn ask<T>(
        &self,
        doing: &'static str,
        what: &str,
        work: impl AsyncFnOnce(&ClientWrapper) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, BlobError> {
        let asked = async {
            let client = Borrowed(Some(
                self.database.pool.get().await.map_err(|error| Failure::Away(error.to_string()))?,
            ));
            let done = work(client.wrapper()?).await.map_err(sorted)?;
            client.give_back();
            Ok(done)
        };
        let patience = async { timeout(PATIENCE, asked).await };
        let done = self.database.runtime.block_on(patience);
        let late = |_| Err(Failure::Away(format!("it took longer than {} s", PATIENCE.as_secs())));
        done.unwrap_or_else(late).map_err(|failure| match failure {
            Failure::Overtaken => BlobError::Overtaken { what: what.to_owned() },
            Failure::Away(why) => BlobError::Away { doing, what: what.to_owned(), why },
            Failure::Other(error) => BlobError::io(doing, what.to_owned(), error),
        })
    }
}

/// A connection that is closed unless it is returned. After an error or an aborted wait its state is unknown, and it
/// must not be used again.
struct Borrowed(Option<Object>);

impl Borrowed {
    fn wrapper(&self) -> Result<&ClientWrapper, Failure> {
        self.0.as_deref().ok_or(Failure::Other(io::ErrorKind::NotConnected.into()))
    }

    fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.0.take().map(Object::take);
    }
}

enum Failure {
    /// A condition of the transaction did not hold.
    Overtaken,
    /// The server is unreachable, stopping or starting, or the connection ended.
    Away(String),
    Other(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Other(error)
    }
}

fn sorted(error: tokio_postgres::Error) -> Failure {
    match error.code() {
        Some(code) if *code == FENCED || UNMET.contains(code) => Failure::Overtaken,
        Some(code) if *code == SqlState::DISK_FULL => Failure::Other(io::ErrorKind::StorageFull.into()),
        // Failed connections, and a server that stops, starts, recovers or has no free connections.
        Some(code) if ["08", "53", "57"].iter().any(|class| code.code().starts_with(class)) => {
            Failure::Away(error.to_string())
        }
        None => Failure::Away(error.to_string()),
        Some(_) => Failure::Other(io::Error::other(error)),
    }
}
