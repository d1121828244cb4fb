//! The identity of the hall: a random number in the store, created by the first join. A worker stores its credential
//! under it, because the addresses of a hall change.

use jobhall_core::{Key, RecordKind, Time};
use jobhall_store::{RecordGroup, RecordWrite};

use super::Tokens;
use super::secret::random_hex;
use crate::error::ApiError;

const KIND: &str = "hall.identity";
const KEY: &str = "hall";

/// The identity, and how to store it if it is new.
pub(super) struct HallIdentity {
    pub id: String,
    pub write: Option<RecordWrite>,
}

impl Tokens {
    /// The stored identity, or a new one that the caller must store in the unit that tells it.
    pub(super) async fn hall(&self, moment: Time) -> Result<HallIdentity, ApiError> {
        let kind = RecordKind::new(KIND).map_err(ApiError::internal)?;
        let key = Key::new(KEY).map_err(ApiError::internal)?;
        let stored =
            self.store.records(vec![(kind.clone(), key.clone())]).await?.into_iter().next().flatten();
        if let Some(record) = stored {
            let id = serde_json::from_str(&record.value).map_err(ApiError::internal)?;
            return Ok(HallIdentity { id, write: None });
        }
        let id = random_hex::<16>();
        let value = Some(format!("\"{id}\""));
        let group = RecordGroup::Keep;
        let write = RecordWrite { kind, key, expected: 0, at: moment, group, value };
        Ok(HallIdentity { id, write: Some(write) })
    }
}
