//! Operations: changes of many jobs, recorded before they start and executed one after the other.
//!
//! A record is a setting in the store, written after every page of jobs. After a restart an operation continues from
//! its record. The current page may be executed twice, so every verb must be idempotent: cancel and delete are, and a
//! retry uses an idempotency key per operation and job.

mod runner;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jobhall_core::JobId;
use jobhall_protocol::{Code, Operation, OperationState, StartOperation, Timestamp};
use jobhall_store::{SettingKind, SettingWrite, Store, Unit};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OnceCell, watch};

use crate::error::ApiError;
use crate::server::app::now;

pub(crate) use runner::run;

/// Maximum number of records; the oldest are removed.
const KEPT: usize = 1_000;
/// Maximum number of operations that run or wait.
const WAITING: usize = 100;

/// All operations, cached in memory.
pub(crate) struct Operations {
    store: Arc<dyn Store>,
    book: OnceCell<Mutex<Book>>,
    /// Incremented with every change, to notify waiting requests.
    changes: watch::Sender<u64>,
}

type Book = BTreeMap<u64, Kept>;

struct Kept {
    record: Record,
    /// The rev of its setting.
    rev: u32,
}

/// The stored form of an operation.
#[derive(Clone, Serialize, Deserialize)]
struct Record {
    operation: Operation,
    /// Jobs from this id on have been processed; none before the first page.
    reached: Option<u64>,
}

impl Operations {
    pub(crate) fn new(store: Arc<dyn Store>) -> Operations {
        Operations { store, book: OnceCell::new(), changes: watch::Sender::new(0) }
    }

    /// The operations, read from the store on first use.
    async fn book(&self) -> Result<&Mutex<Book>, ApiError> {
        self.book.get_or_try_init(async || Ok(Mutex::new(read(self.store.as_ref()).await?))).await
    }

    /// Records an operation, to be executed after the earlier ones.
    pub(crate) async fn start(
        &self,
        who: &str,
        asked: StartOperation,
        up_to: u64,
    ) -> Result<Operation, ApiError> {
        let mut book = self.book().await?.lock().await;
        let waiting = book.values().filter(|kept| kept.is_running()).count();
        if waiting >= WAITING {
            let detail = format!("{waiting} operations are running or waiting, which is the limit");
            return Err(ApiError::new(Code::Unavailable, detail));
        }
        let at = Timestamp(now());
        let operation = Operation {
            id: book.last_key_value().map_or(1, |(id, _)| id + 1),
            verb: asked.verb,
            filter: asked.filter,
            dry_run: asked.dry_run,
            who: who.to_owned(),
            state: OperationState::Running,
            up_to,
            total: None,
            done: 0,
            failed: 0,
            skipped: 0,
            created_at: at,
            updated_at: at,
            error: None,
            cancel_requested: false,
        };
        let kept = Kept { record: Record { operation: operation.clone(), reached: None }, rev: 1 };
        let old = surplus(&book);
        let removed = old.iter().filter_map(|id| Some((*id, book.get(id)?.rev, None)));
        let writes = removed.chain([(operation.id, 0, Some(&kept.record))]);
        self.write(writes.map(|(id, rev, record)| write(id, rev, record)).collect()).await?;
        old.iter().for_each(|id| drop(book.remove(id)));
        book.insert(operation.id, kept);
        drop(book);
        self.tell();
        Ok(operation)
    }

    pub(crate) async fn get(&self, id: u64) -> Result<Operation, ApiError> {
        let book = self.book().await?.lock().await;
        book.get(&id).map(|kept| kept.record.operation.clone()).ok_or_else(|| unknown(id))
    }

    /// Operations below a number, newest first, up to a limit; and whether there are more.
    pub(crate) async fn list(&self, before: u64, limit: usize) -> Result<(Vec<Operation>, bool), ApiError> {
        let book = self.book().await?.lock().await;
        let mut older = book.range(..before).rev();
        let page = older.by_ref().take(limit).map(|(_, kept)| kept.record.operation.clone()).collect();
        Ok((page, older.next().is_some()))
    }

    /// Requests that an operation stops, or returns its end.
    pub(crate) async fn cancel(&self, id: u64) -> Result<Operation, ApiError> {
        match self.get(id).await?.state {
            OperationState::Running => {}
            OperationState::Cancelled => return self.get(id).await,
            OperationState::Succeeded | OperationState::Failed => {
                return Err(ApiError::new(Code::Conflict, format!("operation {id} has ended")));
            }
        }
        let record = self.update(id, |record| record.operation.cancel_requested = true).await?;
        Ok(record.operation)
    }

    /// Waits until an operation has counted its jobs or ended, or the time limit expires; returns the operation.
    pub(crate) async fn counted(&self, id: u64, patience: Duration) -> Result<Operation, ApiError> {
        let mut changes = self.changes.subscribe();
        let counted = async {
            loop {
                let operation = self.get(id).await?;
                if operation.total.is_some() || operation.state != OperationState::Running {
                    return Ok(operation);
                }
                // The sender lives as long as `self`.
                let _ = changes.changed().await;
            }
        };
        match tokio::time::timeout(patience, counted).await {
            Ok(operation) => operation,
            Err(_) => self.get(id).await,
        }
    }

