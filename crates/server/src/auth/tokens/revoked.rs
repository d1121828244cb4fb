//! What ends with the token of a worker: its sessions and leases, and thereby the tokens of its jobs, and its pause. Its
//! connections, long polls and streams end by themselves: each of them waits for the end of its token.

use std::sync::Arc;

use jobhall_core::WorkerName;
use jobhall_engine::{Engine, WorkerChange};
use jobhall_protocol::Code;
use tokio::sync::watch;

use super::{Entries, Identity, Role, Tokens};
use crate::error::ApiError;
use crate::server::app::told;

/// Maximum number of workers that one administrator's token can name.
const NAMED: usize = 10_000;

impl Entries {
    /// Notes that this identity is no longer valid.
    pub(super) fn note_revoked(&mut self, who: &Identity) {
        if matches!(who.role, Role::Worker | Role::Admin)
            && let Ok(worker) = WorkerName::new(&who.name)
        {
            self.revoked.push(worker);
        }
        self.revoked.extend(self.named.remove(&who.id).into_iter().flatten());
    }
}

impl Tokens {
    /// Notes that an administrator acts for a worker with another name than its token's: what that worker holds ends
    /// with the token.
    pub(crate) fn note_named(&self, who: &Identity) -> Result<(), ApiError> {
        let Some(worker) = &who.worker else { return Ok(()) };
        let named = self.read().named.get(&who.id).is_some_and(|named| named.contains(worker));
        if named {
            return Ok(());
        }
        let mut entries = self.write();
        let named = entries.named.entry(who.id.clone()).or_default();
        if named.len() >= NAMED {
            let detail =
                format!("token {} has named {NAMED} workers, which is the limit of one token", who.name);
            return Err(ApiError::new(Code::TooManyRequests, detail));
        }
        named.insert(worker.clone());
        Ok(())
    }

    /// The workers whose tokens became invalid since the last call.
    fn take_revoked(&self) -> Vec<WorkerName> {
        std::mem::take(&mut self.write().revoked)
    }

    /// Ends the sessions and leases of workers whose tokens become invalid, until the server closes.
    pub(crate) async fn end_revoked(self: Arc<Tokens>, engine: Engine, close: watch::Receiver<bool>) {
        let mut changed = self.changed.subscribe();
        loop {
            for worker in self.take_revoked() {
                if let Err(refused) = engine.end_worker(worker.clone()).await {
                    tracing::warn!(%worker, "failed to end the leases of a revoked worker: {refused}");
                }
                if let Err(refused) = engine.change_worker(worker.clone(), WorkerChange::Resume).await {
                    tracing::warn!(%worker, "failed to remove the settings of a revoked worker: {refused}");
                }
            }
            tokio::select! {
                () = told(close.clone()) => return,
                changed = changed.changed() => if changed.is_err() { return },
            }
        }
    }
}
