//! Calls to the writer, and their replies: after the transaction is durable, or with its error.

use jobhall_store::{Block, BlockChange, CommitError, Committed, Prune, Pruned, Unit};
use tokio::sync::oneshot;

use crate::error::SqlError;
use crate::statements::Writes;

/// The channel of a reply.
type Reply<T> = oneshot::Sender<Result<T, CommitError>>;

/// A pending reply; it needs only the result of the transaction.
pub(crate) type Answer = Box<dyn FnOnce(Option<CommitError>) + Send>;

/// One call of the port.
pub(crate) enum Call {
    Commit(Vec<Unit>, Reply<Committed>),
    TakeBlock(u64, Reply<Block>),
    SettleBlocks(Vec<BlockChange>, Reply<()>),
    Prune(Prune, Reply<Pruned>),
}

/// A caller whose call is part of a transaction. If the writer panics from here on, the outcome is unknown.
struct Begun<T>(Option<Reply<T>>);

impl<T> Begun<T> {
    fn tell(mut self, result: Result<T, CommitError>) {
        if let Some(reply) = self.0.take() {
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        }
    }
}

impl<T> Drop for Begun<T> {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            let message = "the writer ended unexpectedly".to_owned();
            let _ = reply.send(Err(CommitError::Unknown { message }));
        }
    }
}

/// Answers with the result, unless the transaction failed.
fn answer<T: Send + 'static>(reply: Reply<T>, result: Result<T, CommitError>) -> Answer {
    let begun = Begun(Some(reply));
    Box::new(move |error| {
        begun.tell(match error {
            Some(error) => Err(error),
            None => result,
        });
    })
}

/// The reply to a call that failed: the error of its transaction, which cannot have been committed.
fn failure<T: Send + 'static>(reply: Reply<T>) -> Answer {
    answer(reply, Err(CommitError::NotCommitted { full: false, message: "rolled back".to_owned() }))
}

fn settle<T: Send + 'static>(reply: Reply<T>, done: Result<T, SqlError>) -> (Answer, Result<(), SqlError>) {
    match done {
        Ok(value) => (answer(reply, Ok(value)), Ok(())),
        Err(trouble) => (failure(reply), Err(trouble)),
    }
}

impl Call {
    /// The approximate number of rows it writes.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Call::Commit(units, _) => units.iter().map(Unit::rows).sum(),
            Call::TakeBlock(..) => 1,
            Call::SettleBlocks(changes, _) => changes.len(),
            Call::Prune(prune, _) => prune.jobs.len() + prune.groups.len(),
        }
    }

    /// The reply to a call that was never started: the result of its transaction.
    pub(crate) fn give_up(self) -> Answer {
        match self {
            Call::Commit(_, reply) => failure(reply),
            Call::TakeBlock(_, reply) => failure(reply),
            Call::SettleBlocks(_, reply) => failure(reply),
            Call::Prune(_, reply) => failure(reply),
        }
    }

    /// Executes the call inside the open transaction.
    pub(crate) fn apply(
        self,
        writes: &mut Writes<'_>,
        feed_last: &mut u64,
    ) -> (Answer, Result<(), SqlError>) {
        match self {
            Call::Commit(units, reply) => settle(reply, writes.commit_units(&units, feed_last)),
            Call::SettleBlocks(changes, reply) => settle(reply, writes.settle(&changes)),
            Call::Prune(prune, reply) => settle(reply, writes.remove(&prune)),
            Call::TakeBlock(size, reply) => match writes.lend_block(size) {
                Ok(Some(block)) => (answer(reply, Ok(block)), Ok(())),
                Ok(None) => (answer(reply, Err(no_ids(size))), Ok(())),
                Err(trouble) => (failure(reply), Err(trouble)),
            },
        }
    }
}

fn no_ids(size: u64) -> CommitError {
    let message = format!("{size} more ids do not fit below the largest id");
    CommitError::NotCommitted { full: false, message }
}