    /// Changes a record durably.
    async fn update(&self, id: u64, change: impl FnOnce(&mut Record)) -> Result<Record, ApiError> {
        let mut book = self.book().await?.lock().await;
        let kept = book.get_mut(&id).ok_or_else(|| unknown(id))?;
        let mut record = kept.record.clone();
        change(&mut record);
        record.operation.updated_at = Timestamp(now());
        self.write(vec![write(id, kept.rev, Some(&record))]).await?;
        kept.rev += 1;
        kept.record = record.clone();
        drop(book);
        self.tell();
        Ok(record)
    }

    async fn write(&self, settings: Vec<SettingWrite>) -> Result<(), ApiError> {
        let committed = self.store.commit(vec![Unit { settings, ..Unit::default() }]).await?;
        match committed.results.into_iter().next() {
            Some(Ok(_)) => Ok(()),
            other => Err(ApiError::internal(format!("failed to record an operation: {other:?}"))),
        }
    }

    /// The oldest unfinished operation; waits until there is one.
    async fn next(&self) -> Result<Record, ApiError> {
        let mut changes = self.changes.subscribe();
        loop {
            let book = self.book().await?.lock().await;
            if let Some(kept) = book.values().find(|kept| kept.is_running()) {
                return Ok(kept.record.clone());
            }
            drop(book);
            let _ = changes.changed().await;
        }
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Kept {
    fn is_running(&self) -> bool {
        self.record.operation.state == OperationState::Running
    }
}

impl Record {
    /// Jobs below this id remain to be processed; none if that is above the highest possible id.
    fn before(&self) -> Option<JobId> {
        JobId::new(self.reached.unwrap_or(self.operation.up_to + 1)).ok()
    }
}

fn unknown(id: u64) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no operation {id}"))
}

/// The oldest finished records, as many as must be removed for a new one.
fn surplus(book: &Book) -> Vec<u64> {
    let many = (book.len() + 1).saturating_sub(KEPT);
    book.iter().filter(|(_, kept)| !kept.is_running()).map(|(id, _)| *id).take(many).collect()
}

fn write(id: u64, expected: u32, record: Option<&Record>) -> SettingWrite {
    let value = record.map(|record| serde_json::to_string(record).expect("a record is plain data"));
    SettingWrite { kind: SettingKind::Operation, name: id.to_string(), expected, value }
}

async fn read(store: &dyn Store) -> Result<Book, ApiError> {
    let operations = store.settings(Some(SettingKind::Operation)).await?.into_iter();
    let read = operations.map(|setting| {
        let wrong = |why: String| ApiError::internal(format!("operation {}: {why}", setting.name));
        let record: Record =
            serde_json::from_str(&setting.value).map_err(|error| wrong(error.to_string()))?;
        Ok((record.operation.id, Kept { record, rev: setting.rev }))
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use jobhall_protocol::{JobFilter, Verb};
    use jobhall_store::Memory;

    use super::*;

    fn asked() -> StartOperation {
        let filter = JobFilter::default();
        StartOperation { verb: Verb::Cancel, filter, all: true, dry_run: false, up_to: None }
    }

    async fn ended(operations: &Operations) -> u64 {
        let id = operations.start("me", asked(), 7).await.unwrap().id;
        let end = |record: &mut Record| record.operation.state = OperationState::Succeeded;
        operations.update(id, end).await.unwrap();
        id
    }

    #[tokio::test]
    async fn the_last_records_are_kept_and_numbers_are_not_used_again() {
        let store = Arc::new(Memory::new());
        let operations = Operations::new(store.clone());
        for n in 1..=KEPT as u64 + 3 {
            assert_eq!(ended(&operations).await, n);
        }
        assert_eq!(store.settings_now().len(), KEPT);
        assert!(operations.get(3).await.is_err());
        assert_eq!(operations.get(4).await.unwrap().state, OperationState::Succeeded);
        let again = Operations::new(store);
        assert_eq!(ended(&again).await, KEPT as u64 + 4, "after a restart too");
        let (page, more) = again.list(u64::MAX, 2).await.unwrap();
        assert_eq!((page.iter().map(|one| one.id).collect::<Vec<_>>(), more), (vec![1_004, 1_003], true));
    }

    #[tokio::test]
    async fn too_many_at_once_are_refused() {
        let operations = Operations::new(Arc::new(Memory::new()));
        for _ in 0..WAITING {
            operations.start("me", asked(), 7).await.unwrap();
        }
        let trouble = operations.start("me", asked(), 7).await.unwrap_err();
        assert!(trouble.detail().contains("100 operations"), "{}", trouble.detail());
    }
}
