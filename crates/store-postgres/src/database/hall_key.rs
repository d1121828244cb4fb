//! The record of the hall's key. The key is in a file of each node; the database has an identifier of it.

use jobhall_store::{Later, StoreError};

use super::Database;
use crate::connect::wire::Step;
use crate::rows::row::get;

/// Which key the nodes of a hall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The identifier of the current key.
    pub id: String,
    /// The machine of the node that recorded it.
    pub host: String,
    /// The key file there.
    pub path: String,
    /// When it was recorded, in milliseconds since 1970 on the database's clock.
    pub written_ms: i64,
    /// The identifier of the key before, if it is still valid.
    pub earlier: Option<String>,
}

/// A key to record.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub id: String,
    pub host: String,
    pub path: String,
    /// The identifier of the key that it replaces, and until when that one is valid, in milliseconds since 1970.
    pub replaces: Option<(String, i64)>,
}

impl Database {
    /// The record of the hall's key; none before the first node has one.
    pub fn key(&self) -> Later<Result<Option<KeyRecord>, StoreError>> {
        let step = || Step::new(include_str!("../sql/hall_key.sql"));
        self.look("read which key the hall has", step, |rows| {
            let Some(row) = rows.first() else { return Ok(None) };
            Ok(Some(KeyRecord {
                id: get(row, 0)?,
                host: get(row, 1)?,
                path: get(row, 2)?,
                written_ms: get(row, 3)?,
                earlier: get(row, 4)?,
            }))
        })
    }

    /// Records a key if there is none, or if the recorded one is the one that it replaces. Otherwise nothing changes.
    pub fn record_key(&self, key: NewKey) -> Later<Result<(), StoreError>> {
        let (replaces, until) = key.replaces.unwrap_or_default();
        let step = move || {
            let step = Step::new(include_str!("../sql/put_hall_key.sql")).with(key.id).with(key.host);
            step.with(key.path).with(replaces).with(until)
        };
        self.look("record which key the hall has", step, |_| Ok(()))
    }
}
