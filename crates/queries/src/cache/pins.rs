//! Pins: records of kind `q.pin`, one for each identity whose value is never evicted.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use jobhall_core::query::{Identity, Query};
use jobhall_core::{Key, RecordKind};
use jobhall_engine::{NewRecord, NewRecordGroup, Rejected};
use jobhall_store::RecordFilter;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use crate::job::damaged;
use crate::{Error, Queries};

const KIND: &str = "q.pin";
/// Records read at once.
const PAGE: usize = 1_000;
/// Maximum number of pins of a hall.
pub const PINS_MAX: usize = 10_000;
/// How often a pin is written again because its record has changed.
const TRIES: usize = 3;

/// The content of a record.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    query: String,
}

/// The pinned identities; read once.
#[derive(Default)]
pub(crate) struct Pins {
    known: RwLock<BTreeSet<Identity>>,
    read: OnceCell<()>,
}

impl Pins {
    pub fn contains(&self, identity: &Identity) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains(identity)
    }

    fn len(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn set(&self, identity: Identity, pinned: bool) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if pinned {
            known.insert(identity);
        } else {
            known.remove(&identity);
        }
    }
}

fn kind() -> Result<RecordKind, Error> {
    RecordKind::new(KIND).map_err(damaged)
}

fn key(identity: &Identity) -> Result<Key, Error> {
    Key::new(&identity.to_string()).map_err(damaged)
}

impl Queries {
    /// Reads the pins if they have not been read.
    pub(crate) async fn pins(&self) -> Result<(), Error> {
        let read = self.0.cache.pins.read.get_or_try_init(|| self.read_pins()).await;
        read.map(drop)
    }

    async fn read_pins(&self) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.0.engine.record_page(RecordFilter::of(kind()?), after, PAGE).await?;
            for record in page.records {
                let identity = record.key.as_str().parse::<Identity>().map_err(damaged)?;
                self.0.cache.pins.set(identity, true);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// How many pins there are.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn pinned(&self) -> Result<usize, Error> {
        self.pins().await?;
        Ok(self.0.cache.pins.len())
    }

    /// Whether the value of this identity is pinned.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn is_pinned(&self, identity: &Identity) -> Result<bool, Error> {
        self.pins().await?;
        Ok(self.0.cache.pins.contains(identity))
    }

    /// Pins the value of a query, whether it is stored yet or not. Returns its identity, and whether the pin is new.
    ///
    /// # Errors
    /// The query is wrong or its value is not stored for others, or there are too many pins.
    pub async fn pin(&self, query: &Query) -> Result<(Identity, bool), Error> {
        let identity = self.identity(query).await?;
        let new = self.write_pin(identity, Some(query.text())).await?;
        Ok((identity, new))
    }

    /// Removes a pin; whether there was one.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn unpin(&self, identity: Identity) -> Result<bool, Error> {
        self.write_pin(identity, None).await
    }

    /// Removes the pins of a query: those with its text, whatever the versions of its commands were, and that of its value
    /// now. Returns how many there were.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn unpin_query(&self, query: &Query) -> Result<usize, Error> {
        let text = query.text();
        let mut meant: BTreeSet<Identity> = self.identity(query).await.into_iter().collect();
        let mut after = None;
        loop {
            let page = self.0.engine.record_page(RecordFilter::of(kind()?), after, PAGE).await?;
            for record in page.records {
                let Stored { query } = serde_json::from_str(&record.value).map_err(damaged)?;
                if query == text {
                    meant.insert(record.key.as_str().parse().map_err(damaged)?);
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let mut removed = 0;
        for identity in meant {
            removed += usize::from(self.unpin(identity).await?);
        }
        Ok(removed)
    }

    async fn write_pin(&self, identity: Identity, query: Option<String>) -> Result<bool, Error> {
        self.pins().await?;
        let pins = &self.0.cache.pins;
        if query.is_some() && pins.len() >= PINS_MAX && !pins.contains(&identity) {
            return Err(Error::Refused(format!("a hall has at most {PINS_MAX} pins")));
        }
        let pinned = query.is_some();
        let value = query.map(|query| serde_json::to_string(&Stored { query }));
        let value = value.transpose().map_err(damaged)?;
        for _ in 0..TRIES {
            let stored = self.0.engine.records(vec![(kind()?, key(&identity)?)]).await?;
            let expected = stored.into_iter().flatten().next().map_or(0, |record| record.rev);
            if (expected > 0) == pinned {
                pins.set(identity, pinned);
                return Ok(false);
            }
            let record = NewRecord {
                kind: kind()?,
                key: key(&identity)?,
                expected,
                group: NewRecordGroup::Keep,
                value: value.clone(),
            };
            match self.0.engine.write_records(vec![record]).await {
                Ok(()) => {
                    pins.set(identity, pinned);
                    return Ok(true);
                }
                Err(Rejected::RecordChanged(_)) => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        Err(Rejected::Contended.into())
    }
}
