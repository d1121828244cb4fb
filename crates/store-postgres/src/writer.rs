//! The one task that writes. It puts all waiting commits into one transaction and answers them together. It does
//! not delay a transaction to collect more: while one transaction syncs, the calls for the next one queue up.
//!
//! ```text
//!   calls ──▶ waiting ──▶ sent ──▶ replies     two at a time, so that the server goes from one to the next (`ahead`)
//!                │ not plain, behind a pooler, or in doubt: alone, with what it touches read first (`transaction`)
//!                │ the server refused: rolled back, nothing was written, continues
//!                │ the connection broke: reconnects. If COMMIT was sent, the commit number decides:
//!                │     set by the commit: answered as decided; not set: a tombstone sets it; repeated
//!                │ fenced, or the term of the leadership is over: stops
//! ```

mod ahead;
pub(crate) mod call;
mod transaction;
pub(crate) mod upkeep;

use std::collections::VecDeque;
use std::sync::Arc;

use jobhall_store::{Block, BlockChange, CommitError, Committed, Prune, Pruned};
use tokio::sync::mpsc;

use crate::apply::Numbers;
use crate::connect::Connector;
use crate::error::PgError;
use crate::leadership::Term;
use crate::options::Options;
use ahead::{AHEAD, Sent, answered};
use call::{Batch, Call};
use transaction::Line;

/// The work of one transaction.
enum Work<'a> {
    Units(&'a Batch),
    Block(u64),
    Settle(&'a [BlockChange]),
    Prune(&'a Prune),
}

/// The result of one transaction.
enum Outcome {
    Units(Vec<Committed>, Numbers),
    Block(Option<Block>),
    Nothing,
    Pruned(Pruned),
}

/// The state of the task.
pub(crate) struct Writer {
    line: Line,
    /// Pending calls, oldest first.
    waiting: VecDeque<Call>,
    /// Commits sent to the server and not answered, ordered by number.
    sent: VecDeque<Sent>,
}

impl Writer {
    /// Connects, and reads the counters after the leadership was taken: no other node can commit any more.
    pub(crate) async fn begin(
        connector: Connector,
        options: Options,
        epoch: u64,
        term: Arc<Term>,
    ) -> Result<Writer, PgError> {
        let line = Line::begin(connector, options, epoch, term).await?;
        Ok(Writer { line, waiting: VecDeque::new(), sent: VecDeque::new() })
    }

    /// Runs until the store is dropped and no calls wait, or it must stop; then releases the leadership.
    pub(crate) async fn serve(mut self, mut calls: mpsc::Receiver<Call>) {
        loop {
            match self.waiting.pop_front() {
                Some(next) => self.go_on(next).await,
                None => tokio::select! {
                    biased;
                    done = answered(&mut self.sent, &self.line.term), if !self.sent.is_empty() => self.landed(done).await,
                    call = calls.recv(), if self.sent.len() < AHEAD => match call {
                        Some(call) => self.gather(call, &mut calls),
                        None => break,
                    },
                },
            }
        }
        while !self.sent.is_empty() || !self.waiting.is_empty() {
            match self.waiting.pop_front() {
                Some(next) => self.go_on(next).await,
                None => self.land().await,
            }
        }
        self.line.leave().await;
    }

    /// Collects all waiting commits, up to the row limit, for one transaction; another kind of call comes after it.
    fn gather(&mut self, first: Call, calls: &mut mpsc::Receiver<Call>) {
        let mut batch = match first {
            Call::Commit(batch) => batch,
            other => return self.waiting.push_back(other),
        };
        let (mut rows, mut other) = (batch.rows(), None);
        while rows < self.line.options.rows_per_transaction && other.is_none() {
            match calls.try_recv() {
                Ok(Call::Commit(next)) => {
                    rows += next.rows();
                    batch.join(next);
                }
                Ok(call) => other = Some(call),
                Err(_) => break,
            }
        }
        self.waiting.push_back(Call::Commit(batch));
        self.waiting.extend(other);
    }

    /// Executes the next call. If it must wait for sent commits, it stays the next one, and the first of those is
    /// awaited.
    async fn go_on(&mut self, next: Call) {
        if !self.line.term.may_lead() {
            return next.stop(&self.line.term.why());
        }
        let next = match next {
            Call::Commit(batch) => match self.send(batch).await {
                Ok(()) => return,
                Err(batch) => Call::Commit(batch),
            },
            other => other,
        };
        if self.sent.is_empty() {
            self.alone(next).await;
        } else {
            self.waiting.push_front(next);
            self.land().await;
        }
    }

    /// Executes a call while no other is in progress.
    async fn alone(&mut self, call: Call) {
        match call {
            Call::Commit(batch) => self.commit(batch).await,
            Call::TakeBlock(size, reply) => {
                let lent = self.line.transact(&Work::Block(size)).await;
                drop(reply.send(lent.and_then(|outcome| block(outcome, size))));
            }
            Call::SettleBlocks(changes, reply) => {
                let settled = self.line.transact(&Work::Settle(&changes)).await;
                drop(reply.send(settled.map(|_| ())));
            }
            Call::Prune(prune, reply) => {
                let done = self.line.transact(&Work::Prune(&prune)).await;
                drop(reply.send(done.and_then(pruned)));
            }
            Call::Leave(reply) => {
                self.line.leave().await;
                let _ = reply.send(());
            }
        }
    }

    async fn commit(&mut self, batch: Batch) {
        match self.commit_units(&batch).await {
            Ok(answers) => batch.answer(answers),
            // An error of the server for one of the commits must not affect the others.
            Err(CommitError::NotCommitted { full: false, .. }) if batch.units.len() > 1 => {
                for part in batch.parts() {
                    match self.commit_units(&part).await {
                        Ok(answers) => part.answer(answers),
                        Err(error) => part.refuse(&error),
                    }
                }
            }
            Err(error) => batch.refuse(&error),
        }
    }

    async fn commit_units(&mut self, batch: &Batch) -> Result<Vec<Committed>, CommitError> {
        match self.line.transact(&Work::Units(batch)).await? {
            Outcome::Units(answers, numbers) => {
                self.line.numbers = numbers;
                Ok(answers)
            }
            _ => Err(nothing()),
        }
    }
}

fn nothing() -> CommitError {
    CommitError::Stopped { message: "the writer sent no reply".to_owned() }
}

fn block(outcome: Outcome, size: u64) -> Result<Block, CommitError> {
    let message = format!("{size} more ids do not fit below the largest id");
    match outcome {
        Outcome::Block(Some(block)) => Ok(block),
        Outcome::Block(None) => Err(CommitError::NotCommitted { full: false, message }),
        _ => Err(nothing()),
    }
}

fn pruned(outcome: Outcome) -> Result<Pruned, CommitError> {
    match outcome {
        Outcome::Pruned(pruned) => Ok(pruned),
        _ => Err(nothing()),
    }
}
