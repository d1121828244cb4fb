//! Schedules.

use jobhall_protocol::{Page, Schedule, SetSchedule, Submitted, Tick};
use reqwest::Method;

use crate::error::ClientError;
use crate::http::call::Client;
use crate::server::Versioned;

impl Client {
    /// All schedules.
    ///
    /// # Errors
    /// The server could not be reached, or this token may not read.
    pub async fn schedules(&self) -> Result<Vec<Schedule>, ClientError> {
        self.whole_list("schedules").await
    }

    /// One schedule.
    ///
    /// # Errors
    /// The schedule does not exist, or the server could not be reached.
    pub async fn schedule(&self, name: &str) -> Result<Versioned<Schedule>, ClientError> {
        self.versioned(&self.api(Method::GET, &["schedules", name])).await
    }

    /// Creates or changes a schedule; missing fields are unchanged. With a version, only that version is changed.
    ///
    /// # Errors
    /// An argument is invalid, the version differs, or the server could not be reached.
    pub async fn set_schedule(
        &self,
        name: &str,
        given: &SetSchedule,
        version: Option<&str>,
    ) -> Result<Versioned<Schedule>, ClientError> {
        let call = self.api(Method::PUT, &["schedules", name]).json(given)?;
        let call = match version {
            Some(version) => call.header("if-match", version),
            None => call,
        };
        self.versioned(&call).await
    }

    /// Removes a schedule; its jobs remain.
    ///
    /// # Errors
    /// The schedule does not exist, or the server could not be reached.
    pub async fn remove_schedule(&self, name: &str) -> Result<(), ClientError> {
        self.send(&self.api(Method::DELETE, &["schedules", name])).await.map(drop)
    }

    /// Submits the job of a schedule now. With an idempotency key, a repeated request returns the same job.
    ///
    /// # Errors
    /// The schedule does not exist, or the server could not be reached.
    pub async fn run_schedule(&self, name: &str, key: Option<&str>) -> Result<Submitted, ClientError> {
        self.read(&self.api(Method::POST, &["schedules", name, "run"]).keyed(key)).await
    }

    /// The next ticks of a schedule.
    ///
    /// # Errors
    /// The schedule does not exist, the number is out of bounds, or the server could not be reached.
    pub async fn next_ticks(&self, name: &str, n: u64) -> Result<Vec<Tick>, ClientError> {
        let call = self.api(Method::GET, &["schedules", name, "ticks"]).query(&[("n", n.to_string())]);
        self.read::<Page<Tick>>(&call).await.map(|page| page.items)
    }
}
