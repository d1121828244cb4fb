//! Records of applications, without a job.

use jobhall_core::{Key, RecordKind, Time};
use jobhall_kernel::{NewRecord, Rejected, Submit};
use jobhall_store::{Prune, Record, RecordFilter, RecordPage, StoreError};

use super::Engine;

impl Engine {
    /// Writes records in one commit, all or none. If one of them has changed, it is returned in the rejection.
    pub async fn write_records(&self, records: Vec<NewRecord>) -> Result<(), Rejected> {
        self.submit(Submit { records, ..Submit::default() }).await.map(drop)
    }

    /// Returns these records in their order; none for one that does not exist.
    pub async fn records(&self, keys: Vec<(RecordKind, Key)>) -> Result<Vec<Option<Record>>, StoreError> {
        self.store.records(keys).await
    }

    /// Returns the records of a filter by key, after this one.
    pub async fn record_page(
        &self,
        filter: RecordFilter,
        after: Option<Key>,
        limit: usize,
    ) -> Result<RecordPage, StoreError> {
        self.store.record_page(filter, after, limit).await
    }

    /// Removes the records of these kinds that were written before these times, and returns how many there were.
    pub async fn prune_records(&self, records: Vec<(RecordKind, Time)>) -> Result<u64, Rejected> {
        let pruned = self.store.prune(Prune { records, ..Prune::default() }).await;
        pruned.map(|pruned| pruned.records).map_err(|error| Rejected::from(&error))
    }
}
