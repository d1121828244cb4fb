//! What callers ask of the writer, and how they are answered.

use jobhall_store::{Block, BlockChange, CommitError, Committed, Prune, Pruned, Unit};
use tokio::sync::oneshot;

/// Where an answer goes. A caller that no longer waits is no trouble.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, CommitError>>;

/// One call of the port.
pub(crate) enum Call {
    Commit(Vec<Unit>, Reply<Committed>),
    TakeBlock(u64, Reply<Block>),
    SettleBlocks(Vec<BlockChange>, Reply<()>),
    Prune(Prune, Reply<Pruned>),
    /// Gives the desk back.
    Leave(oneshot::Sender<()>),
}

impl Call {
    /// Answers that the store has stopped.
    pub(crate) fn stop(self, message: &str) {
        let stopped = || CommitError::Stopped { message: message.to_owned() };
        match self {
            Call::Commit(_, reply) => drop(reply.send(Err(stopped()))),
            Call::TakeBlock(_, reply) => drop(reply.send(Err(stopped()))),
            Call::SettleBlocks(_, reply) => drop(reply.send(Err(stopped()))),
            Call::Prune(_, reply) => drop(reply.send(Err(stopped()))),
            Call::Leave(reply) => {
                let _ = reply.send(());
            }
        }
    }
}

/// About how many rows units write.
pub(crate) fn rows(units: &[Unit]) -> usize {
    units.iter().map(Unit::rows).sum()
}
