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

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use jobhall_store::{Block, BlockChange, CommitError, Committed, Prune, Pruned, Unit};
use tokio::sync::mpsc;

use crate::apply::{Decided, Numbers, believed};
use crate::call::{Call, Reply, rows};
use crate::connect::Connector;
use crate::desk::Term;
use crate::options::{Fault, Options, Point};
use crate::row::get;
use crate::trouble::{Trouble, damaged};
use crate::upkeep;
use crate::wire::{Step, Wire};

/// The longest that a transaction may take; the server ends a statement of it sooner.
const LATE: Duration = Duration::from_secs(70);
/// Pauses between tries to reach the database.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

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

/// What became of a commit whose answer was not heard.
enum Fate {
    Committed,
    Never,
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
        let client = connector.connect().await?;
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
                    let pruned = self.transact(&Work::Prune(&prune)).await;
                    drop(reply.send(pruned.and_then(pruned_of)));
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

    /// Does it, however often the connection breaks, as long as the desk is held.
    async fn transact(&mut self, work: &Work<'_>) -> Result<Outcome, CommitError> {
        loop {
            let client = self.connected().await?;
            let wire = self.connector.wire(&client);
            let mut decided = None;
            let attempt = tokio::time::timeout(LATE, self.attempt(&wire, work, &mut decided));
            let done = tokio::select! {
                done = attempt => done.unwrap_or(Err(Trouble::Late)),
                why = self.term.lost() => return Err(stopped_in(&why, decided.is_some())),
            };
            let Err(trouble) = done else {
                self.number += 1;
                self.client = Some(client);
                return decided.ok_or_else(nothing);
            };
            if trouble.is_fenced() {
                self.term.lose("another node has taken the desk");
                return Err(CommitError::Stopped { message: self.term.why() });
            }
            if trouble.is_broken() {
                drop(client);
                if let Some(outcome) = decided
                    && let Fate::Committed = self.fate(&trouble).await?
                {
                    return Ok(outcome);
                }
                continue;
            }
            let rolled_back = wire.ask(Step::new(include_str!("sql/rollback.sql"))).await;
            self.client = rolled_back.is_ok().then_some(client);
            if !trouble.is_passing() {
                return Err(self.give_up(&trouble));
            }
        }
    }

    fn give_up(&self, trouble: &Trouble) -> CommitError {
        let message = format!("database {}: {trouble}", self.connector.name());
        if trouble.is_damage() || trouble.is_numbered() {
            self.term.lose(&message);
            return CommitError::Stopped { message };
        }
        CommitError::NotCommitted { full: trouble.is_full(), message }
    }

