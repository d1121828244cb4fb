//! The audit log: who did what. A change that the server commits itself includes its audit entry in the commit. For a
//! change made by the engine, the entry is written afterwards.

use jobhall_store::{AuditEntry, Unit};

use crate::app::{App, now};
use crate::tokens::Identity;

/// Maximum size of the detail; longer text is truncated.
const DETAIL_BYTES: usize = 1_000;

/// An audit entry with the current time.
pub(crate) fn entry(who: &str, act: &str, subject: &str, mut detail: String) -> AuditEntry {
    while detail.len() > DETAIL_BYTES {
        detail.pop();
    }
    let (who, act, subject) = (who.to_owned(), act.to_owned(), subject.to_owned());
    AuditEntry { at: now(), who, act, subject, detail }
}

impl App {
    /// Writes an audit entry for a completed action. If the store cannot write it, the error is logged.
    pub(crate) async fn acted(&self, who: &Identity, act: &str, subject: impl ToString, detail: &str) {
        let entry = entry(&who.name, act, &subject.to_string(), detail.to_owned());
        self.write_down(entry).await;
    }

    pub(crate) async fn write_down(&self, entry: AuditEntry) {
        let AuditEntry { who, act, subject, .. } = &entry;
        let words = format!("{who} {act} {subject}");
        let unit = Unit { audit: vec![entry], ..Unit::default() };
        if let Err(error) = self.store.commit(vec![unit]).await {
            tracing::error!("failed to write an audit entry ({words}): {error}");
        }
    }
}
