//! One transaction, as often as it takes: an answer that was not heard is found out, not guessed.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use jobhall_store::{CommitError, Unit};

use super::{Outcome, Work, Writer, nothing};
use crate::apply::{Decided, believed};
use crate::options::{Fault, Point};
use crate::row::get;
use crate::trouble::{Trouble, damaged};
use crate::upkeep;
use crate::wire::{Step, Wire};

/// The longest that a transaction may take; the server ends a statement of it sooner.
const LATE: Duration = Duration::from_secs(70);
/// Pauses between tries to reach the database.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What became of a commit whose answer was not heard.
enum Fate {
    Committed,
    Never,
}

impl Writer {
    /// Does it, however often the connection breaks, as long as the desk is held.
    pub(super) async fn transact(&mut self, work: &Work<'_>) -> Result<Outcome, CommitError> {
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
            let rolled_back = wire.ask(Step::new(include_str!("../sql/rollback.sql"))).await;
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
    pub(super) async fn connected(&mut self) -> Result<ClientWrapper, CommitError> {
        let mut pause = FIRST_PAUSE;
        loop {
            if !self.term.stands() {
                return Err(CommitError::Stopped { message: self.term.why() });
            }
            if let Some(client) = self.client.take().filter(|client| !client.is_closed()) {
                return Ok(client);
            }
            match self.connector.connect_writer().await {
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
            let steps = if wire.prepares {
                self.opening().into_iter().chain(plan.steps).collect()
            } else {
                self.open(wire).await?;
                plan.steps
            };
            match self.close(wire, outcome, decided, steps).await {
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
        let fence = Step::new(include_str!("../sql/begin_commit.sql"));
        let fence = fence.with(self.epoch.cast_signed()).with(self.number + 1);
        [Step::new(include_str!("../sql/begin.sql")), fence]
    }

    async fn open(&self, wire: &Wire<'_>) -> Result<(), Trouble> {
        if wire.prepares {
            wire.send(&self.opening()).await?;
        } else {
            // Behind a pooler a session cannot be told to write nothing outside a transaction: so BEGIN is waited for.
            for step in self.opening() {
                wire.ask(step).await?;
            }
        }
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
        steps.push(Step::new(include_str!("../sql/commit.sql")));
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
        let mark = Step::new(include_str!("../sql/put_meta.sql")).with("voided").with(next);
        match self.open(&wire).await {
            Ok(()) => {
                wire.send(&[mark, Step::new(include_str!("../sql/commit.sql"))]).await?;
                Ok(Fate::Never)
            }
            Err(trouble) if trouble.is_numbered() => {
                wire.ask(Step::new(include_str!("../sql/rollback.sql"))).await?;
                let rows = wire.ask(Step::new(include_str!("../sql/meta.sql")).with("voided")).await?;
                let voided = rows.first().ok_or_else(|| damaged("meta", "voided is missing"))?;
                Ok(if get::<i64>(voided, 0)? == next { Fate::Never } else { Fate::Committed })
            }
            Err(trouble) => Err(trouble),
        }
    }
}

/// What a caller hears when the desk is lost on the way.
fn stopped_in(why: &str, sent: bool) -> CommitError {
    let message = why.to_owned();
    if sent { CommitError::Unknown { message } } else { CommitError::Stopped { message } }
}
