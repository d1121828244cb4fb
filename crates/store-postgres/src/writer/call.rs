//! Calls to the writer, and their replies.

use jobhall_store::{Block, BlockChange, CommitError, Committed, Prune, Pruned, Unit};
use tokio::sync::oneshot;

/// The channel of a reply. The caller may have stopped waiting.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, CommitError>>;

/// One call of the port.
pub(crate) enum Call {
    Commit(Batch),
    TakeBlock(u64, Reply<Block>),
    SettleBlocks(Vec<BlockChange>, Reply<()>),
    Prune(Prune, Reply<Pruned>),
    /// Releases the leadership.
    Leave(oneshot::Sender<()>),
}

impl Call {
    /// Replies that the store has stopped.
    pub(crate) fn stop(self, message: &str) {
        let stopped = || CommitError::Stopped { message: message.to_owned() };
        match self {
            Call::Commit(batch) => batch.refuse(&stopped()),
            Call::TakeBlock(_, reply) => drop(reply.send(Err(stopped()))),
            Call::SettleBlocks(_, reply) => drop(reply.send(Err(stopped()))),
            Call::Prune(_, reply) => drop(reply.send(Err(stopped()))),
            Call::Leave(reply) => {
                let _ = reply.send(());
            }
        }
    }
}

/// Commits that share a transaction.
pub(crate) struct Batch {
    /// The units of each commit.
    pub(crate) units: Vec<Vec<Unit>>,
    replies: Vec<Reply<Committed>>,
    /// The server refused the batch without prior checks.
    pub(crate) doubted: bool,
}

impl Batch {
    /// A batch of one commit.
    pub(crate) fn of(units: Vec<Unit>, reply: Reply<Committed>) -> Batch {
        Batch { units: vec![units], replies: vec![reply], doubted: false }
    }

    pub(crate) fn join(&mut self, next: Batch) {
        self.units.extend(next.units);
        self.replies.extend(next.replies);
    }

    /// Splits the batch into its commits.
    pub(crate) fn parts(self) -> impl Iterator<Item = Batch> {
        let Batch { units, replies, doubted } = self;
        let each = units.into_iter().zip(replies);
        each.map(move |(units, reply)| Batch { doubted, ..Batch::of(units, reply) })
    }

    /// The approximate number of rows it writes.
    pub(crate) fn rows(&self) -> usize {
        self.units.iter().flatten().map(Unit::rows).sum()
    }

    /// Replies to each caller.
    pub(crate) fn answer(self, answers: Vec<Committed>) {
        for (answer, reply) in answers.into_iter().zip(self.replies) {
            drop(reply.send(Ok(answer)));
        }
    }

    /// Replies to all callers with this error.
    pub(crate) fn refuse(self, error: &CommitError) {
        for reply in self.replies {
            drop(reply.send(Err(error.clone())));
        }
    }
}
