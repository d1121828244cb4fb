//! The inbox: requests that `jobhall.submit` stores in the transactions of other programs
//! (`migrations/0004_submit.sql`).
//!
//! ```text
//!   a program's transaction ── jobhall.submit ──▶ inbox ── rows ──▶ the engine's submit, with the row's number as key
//!                                                   ▲                      │
//!                                                   └── the row is deleted in the transaction that stores the job
//! ```

use std::sync::Arc;
use std::time::Duration;

use jobhall_store::{INBOX_SCOPE, Inbox, InboxRow, Later, StoreError, StoredIdempotencyKey};
use tokio::sync::{Mutex, watch};
use tokio_postgres::Row;

use crate::Database;
use crate::connect::wire::Step;
use crate::database::{ended, listener};
use crate::error::{PgError, damaged};
use crate::reads::limit;
use crate::rows::row::get;

const CHANNEL: &str = "jobhall_inbox";
/// Interval between two polls. The database may not be able to send notifications, a notification may be lost with
/// its connection, and a program may disable them (`jobhall.notify`).
const LOOK: Duration = Duration::from_secs(1);

/// The step that deletes the inbox rows of these idempotency keys. A missing row aborts the transaction: its job
/// exists already, or the request was withdrawn.
pub(crate) fn taking(keys: &[&StoredIdempotencyKey]) -> Result<Option<Step>, PgError> {
    let of_inbox = keys.iter().filter(|key| key.scope == INBOX_SCOPE);
    let ids =
        of_inbox.map(|key| key.key.parse::<i64>().map_err(|error| damaged("number of the inbox", error)));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    let count = limit(ids.len());
    Ok((count > 0).then(|| Step::new(include_str!("sql/take_inbox.sql")).with(ids).with(count)))
}

/// The inbox as read by the leader.
pub(crate) struct Rows {
    database: Database,
    epoch: u64,
    /// Receives notifications of new rows; none if listening is not possible.
    heard: Option<Arc<Mutex<watch::Receiver<()>>>>,
}

impl Rows {
    /// Starts to listen, as long as this value exists, if there is a connection without a pooler.
    pub(crate) fn open(database: &Database, epoch: u64) -> Rows {
        let heard = match listener(&database.connector, &database.options) {
            Ok(listener) => listener.map(|listener| {
                let (told, heard) = watch::channel(());
                drop(database.home.run(listener.listen(CHANNEL, told)));
                Arc::new(Mutex::new(heard))
            }),
            Err(error) => {
                tracing::warn!("failed to listen for new inbox rows, polling instead: {error}");
                None
            }
        };
        Rows { database: database.clone(), epoch, heard }
    }

    fn ask<T: Send + 'static>(
        &self,
        what: &'static str,
        step: Step,
        read: impl FnOnce(&[Row]) -> Result<T, PgError> + Send + 'static,
    ) -> Later<Result<T, StoreError>> {
        let database = self.database.clone();
        let asking = self.database.home.run(async move {
            let found = database.ask(step).await.and_then(|rows| read(&rows));
            found.map_err(|trouble| trouble.while_doing(what))
        });
        Box::pin(async move { asking.await.unwrap_or_else(|| Err(ended())) })
    }
}

impl Inbox for Rows {
    fn rows(&self, at_most: usize) -> Later<Result<Vec<InboxRow>, StoreError>> {
        let step = Step::new(include_str!("sql/inbox.sql")).with(limit(at_most));
        self.ask("read the inbox", step, |rows| rows.iter().map(inbox_row).collect())
    }

    fn refuse(&self, id: u64, why: String) -> Later<Result<(), StoreError>> {
        let step = Step::new(include_str!("sql/refuse_inbox.sql")).with(self.epoch.cast_signed());
        let step = step.with(id.cast_signed()).with(why);
        self.ask("refuse a row of the inbox", step, |_| Ok(()))
    }

    fn news(&self) -> Later<()> {
        let heard = self.heard.clone();
        let waiting = self.database.home.run(async move {
            let Some(heard) = heard else { return tokio::time::sleep(LOOK).await };
            let mut heard = heard.lock().await;
            if let Ok(Err(_)) = tokio::time::timeout(LOOK, heard.changed()).await {
                // No receiver is left.
                tokio::time::sleep(LOOK).await;
            }
        });
        Box::pin(async move { waiting.await.unwrap_or(()) })
    }
}

fn inbox_row(found: &Row) -> Result<InboxRow, PgError> {
    Ok(InboxRow { id: get::<i64>(found, 0)?.cast_unsigned(), body: get(found, 1)? })
}
