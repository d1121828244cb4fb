//! Pipelined commits: a commit is sent before the previous one is answered, so that the server continues without
//! waiting for this node to receive, decide and write.
//!
//! A pipelined commit names the number of the commit before it. If that commit fails, for whatever reason, the
//! later ones fail too, and all of them are repeated in order.

use std::collections::VecDeque;
use std::mem;
use std::pin::Pin;

use futures_util::FutureExt;
use jobhall_store::{CommitError, Committed};
use tokio::time::timeout;

use super::Writer;
use super::transaction::{LATE, stopped_in};
use crate::apply::{Numbers, believed};
use crate::connect::wire::{Step, Wire};
use crate::error::PgError;
use crate::leadership::Term;
use crate::options::Point;
use crate::writer::call::{Batch, Call};

/// Maximum number of sent commits: one that the server executes, and one that it executes next.
pub(super) const AHEAD: usize = 2;

/// The pending reply of the server.
type Done = Pin<Box<dyn Future<Output = Result<(), PgError>> + Send>>;

/// A commit sent to the server.
pub(super) struct Sent {
    batch: Batch,
    /// The replies to the callers once it is committed.
    answers: Vec<Committed>,
    /// The counters after this commit.
    numbers: Numbers,
    done: Done,
}

/// Waits for the reply to the first commit; an error with the reason if the leadership is lost before.
pub(super) async fn answered(sent: &mut VecDeque<Sent>, term: &Term) -> Result<Result<(), PgError>, String> {
    let Some(first) = sent.front_mut() else { return std::future::pending().await };
    tokio::select! {
        done = timeout(LATE, first.done.as_mut()) => Ok(done.unwrap_or(Err(PgError::Late))),
        why = term.lost() => Err(why),
    }
}

/// The result of a future, unless it takes too long or the leadership is lost.
async fn in_time<T>(doing: impl Future<Output = T>, term: &Term) -> Option<T> {
    tokio::select! {
        done = timeout(LATE, doing) => done.ok(),
        _ = term.lost() => None,
    }
}

impl Writer {
    /// Sends a batch after the sent ones, or returns it if it must run alone.
    pub(super) async fn send(&mut self, batch: Batch) -> Result<(), Batch> {
        let client = self.line.client.clone().filter(|client| !client.is_closed());
        let (Some(client), true, false) = (client, self.line.connector.prepares, batch.doubted) else {
            return Err(batch);
        };
        let last = self.sent.back().map_or(self.line.numbers, |last| last.numbers);
        // Its error is reported when it is run alone.
        let Ok(Some(plan)) = believed(&batch.units, last) else { return Err(batch) };
        let ahead = i64::try_from(self.sent.len()).unwrap_or(i64::MAX);
        let mut steps = Vec::with_capacity(plan.steps.len() + 3);
        steps.extend(self.line.opening(self.line.number + ahead + 1));
        steps.extend(plan.steps);
        steps.push(Step::new(include_str!("../sql/commit.sql")));
        let wire = self.line.connector.wire(&client);
        let Some(Ok(ready)) = in_time(wire.prepare(&steps), &self.line.term).await else { return Err(batch) };
        let fault = self.line.fault(Point::Begin);
        let mut done: Done = Box::pin(async move {
            fault?;
            Wire { client: &client, prepares: true }.send_prepared(&steps, &ready).await.map(|_| ())
        });
        // Now it is sent, after the others.
        let done = match done.as_mut().now_or_never() {
            Some(done) => Box::pin(std::future::ready(done)),
            None => done,
        };
        self.sent.push_back(Sent { batch, answers: plan.answers, numbers: plan.numbers, done });
        Ok(())
    }

    /// Waits for the reply to the first commit.
    pub(super) async fn land(&mut self) {
        let done = answered(&mut self.sent, &self.line.term).await;
        self.landed(done).await;
    }

    /// Handles the result of the first commit.
    pub(super) async fn landed(&mut self, done: Result<Result<(), PgError>, String>) {
        match done.map(|done| done.and_then(|()| self.line.fault(Point::Committed))) {
            Ok(Ok(())) => {
                self.line.number += 1;
                self.committed(1);
            }
            Ok(Err(trouble)) => self.failed(&trouble).await,
            Err(why) => self.give_all_up(&stopped_in(&why, true)),
        }
    }

    /// The first `count` commits succeeded.
    fn committed(&mut self, count: usize) {
        for Sent { batch, answers, numbers, .. } in self.sent.drain(..count) {
            self.line.numbers = numbers;
            batch.answer(answers);
        }
    }

    /// The first commit failed, or its outcome is unknown.
    async fn failed(&mut self, trouble: &PgError) {
        if trouble.is_fenced() {
            self.line.term.lose("another node leads now");
            return self.give_all_up(&CommitError::Stopped { message: self.line.term.why() });
        }
        if trouble.is_broken() {
            self.line.client = None;
            match self.line.settle(trouble, self.sent.len()).await {
                Ok(count) => self.committed(count),
                Err(error) => return self.give_all_up(&error),
            }
        } else {
            self.roll_back().await;
            if let Some(first) = self.sent.front_mut() {
                first.batch.doubted = true;
            }
        }
        for Sent { batch, .. } in mem::take(&mut self.sent).into_iter().rev() {
            self.waiting.push_front(Call::Commit(batch));
        }
    }

    /// Waits until the later commits have failed, and leaves the connection without a transaction.
    async fn roll_back(&mut self) {
        let Some(client) = self.line.client.take() else { return };
        let rolling_back = async {
            for behind in self.sent.iter_mut().skip(1) {
                drop(behind.done.as_mut().await);
            }
            self.line.connector.wire(&client).ask(Step::new(include_str!("../sql/rollback.sql"))).await
        };
        let rolled_back = in_time(rolling_back, &self.line.term).await;
        self.line.client = matches!(rolled_back, Some(Ok(_))).then_some(client);
    }

    fn give_all_up(&mut self, error: &CommitError) {
        for Sent { batch, .. } in self.sent.drain(..) {
            batch.refuse(error);
        }
    }
}
