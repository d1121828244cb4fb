//! The one task that writes. It takes every commit that waits into one transaction and answers them all; it never
//! lingers for more to come: while one transaction syncs, the next one's calls gather by themselves.
//!
//! ```text
//!   calls ──▶ transaction ──▶ answers
//!                 │ the server said no: rolled back, nothing was written, goes on
//!                 │ the connection broke: connects again; was COMMIT sent, the number of the commit tells its fate:
//!                 │     set by it: answered as decided; not set: set in its place, so that it never can be; done again
//!                 │ fenced, or the desk's term is over: stops
//! ```

mod transaction;

use std::sync::Arc;

use deadpool_postgres::ClientWrapper;
use jobhall_store::{Block, BlockChange, CommitError, Committed, Prune, Pruned, Unit};
use tokio::sync::mpsc;

use crate::apply::Numbers;
use crate::call::{Call, Reply, rows};
use crate::connect::Connector;
use crate::desk::Term;
use crate::options::Options;
use crate::row::get;
use crate::trouble::{Trouble, damaged};
use crate::wire::Step;

/// What one transaction does.
enum Work<'a> {
    Units(&'a [Vec<Unit>]),
    Block(u64),
    Settle(&'a [BlockChange]),
    Prune(&'a Prune),
}

/// What came of it.
enum Outcome {
    Units(Vec<Committed>, Numbers),
    Block(Option<Block>),
    Nothing,
    Pruned(Pruned),
}

/// The task's own.
pub(crate) struct Writer {
    connector: Connector,
    options: Options,
    term: Arc<Term>,
    epoch: u64,
    client: Option<ClientWrapper>,
    /// The number of the last commit.
    number: i64,
    numbers: Numbers,
}

impl Writer {
    /// Connects, and reads what a writer must know, after the desk was taken: no other commits any more.
    pub(crate) async fn begin(
        connector: Connector,
        options: Options,
        epoch: u64,
        term: Arc<Term>,
    ) -> Result<Writer, Trouble> {
        let client = connector.connect_writer().await?;
        let rows = connector.wire(&client).ask(Step::new(include_str!("sql/standing.sql"))).await?;
        let found = rows.first().ok_or_else(|| damaged("meta", "it is missing"))?;
        let number = |column| get::<i64>(found, column);
        let numbers = Numbers { feed: number(0)?.cast_unsigned(), act: number(2)?.cast_unsigned() };
        let number = number(1)?;
        Ok(Writer { connector, options, term, epoch, client: Some(client), number, numbers })
    }

    /// Until the store is dropped and nothing waits any more, or it must stop; then the desk is given back.
    pub(crate) async fn serve(mut self, mut calls: mpsc::Receiver<Call>) {
        let mut next = None;
        loop {
            let call = match next.take() {
                Some(call) => call,
                None => match calls.recv().await {
                    Some(call) => call,
                    None => return self.leave().await,
                },
            };
            if !self.term.stands() {
                call.stop(&self.term.why());
                continue;
            }
            match call {
                Call::Commit(units, reply) => next = self.commit(units, reply, &mut calls).await,
                Call::TakeBlock(size, reply) => {
                    let lent = self.transact(&Work::Block(size)).await;
                    drop(reply.send(lent.and_then(|outcome| block(outcome, size))));
                }
                Call::SettleBlocks(changes, reply) => {
                    let settled = self.transact(&Work::Settle(&changes)).await;
                    drop(reply.send(settled.map(|_| ())));
                }
                Call::Prune(prune, reply) => {
                    let done = self.transact(&Work::Prune(&prune)).await;
                    drop(reply.send(done.and_then(|outcome| pruned(&outcome))));
                }
                Call::Leave(reply) => {
                    self.leave().await;
                    let _ = reply.send(());
                }
            }
        }
    }

    /// Takes every commit that waits into one transaction, up to the bound of rows; hands back the first other call.
    async fn commit(
        &mut self,
        units: Vec<Unit>,
        reply: Reply<Committed>,
        calls: &mut mpsc::Receiver<Call>,
    ) -> Option<Call> {
        let mut waiting = rows(&units);
        let (mut taken, mut replies) = (vec![units], vec![reply]);
        let mut other = None;
        while waiting < self.options.rows_per_transaction && other.is_none() {
            match calls.try_recv() {
                Ok(Call::Commit(units, reply)) => {
                    waiting += rows(&units);
                    taken.push(units);
                    replies.push(reply);
                }
                Ok(call) => other = Some(call),
                Err(_) => break,
            }
        }
        match self.commit_units(&taken).await {
            // What the server refuses for one of them must not be held against the others.
            Err(CommitError::NotCommitted { full: false, .. }) if taken.len() > 1 => {
                for (units, reply) in taken.chunks(1).zip(replies) {
                    let committed = self.commit_units(units).await;
                    drop(reply.send(committed.and_then(|all| all.into_iter().next().ok_or_else(nothing))));
                }
            }
            Ok(answers) => {
                for (answer, reply) in answers.into_iter().zip(replies) {
                    drop(reply.send(Ok(answer)));
                }
            }
            Err(error) => {
                for reply in replies {
                    drop(reply.send(Err(error.clone())));
                }
            }
        }
        other
    }

    async fn commit_units(&mut self, calls: &[Vec<Unit>]) -> Result<Vec<Committed>, CommitError> {
        match self.transact(&Work::Units(calls)).await? {
            Outcome::Units(answers, numbers) => {
                self.numbers = numbers;
                Ok(answers)
            }
            _ => Err(nothing()),
        }
    }

    /// Gives the desk back, so that the next node need not wait for the end of its term.
    async fn leave(&mut self) {
        if !self.term.stands() {
            return;
        }
        if let Ok(client) = self.connected().await {
            let steps = [
                Step::new(include_str!("sql/begin.sql")),
                Step::new(include_str!("sql/leave_desk.sql")).with(self.epoch.cast_signed()),
                Step::new(include_str!("sql/commit.sql")),
            ];
            let wire = self.connector.wire(&client);
            let left = tokio::time::timeout(self.options.term, wire.send(&steps)).await;
            if let Err(trouble) = left.unwrap_or(Err(Trouble::Late)) {
                tracing::warn!("failed to give the desk back, it ends with its term: {trouble}");
            }
        }
        self.term.lose("the desk was given back");
    }
}

fn nothing() -> CommitError {
    CommitError::Stopped { message: "the writer lost its answer".to_owned() }
}

fn block(outcome: Outcome, size: u64) -> Result<Block, CommitError> {
    let message = format!("{size} more ids do not fit below the largest id");
    match outcome {
        Outcome::Block(Some(block)) => Ok(block),
        Outcome::Block(None) => Err(CommitError::NotCommitted { full: false, message }),
        _ => Err(nothing()),
    }
}

fn pruned(outcome: &Outcome) -> Result<Pruned, CommitError> {
    match outcome {
        Outcome::Pruned(pruned) => Ok(*pruned),
        _ => Err(nothing()),
    }
}
