//! Calls that the process of a job makes for sub-jobs, and reports about external work.

use std::time::Duration;

use jobhall_protocol::{AskSubQuery, Called, Job, OutcomeReport, SubJob, SubQuery, Wait, Waited};
use reqwest::{Method, StatusCode};

use crate::artifacts::segment;
use crate::error::ClientError;
use crate::http::call::{Client, parse};

/// A waiting request is answered within this time, regardless of the time it requested.
const WAIT: Duration = Duration::from_secs(90);

impl Client {
    /// Submits a sub-job from inside a job. The same name always refers to the same job, so the call may be repeated.
    ///
    /// # Errors
    /// The server refused it or could not be reached.
    pub async fn call(&self, attempt: &str, job: &SubJob) -> Result<Called, ClientError> {
        self.read(&self.api(Method::POST, &["attempts", attempt, "jobs"]).json(job)?.repeatable()).await
    }

    /// Submits several sub-jobs, all or nothing.
    ///
    /// # Errors
    /// The server refused them or could not be reached.
    pub async fn call_many(&self, attempt: &str, jobs: &[SubJob]) -> Result<Vec<Called>, ClientError> {
        self.read(&self.api(Method::POST, &["attempts", attempt, "jobs"]).json(&jobs)?.repeatable()).await
    }

    /// Waits for sub-jobs from inside a job; none if they have not ended within the given time.
    ///
    /// # Errors
    /// The server refused it or could not be reached.
    pub async fn wait_for(&self, attempt: &str, wait: &Wait) -> Result<Option<Waited>, ClientError> {
        let call = self.api(Method::POST, &["attempts", attempt, "wait"]).json(wait)?.repeatable();
        let response = self.send(&call.within(Some(WAIT))).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        parse(&self.body(response).await?).map(Some)
    }

    /// Asks for a query from inside a step of another one. A pending one is waited for as a sub-job. `here` are the
    /// commands that this process can run itself, each as `NAME@VERSION`.
    ///
    /// # Errors
    /// The query is wrong or was refused, or the server could not be reached.
    pub async fn ask_within(
        &self,
        attempt: &str,
        text: &str,
        here: &[String],
    ) -> Result<SubQuery, ClientError> {
        let asked = AskSubQuery { query: text.to_owned(), here: here.to_vec() };
        let call = self.api(Method::POST, &["attempts", attempt, "queries"]).json(&asked)?;
        self.read(&call.repeatable()).await
    }

    /// The answer to a query that a step has asked for, by the job that was to make its value.
    ///
    /// # Errors
    /// A step of it failed, it was not asked for, or the server could not be reached.
    pub async fn asked_within(&self, attempt: &str, job: u64) -> Result<SubQuery, ClientError> {
        let segments = ["attempts", attempt, "queries", &job.to_string()];
        self.read(&self.api(Method::GET, &segments).repeatable()).await
    }

    /// Reports the outcome of external work that a worker has started, by type and key.
    ///
    /// # Errors
    /// The job does not exist, another outcome was reported, or the server could not be reached.
    pub async fn complete(
        &self,
        job_type: &str,
        key: &str,
        attempt: Option<u32>,
        report: &OutcomeReport,
    ) -> Result<Job, ClientError> {
        let query: Vec<_> = attempt.map(|attempt| ("attempt", attempt.to_string())).into_iter().collect();
        let call = self.api(Method::PUT, &["outcomes", job_type, &segment(key)]).query(&query);
        self.read(&call.json(report)?.repeatable()).await
    }
}
