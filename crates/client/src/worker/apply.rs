//! A worker implemented as a function: it takes one job and runs while the lease is valid; the function's result is
//! the outcome of the attempt.

use std::any::Any;
use std::error::Error;
use std::time::Duration;

use jobhall_protocol::{
    Assigned, Code, EXPLANATION_BYTES, Failure, Outcome, OutcomeReport, Renewals, RenewedAttempt, Vacancy,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::ClientError;
use crate::http::call::Client;
use crate::worker::work::{AttemptRef, safe_part};

/// The result of one call of [`Client::apply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// No job was assigned while the poll waited.
    Idle,
    /// A job was executed, and its outcome was reported.
    Ended {
        /// `{job}-{claim}`.
        attempt: String,
        /// The reported outcome.
        outcome: Outcome,
        /// The state of the job afterwards.
        state: String,
    },
    /// The lease was lost or could not be renewed: the function was stopped, and nothing was reported.
    Lost {
        /// `{job}-{claim}`.
        attempt: String,
    },
}

/// Why the function is stopped.
enum Stop {
    Cancelled,
    Lost,
}

impl Client {
    /// Waits for one job that matches the vacancy and runs the function on it, regardless of the number of slots.
    ///
    /// The return value of the function is the result of the job. An error fails the attempt with its message and
    /// those of its sources, and so does a panic. The function runs as a separate task: it may take any time, and its
    /// lease is renewed meanwhile. The task is dropped at its next await point when a renewal reports a cancel, when
    /// the lease is lost, or when this future is dropped.
    ///
    /// ```no_run
    /// # async fn work() -> Result<(), Box<dyn std::error::Error>> {
    /// # use jobhall_client::Client;
    /// # use jobhall_protocol::Vacancy;
    /// let client = Client::new("http://127.0.0.1:7450", Some("jh_…"))?;
    /// let (abilities, accepts) = ("os=linux".to_owned(), "type=add".to_owned());
    /// let vacancy = Vacancy { abilities, accepts, ..Vacancy::default() };
    /// loop {
    ///     let applied = client.apply(&vacancy, |given| async move {
    ///         let terms: Vec<i64> = serde_json::from_str(given.job.params.get())?;
    ///         Ok::<i64, serde_json::Error>(terms.iter().sum())
    ///     });
    ///     println!("{:?}", applied.await?);
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The server refused a message or could not be reached. An attempt that was started is retried when its lease
    /// expires.
    pub async fn apply<F, W, V, E>(&self, vacancy: &Vacancy, work: F) -> Result<Applied, ClientError>
    where
        F: FnOnce(Assigned) -> W + Send + 'static,
        W: Future<Output = Result<V, E>> + Send,
        V: Serialize + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        let vacancy = Vacancy { slots: 1, ..vacancy.clone() };
        let Some(given) = self.vacancies(&vacancy).await?.attempts.pop() else {
            return Ok(Applied::Idle);
        };
        let held = RenewedAttempt { id: given.id.clone(), lease: given.lease.clone() };
        let (term, external) = (Duration::from_millis(given.lease_ms), given.job.external);
        let since = Instant::now();
        // The start of the function implies the accept.
        if let Err(error) = self.start(lease(&held)).await {
            return lost_or(error, held);
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { work(given).await.map_err(Into::into) });
        let report = tokio::select! {
            Some(ended) = tasks.join_next() => report(ended, external),
            stop = self.keep(&held, term, since) => {
                tasks.shutdown().await;
                match stop {
                    Stop::Cancelled => ended(Outcome::Cancelled, None, None),
                    Stop::Lost => return Ok(Applied::Lost { attempt: held.id }),
                }
            }
        };
        self.tell(held, report).await
    }

    /// Renews the lease as long as possible; returns why it ended.
    async fn keep(&self, held: &RenewedAttempt, term: Duration, mut since: Instant) -> Stop {
        let renewals = Renewals { attempts: vec![held.clone()] };
        let mut next = since + term / 3;
        loop {
            let stop = since + safe_part(term);
            sleep_until(next.min(stop)).await;
            let asked = Instant::now();
            match timeout_at(stop, self.renew(&renewals)).await {
                Ok(Ok(renewed)) if renewed.cancel.contains(&held.id) => return Stop::Cancelled,
                Ok(Ok(renewed)) if renewed.kept.contains(&held.id) => since = asked,
                Ok(Err(error)) if error.is_transient() => {}
                Ok(_) | Err(_) => return Stop::Lost,
            }
            next = asked + term / 3;
        }
    }

    /// Reports an outcome. A result that the server refuses becomes a failure with the reason.
    async fn tell(&self, held: RenewedAttempt, report: OutcomeReport) -> Result<Applied, ClientError> {
        let (outcome, moved) = match self.outcome(lease(&held), &report).await {
            Err(ClientError::Problem(problem))
                if report.value.is_some() && matches!(problem.code, Code::BadRequest | Code::TooLarge) =>
            {
                let refused = failed("result", &problem.detail);
                (refused.outcome, self.outcome(lease(&held), &refused).await)
            }
            moved => (report.outcome, moved),
        };
        match moved {
            Ok(moved) => Ok(Applied::Ended { attempt: held.id, outcome, state: moved.state }),
            Err(error) => lost_or(error, held),
        }
    }
}

fn lease(held: &RenewedAttempt) -> AttemptRef<'_> {
    AttemptRef { attempt: &held.id, lease: &held.lease }
}

fn lost_or(error: ClientError, held: RenewedAttempt) -> Result<Applied, ClientError> {
    match error.code() {
        Some(Code::LeaseLost) => Ok(Applied::Lost { attempt: held.id }),
        _ => Err(error),
    }
}

fn report<V: Serialize>(
    ended_as: Result<Result<V, Box<dyn Error + Send + Sync>>, JoinError>,
    external: bool,
) -> OutcomeReport {
    match ended_as {
        Ok(Ok(_)) if external => ended(Outcome::Started, None, None),
        Ok(Ok(value)) => match to_raw_value(&value) {
            Ok(value) => ended(Outcome::Succeeded, Some(value), None),
            Err(error) => failed("result", &error.to_string()),
        },
        Ok(Err(error)) => failed("error", &with_sources(error.as_ref())),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => failed("panic", words(panic.as_ref())),
            Err(error) => failed("error", &error.to_string()),
        },
    }
}

fn failed(reason: &str, message: &str) -> OutcomeReport {
    let message = message.replace('\0', "\u{fffd}");
    let explanation = message[..message.floor_char_boundary(EXPLANATION_BYTES)].to_owned();
    ended(Outcome::Failed, None, Some(Failure { reason: reason.to_owned(), explanation, data: None }))
}

fn ended(outcome: Outcome, value: Option<Box<RawValue>>, error: Option<Failure>) -> OutcomeReport {
    OutcomeReport { outcome, value, error, retry: None, params: None }
}

/// The message of an error and those of its sources.
fn with_sources(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        message.push_str(": ");
        message.push_str(&error.to_string());
        source = error.source();
    }
    message
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}