    /// The connection, made anew if it broke, as long as the desk is held.
    async fn connected(&mut self) -> Result<ClientWrapper, CommitError> {
        let mut pause = FIRST_PAUSE;
        loop {
            if !self.term.stands() {
                return Err(CommitError::Stopped { message: self.term.why() });
            }
            if let Some(client) = self.client.take().filter(|client| !client.is_closed()) {
                return Ok(client);
            }
            match self.connector.connect().await {
                Ok(client) => return Ok(client),
                Err(trouble) => {
                    tracing::warn!("failed to reach the database: {trouble}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// One try. `decided` is set before COMMIT is sent.
    async fn attempt(
        &self,
        wire: &Wire<'_>,
        work: &Work<'_>,
        decided: &mut Option<Outcome>,
    ) -> Result<(), Trouble> {
        let outcome = match work {
            Work::Units(calls) => return self.apply(wire, calls, decided).await,
            Work::Block(size) => {
                self.open(wire).await?;
                Outcome::Block(upkeep::lend_block(wire, *size).await?)
            }
            Work::Settle(changes) => {
                self.open(wire).await?;
                upkeep::settle(wire, changes).await?;
                Outcome::Nothing
            }
            Work::Prune(prune) => {
                self.open(wire).await?;
                Outcome::Pruned(upkeep::remove(wire, prune).await?)
            }
        };
        self.close(wire, outcome, decided, Vec::new()).await
    }

    async fn apply(
        &self,
        wire: &Wire<'_>,
        calls: &[Vec<Unit>],
        decided: &mut Option<Outcome>,
    ) -> Result<(), Trouble> {
        if let Some(plan) = believed(calls, self.numbers)? {
            let outcome = Outcome::Units(plan.answers, plan.numbers);
            let opening = self.opening().into_iter().chain(plan.steps).collect();
            match self.close(wire, outcome, decided, opening).await {
                Err(trouble) if trouble.is_surprise() => *decided = None,
                done => return done,
            }
        }
        self.open(wire).await?;
        let read = Decided::read(wire, calls).await?;
        let plan = read.plan(calls, self.numbers)?;
        self.close(wire, Outcome::Units(plan.answers, plan.numbers), decided, plan.steps).await
    }

    fn opening(&self) -> [Step<'static>; 2] {
        let fence = Step::new(include_str!("sql/begin_commit.sql"));
        let fence = fence.with(self.epoch.cast_signed()).with(self.number + 1);
        [Step::new(include_str!("sql/begin.sql")), fence]
    }

    async fn open(&self, wire: &Wire<'_>) -> Result<(), Trouble> {
        wire.send(&self.opening()).await?;
        Ok(())
    }

    /// Sends the last steps with COMMIT behind them.
    async fn close<'a>(
        &self,
        wire: &Wire<'_>,
        outcome: Outcome,
        decided: &mut Option<Outcome>,
        mut steps: Vec<Step<'a>>,
    ) -> Result<(), Trouble> {
        *decided = Some(outcome);
        self.fault(Point::Begin)?;
        steps.push(Step::new(include_str!("sql/commit.sql")));
        wire.send(&steps).await?;
        self.fault(Point::Committed)
    }

    fn fault(&self, point: Point) -> Result<(), Trouble> {
        match self.options.fault(point) {
            Some(Fault::Break) => Err(Trouble::Late),
            Some(Fault::Skip) | None => Ok(()),
        }
    }

    /// Finds out what became of the commit under the next number, and sees to it that it stays so.
    async fn fate(&mut self, trouble: &Trouble) -> Result<Fate, CommitError> {
        tracing::warn!("the outcome of commit {} is unknown: {trouble}", self.number + 1);
        loop {
            let unknown = |error: CommitError| stopped_in(&error.to_string(), true);
            let client = self.connected().await.map_err(unknown)?;
            let settling = tokio::time::timeout(LATE, self.void(&client));
            let settled = tokio::select! {
                settled = settling => settled.unwrap_or(Err(Trouble::Late)),
                why = self.term.lost() => return Err(stopped_in(&why, true)),
            };
            match settled {
                Ok(fate) => {
                    self.number += 1;
                    self.client = Some(client);
                    return Ok(fate);
                }
                Err(trouble) if trouble.is_fenced() => {
                    self.term.lose("another node has taken the desk");
                    return Err(stopped_in(&self.term.why(), true));
                }
                Err(trouble) => {
                    tracing::warn!("failed to settle commit {}: {trouble}", self.number + 1);
                    tokio::time::sleep(FIRST_PAUSE).await;
                }
            }
        }
    }

    /// Sets the number of the next commit in its place. It waits for a commit that is still under way. A number that
    /// was set by an earlier try of this is told from one that the commit has set by what is voided.
    async fn void(&self, client: &ClientWrapper) -> Result<Fate, Trouble> {
        let wire = self.connector.wire(client);
        let next = self.number + 1;
        let [begin, fence] = self.opening();
        let mark = Step::new(include_str!("sql/put_meta.sql")).with("voided").with(next);
        let commit = Step::new(include_str!("sql/commit.sql"));
        match wire.send(&[begin, fence, mark, commit]).await {
            Ok(_) => Ok(Fate::Never),
            Err(trouble) if trouble.is_numbered() => {
                let rows = wire.ask(Step::new(include_str!("sql/meta.sql")).with("voided")).await?;
                let voided = rows.first().ok_or_else(|| damaged("meta", "voided is missing"))?;
                Ok(if get::<i64>(voided, 0)? == next { Fate::Never } else { Fate::Committed })
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Gives the desk back, so that the next node need not wait for the end of its term.
    async fn leave(&mut self) {
        if !self.term.stands() {
            return;
        }
        if let Ok(client) = self.connected().await {
            let step = Step::new(include_str!("sql/leave_desk.sql")).with(self.epoch.cast_signed());
            let left = tokio::time::timeout(self.options.term, self.connector.wire(&client).ask(step)).await;
            if let Err(trouble) = left.unwrap_or(Err(Trouble::Late)) {
                tracing::warn!("failed to give the desk back, it ends with its term: {trouble}");
            }
        }
        self.term.lose("the desk was given back");
    }
}

/// What a caller hears when the desk is lost on the way.
fn stopped_in(why: &str, sent: bool) -> CommitError {
    let message = why.to_owned();
    if sent { CommitError::Unknown { message } } else { CommitError::Stopped { message } }
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

fn pruned_of(outcome: Outcome) -> Result<Pruned, CommitError> {
    match outcome {
        Outcome::Pruned(pruned) => Ok(pruned),
        _ => Err(nothing()),
    }
}
