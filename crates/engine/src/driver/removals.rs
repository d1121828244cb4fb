//! What is called when jobs are removed.

use std::sync::{Arc, PoisonError, RwLock};

use jobhall_store::{CommitError, Pruned, RemovedJob};

use super::Engine;

type Hook = Box<dyn Fn(Option<&[RemovedJob]>) + Send + Sync>;

/// The hooks of an engine.
#[derive(Clone, Default)]
pub(super) struct Removals(Arc<RwLock<Vec<Hook>>>);

impl Removals {
    /// Passes on what the store has removed, before anyone has the answer.
    pub fn pass_on(&self, result: &Result<Pruned, CommitError>) {
        let removed = match result {
            Ok(pruned) if pruned.jobs.is_empty() => return,
            Ok(pruned) => Some(pruned.jobs.as_slice()),
            Err(CommitError::NotCommitted { .. }) => return,
            Err(CommitError::Unknown { .. } | CommitError::Stopped { .. }) => None,
        };
        for hook in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            hook(removed);
        }
    }
}

impl Engine {
    /// Calls this with all jobs that are removed from now on, by retention or on request, before the request is answered;
    /// with none if it is not known which jobs were removed. It must neither block nor panic.
    pub fn on_removed(&self, hook: impl Fn(Option<&[RemovedJob]>) + Send + Sync + 'static) {
        self.removals.0.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(hook));
    }
}
