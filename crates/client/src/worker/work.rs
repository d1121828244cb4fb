//! The worker's side: vacancies, and reports about attempts under their leases.

use std::time::Duration;

use bytes::Bytes;
use jobhall_protocol::{
    Assignments, LEASE_HEADER, LogPosition, LogStream, Moved, OutcomeReport, Progress, Renewals, Renewed,
    Vacancy,
};
use reqwest::{Method, StatusCode};

use crate::error::ClientError;
use crate::http::call::{Call, Client, parse};

/// Time limit of a poll beyond its own wait.
const MARGIN_S: u64 = 15;

/// Work is stopped this long before its lease expires.
const BEFORE_THE_END: Duration = Duration::from_secs(5);

/// How long work may continue under a lease, counted from when its last renewal was sent: the work is stopped before
/// the server can assign it to another worker.
#[must_use]
pub fn safe_part(lease: Duration) -> Duration {
    lease - BEFORE_THE_END.min(lease / 2)
}

/// An attempt and its lease, which authorizes messages about it.
#[derive(Clone, Copy, Debug)]
pub struct AttemptRef<'a> {
    /// `{job}-{claim}`.
    pub attempt: &'a str,
    /// 32 hex digits.
    pub lease: &'a str,
}

impl Client {
    /// Waits for jobs; empty when the time is over. Not repeated: each poll is a new request.
    ///
    /// # Errors
    /// The server refused it or could not be reached.
    pub async fn vacancies(&self, vacancy: &Vacancy) -> Result<Assignments, ClientError> {
        let within = Duration::from_secs(vacancy.wait_s.saturating_add(MARGIN_S));
        let call = self.api(Method::POST, &["vacancies"]).json(vacancy)?.within(Some(within));
        let response = self.send(&call).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(Assignments { attempts: Vec::new() });
        }
        parse(&self.body(response).await?)
    }

    /// Accepts an assigned attempt.
    ///
    /// # Errors
    /// The lease is lost, or the server could not be reached.
    pub async fn accept(&self, lease: AttemptRef<'_>) -> Result<Moved, ClientError> {
        self.read(&self.of_attempt(lease, "accept").repeatable()).await
    }

    /// Reports that the work of an attempt begins, which implies the accept. The server answers a repeated report like
    /// the first, so it is repeated when no reply arrives.
    ///
    /// # Errors
    /// The lease is lost, or the server could not be reached.
    pub async fn start(&self, lease: AttemptRef<'_>) -> Result<Moved, ClientError> {
        self.read(&self.of_attempt(lease, "progress").json(&Progress::default())?.repeatable()).await
    }

    /// Reports the progress of an attempt.
    ///
    /// # Errors
    /// The lease is lost, or the server could not be reached.
    pub async fn progress(&self, lease: AttemptRef<'_>, progress: &Progress) -> Result<Moved, ClientError> {
        self.read(&self.of_attempt(lease, "progress").json(progress)?).await
    }

    /// Appends to the log at `offset`. Because of the offset, a chunk may be repeated. A note ([`LogStream::Note`]) is one
    /// line of JSON that ends with a line feed; notes have offsets of their own.
    ///
    /// # Errors
    /// The lease is lost, the chunk does not fit the existing log, or the server could not be reached.
    pub async fn append_log(
        &self,
        lease: AttemptRef<'_>,
        stream: LogStream,
        offset: u64,
        bytes: Bytes,
    ) -> Result<LogPosition, ClientError> {
        let place = [("offset", offset.to_string()), ("stream", stream.as_str().to_owned())];
        let call = self.of_attempt(lease, "log").query(&place).bytes(bytes, "application/octet-stream");
        self.read(&call.repeatable()).await
    }

    /// Reports the outcome of an attempt. The server answers a repeated report like the first, so it is repeated when
    /// no reply arrives.
    ///
    /// # Errors
    /// The lease is lost, or the server could not be reached.
    pub async fn outcome(&self, lease: AttemptRef<'_>, report: &OutcomeReport) -> Result<Moved, ClientError> {
        self.read(&self.of_attempt(lease, "outcome").json(report)?.repeatable()).await
    }

    /// Renews leases.
    ///
    /// # Errors
    /// The server could not be reached.
    pub async fn renew(&self, renewals: &Renewals) -> Result<Renewed, ClientError> {
        let call = self.api(Method::POST, &["renewals"]).json(renewals)?;
        self.read(&call.within(Some(Duration::from_secs(10))).repeatable()).await
    }

    fn of_attempt(&self, lease: AttemptRef<'_>, verb: &str) -> Call {
        self.api(Method::POST, &["attempts", lease.attempt, verb]).header(LEASE_HEADER, lease.lease)
    }
}
