//! One transaction, retried until it succeeds. If a reply is lost, the outcome is read from the database, not
//! guessed.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use jobhall_store::CommitError;

use super::{Outcome, Work, nothing};
use crate::apply::{Decided, Numbers, believed};
use crate::connect::Connector;
use crate::connect::wire::{Step, Wire};
use crate::error::{PgError, damaged};
use crate::leadership::Term;
use crate::options::{Fault, Options, Point};
use crate::rows::row::get;
use crate::writer::call::Batch;
use crate::writer::upkeep;

/// Time limit for a transaction; the server aborts a statement earlier.
pub(super) const LATE: Duration = Duration::from_secs(70);
/// Pauses between attempts to reach the database.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The write connection and its counters.
pub(super) struct Line {
    pub(super) connector: Connector,
    pub(super) options: Options,
    pub(super) term: Arc<Term>,
    epoch: u64,
    pub(super) client: Option<Arc<ClientWrapper>>,
    /// The number of the last commit with a known outcome.
    pub(super) number: i64,
    /// The counters after that commit.
    pub(super) numbers: Numbers,
}

impl Line {
    pub(super) async fn begin(
        connector: Connector,
        options: Options,
        epoch: u64,
        term: Arc<Term>,
    ) -> Result<Line, PgError> {
        let client = Arc::new(connector.connect_writer().await?);
        let rows = connector.wire(&client).ask(Step::new(include_str!("../sql/standing.sql"))).await?;
        let found = rows.first().ok_or_else(|| damaged("meta", "it is missing"))?;
        let number = |column| get::<i64>(found, column);
        let numbers = Numbers { feed: number(0)?.cast_unsigned(), act: number(2)?.cast_unsigned() };
        let number = number(1)?;
        Ok(Line { connector, options, term, epoch, client: Some(client), number, numbers })
    }

    /// Executes a transaction, retried after broken connections as long as the leadership is held.
    pub(super) async fn transact(&mut self, work: &Work<'_>) -> Result<Outcome, CommitError> {
        loop {
            let client = self.connected().await?;
            let wire = self.connector.wire(&client);
            let mut decided = None;
            let attempt = tokio::time::timeout(LATE, self.attempt(&wire, work, &mut decided));
            let done = tokio::select! {
                done = attempt => done.unwrap_or(Err(PgError::Late)),
                why = self.term.lost() => return Err(stopped_in(&why, decided.is_some())),
            };
            let Err(trouble) = done else {
                self.number += 1;
                self.client = Some(client);
                return decided.ok_or_else(nothing);
            };
            if trouble.is_fenced() {
                self.term.lose("another node leads now");
                return Err(CommitError::Stopped { message: self.term.why() });
            }
            if trouble.is_broken() {
                drop(client);
                if let Some(outcome) = decided
                    && self.settle(&trouble, 1).await? == 1
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

    fn give_up(&self, trouble: &PgError) -> CommitError {
        let message = format!("database {}: {trouble}", self.connector.name());
        if trouble.is_damage() || trouble.is_numbered() {
            self.term.fail(&message);
            return CommitError::Stopped { message };
        }
        CommitError::NotCommitted { full: trouble.is_full(), message }
    }

    /// The connection, reopened if it broke, as long as the leadership is held.
    pub(super) async fn connected(&mut self) -> Result<Arc<ClientWrapper>, CommitError> {
        let mut pause = FIRST_PAUSE;
        loop {
            if !self.term.may_lead() {
                return Err(CommitError::Stopped { message: self.term.why() });
            }
            if let Some(client) = self.client.take().filter(|client| !client.is_closed()) {
                return Ok(client);
            }
            match self.connector.connect_writer().await {
                Ok(client) => return Ok(Arc::new(client)),
                Err(trouble) => {
                    tracing::warn!("failed to reach the database: {trouble}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// One attempt. `decided` is set before COMMIT is sent.
    async fn attempt(
        &self,
        wire: &Wire<'_>,
        work: &Work<'_>,
        decided: &mut Option<Outcome>,
    ) -> Result<(), PgError> {
        let outcome = match work {
            Work::Units(batch) => return self.apply(wire, batch, decided).await,
            Work::Block(size) => {
                self.open(wire, self.number + 1).await?;
                Outcome::Block(upkeep::lend_block(wire, *size).await?)
            }
            Work::Settle(changes) => {
                self.open(wire, self.number + 1).await?;
                upkeep::settle(wire, changes).await?;
                Outcome::Nothing
            }
            Work::Prune(prune) => {
                self.open(wire, self.number + 1).await?;
                Outcome::Pruned(upkeep::remove(wire, prune).await?)
            }
        };
        self.close(wire, outcome, decided, Vec::new()).await
    }

    async fn apply(
        &self,
        wire: &Wire<'_>,
        batch: &Batch,
        decided: &mut Option<Outcome>,
    ) -> Result<(), PgError> {
        let calls = &batch.units;
        if !batch.doubted
            && let Some(plan) = believed(calls, self.numbers)?
        {
            let outcome = Outcome::Units(plan.answers, plan.numbers);
            let steps = if wire.prepares {
                self.opening(self.number + 1).into_iter().chain(plan.steps).collect()
            } else {
                self.open(wire, self.number + 1).await?;
                plan.steps
            };
            match self.close(wire, outcome, decided, steps).await {
                Err(trouble) if trouble.is_surprise() => *decided = None,
                done => return done,
            }
        }
        self.open(wire, self.number + 1).await?;
        let read = Decided::read(wire, calls).await?;
        let plan = read.plan(calls, self.numbers)?;
        self.close(wire, Outcome::Units(plan.answers, plan.numbers), decided, plan.steps).await
    }

    /// Begins a transaction with this number.
    pub(super) fn opening(&self, number: i64) -> [Step; 2] {
        [Step::new(include_str!("../sql/begin.sql")), self.fence(number)]
    }

    fn fence(&self, number: i64) -> Step {
        let fence = Step::new(include_str!("../sql/begin_commit.sql"));
        fence.with(self.epoch.cast_signed()).with(number)
    }

    async fn open(&self, wire: &Wire<'_>, number: i64) -> Result<(), PgError> {
        if wire.prepares {
            wire.send(&self.opening(number)).await?;
        } else {
            // Behind a pooler the session cannot be made read-only by default, so the reply to BEGIN is awaited.
            for step in self.opening(number) {
                wire.ask(step).await?;
            }
        }
        Ok(())
    }

    /// Sends the last steps followed by COMMIT.
    async fn close(
        &self,
        wire: &Wire<'_>,
        outcome: Outcome,
        decided: &mut Option<Outcome>,
        mut steps: Vec<Step>,
    ) -> Result<(), PgError> {
        *decided = Some(outcome);
        self.fault(Point::Begin)?;
        steps.push(Step::new(include_str!("../sql/commit.sql")));
        wire.send(&steps).await?;
        self.fault(Point::Committed)
    }

    pub(super) fn fault(&self, point: Point) -> Result<(), PgError> {
        match self.options.fault(point) {
            Some(Fault::Break) => Err(PgError::Late),
            Some(Fault::Skip) | None => Ok(()),
        }
    }

    /// Determines how many of the commits sent with the next numbers succeeded, and prevents the others.
    pub(super) async fn settle(&mut self, trouble: &PgError, sent: usize) -> Result<usize, CommitError> {
        let through = self.number + i64::try_from(sent).unwrap_or(i64::MAX);
        tracing::warn!("the outcome of commit {} is unknown: {trouble}", self.number + 1);
        loop {
            let unknown = |error: CommitError| stopped_in(&error.to_string(), true);
            let client = self.connected().await.map_err(unknown)?;
            let voiding = tokio::time::timeout(LATE, self.void(&client, through));
            let voided = tokio::select! {
                voided = voiding => voided.unwrap_or(Err(PgError::Late)),
                why = self.term.lost() => return Err(stopped_in(&why, true)),
            };
            match voided {
                Ok(committed) => {
                    self.number = through;
                    self.client = Some(client);
                    return Ok(committed);
                }
                Err(trouble) if trouble.is_fenced() => {
                    self.term.lose("another node leads now");
                    return Err(stopped_in(&self.term.why(), true));
                }
                Err(trouble) => {
                    tracing::warn!("failed to settle commit {}: {trouble}", self.number + 1);
                    tokio::time::sleep(FIRST_PAUSE).await;
                }
            }
        }
    }

    /// Writes tombstones for the numbers up to this one that no commit has written; returns how many commits
    /// succeeded. It waits for a commit that is still running. The first tombstone is stored, which distinguishes
    /// numbers of an earlier call from those of commits.
    async fn void(&self, client: &ClientWrapper, through: i64) -> Result<usize, PgError> {
        let wire = self.connector.wire(client);
        let committed = |first: i64| usize::try_from(first - self.number - 1).unwrap_or(0);
        for first in self.number + 1..=through {
            match self.open(&wire, first).await {
                Ok(()) => {
                    let mut steps: Vec<Step> =
                        (first + 1..=through).map(|number| self.fence(number)).collect();
                    steps.push(Step::new(include_str!("../sql/put_meta.sql")).with("voided").with(first));
                    steps.push(Step::new(include_str!("../sql/commit.sql")));
                    wire.send(&steps).await?;
                    return Ok(committed(first));
                }
                Err(trouble) if trouble.is_numbered() => {
                    wire.ask(Step::new(include_str!("../sql/rollback.sql"))).await?;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        let rows = wire.ask(Step::new(include_str!("../sql/meta.sql")).with("voided")).await?;
        let voided = get::<i64>(rows.first().ok_or_else(|| damaged("meta", "voided is missing"))?, 0)?;
        let ours = (self.number + 1..=through).contains(&voided);
        Ok(committed(if ours { voided } else { through + 1 }))
    }

    /// Releases the leadership, so that the next node does not have to wait for the end of the term.
    pub(super) async fn leave(&mut self) {
        if !self.term.may_lead() {
            return;
        }
        if let Ok(client) = self.connected().await {
            let steps = [
                Step::new(include_str!("../sql/begin.sql")),
                Step::new(include_str!("../sql/leave_leadership.sql")).with(self.epoch.cast_signed()),
                Step::new(include_str!("../sql/commit.sql")),
            ];
            let wire = self.connector.wire(&client);
            let left = tokio::time::timeout(self.options.term, wire.send(&steps)).await;
            if let Err(trouble) = left.unwrap_or(Err(PgError::Late)) {
                tracing::warn!("failed to give the leadership back, it ends with its term: {trouble}");
            }
        }
        self.term.lose("the leadership was given back");
    }
}

/// The error for a caller when the leadership is lost during its call.
pub(super) fn stopped_in(why: &str, sent: bool) -> CommitError {
    let message = why.to_owned();
    if sent { CommitError::Unknown { message } } else { CommitError::Stopped { message } }
}
