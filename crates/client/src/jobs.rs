//! Submits, reads and ends jobs.

pub(crate) mod cache;
pub(crate) mod queries;
pub(crate) mod recipes;

use std::collections::VecDeque;

use jobhall_protocol::{
    self as wire, Cancel, EditJob, Explanation, Job, Page, SubmitJob, Submitted, Timestamp,
};
use reqwest::Method;
use serde_json::value::RawValue;

use crate::error::ClientError;
use crate::http::call::{Call, Client};

/// The filter of a list; a field that is empty or none does not restrict it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In one of these states.
    pub states: Vec<String>,
    /// Of this type.
    pub job_type: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// In this queue.
    pub queue: Option<String>,
    /// Of this group.
    pub group: Option<u64>,
    /// Of this owner.
    pub owner: Option<String>,
    /// With this tag.
    pub tag: Option<String>,
    /// With this text in type, key, params or error.
    pub q: Option<String>,
    /// Submitted at this time or later.
    pub created_after: Option<Timestamp>,
    /// Submitted before this time.
    pub created_before: Option<Timestamp>,
    /// The page size; the server's default if none.
    pub limit: Option<u32>,
}

impl JobFilter {
    /// The filter in its wire form, without the page size.
    #[must_use]
    pub fn wire(&self) -> wire::JobFilter {
        let filter = self.clone();
        wire::JobFilter {
            state: (!filter.states.is_empty()).then(|| filter.states.join(",")),
            job_type: filter.job_type,
            key: filter.key,
            queue: filter.queue,
            group: filter.group,
            owner: filter.owner,
            tag: filter.tag,
            q: filter.q,
            created_after: filter.created_after,
            created_before: filter.created_before,
        }
    }

    fn pairs(&self, cursor: Option<&str>) -> Vec<(&'static str, String)> {
        let wire = self.wire();
        let limit = self.limit.map(|limit| limit.to_string());
        let given = [
            ("state", wire.state),
            ("type", wire.job_type),
            ("key", wire.key),
            ("queue", wire.queue),
            ("group", wire.group.map(|group| group.to_string())),
            ("owner", wire.owner),
            ("tag", wire.tag),
            ("q", wire.q),
            ("created_after", wire.created_after.map(|at| at.to_string())),
            ("created_before", wire.created_before.map(|at| at.to_string())),
            ("limit", limit),
            ("cursor", cursor.map(str::to_owned)),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Jobs that match a filter, over all pages.
#[derive(Debug)]
pub struct Jobs {
    client: Client,
    filter: JobFilter,
    here: VecDeque<Job>,
    next: Next,
}

#[derive(Debug)]
enum Next {
    First,
    Cursor(String),
    Nothing,
}

impl Jobs {
    /// The next job, or none after the last.
    ///
    /// # Errors
    /// A page could not be read.
    pub async fn next(&mut self) -> Result<Option<Job>, ClientError> {
        while self.here.is_empty() {
            let page = match &self.next {
                Next::First => self.client.jobs(&self.filter, None).await?,
                Next::Cursor(cursor) => self.client.jobs(&self.filter, Some(cursor)).await?,
                Next::Nothing => return Ok(None),
            };
            self.next = page.next_cursor.map_or(Next::Nothing, Next::Cursor);
            self.here = page.items.into();
        }
        Ok(self.here.pop_front())
    }
}

impl Client {
    /// Submits one job. With an idempotency key it is repeated when no reply arrives; without one it is not.
    ///
    /// # Errors
    /// The server refused it or could not be reached.
    pub async fn submit(&self, job: &SubmitJob, key: Option<&str>) -> Result<Submitted, ClientError> {
        // As an array of one: only that reply contains the disposition.
        let submitted = self.submit_many(std::slice::from_ref(job), key).await?;
        submitted.into_iter().next().ok_or_else(|| ClientError::Protocol("no reply for a job".to_owned()))
    }

    /// Submits many jobs, all or nothing.
    ///
    /// # Errors
    /// The server refused them or could not be reached.
    pub async fn submit_many(
        &self,
        jobs: &[SubmitJob],
        key: Option<&str>,
    ) -> Result<Vec<Submitted>, ClientError> {
        let answers: Vec<Submitted> = self.read(&self.submission(key).json(&jobs)?).await?;
        if answers.len() == jobs.len() {
            return Ok(answers);
        }
        Err(ClientError::Protocol(format!("{} answers to {} jobs", answers.len(), jobs.len())))
    }

    fn submission(&self, key: Option<&str>) -> Call {
        self.api(Method::POST, &["jobs"]).keyed(key)
    }

    /// One job with its attempts.
    ///
    /// # Errors
    /// The job does not exist, or the server could not be reached.
    pub async fn job(&self, id: u64) -> Result<Job, ClientError> {
        self.read(&self.of_job(Method::GET, id, None)).await
    }

    /// A page of jobs.
    ///
    /// # Errors
    /// The filter is invalid, or the server could not be reached.
    pub async fn jobs(&self, filter: &JobFilter, cursor: Option<&str>) -> Result<Page<Job>, ClientError> {
        self.read(&self.api(Method::GET, &["jobs"]).query(&filter.pairs(cursor))).await
    }

    /// All jobs that match a filter.
    #[must_use]
    pub fn all_jobs(&self, filter: JobFilter) -> Jobs {
        Jobs { client: self.clone(), filter, here: VecDeque::new(), next: Next::First }
    }

    /// Cancels a job and returns it. Idempotent.
    ///
    /// # Errors
    /// The job has already ended, or the server could not be reached.
    pub async fn cancel(&self, id: u64, why: &Cancel) -> Result<Job, ClientError> {
        self.read(&self.of_job(Method::POST, id, Some("cancel")).json(why)?.repeatable()).await
    }

    /// Creates a new job like an ended one, and returns it. With an idempotency key, a repeated request returns the same
    /// job.
    ///
    /// # Errors
    /// The job has not ended, or the server could not be reached.
    pub async fn retry(&self, id: u64, key: Option<&str>) -> Result<Job, ClientError> {
        self.read(&self.of_job(Method::POST, id, Some("retry")).keyed(key)).await
    }

    /// Changes a job that is not assigned to a worker, and returns it.
    ///
    /// # Errors
    /// A worker has the job, it has ended, the change is invalid, or the server could not be reached.
    pub async fn edit(&self, id: u64, edit: &EditJob) -> Result<Job, ClientError> {
        self.read(&self.of_job(Method::PATCH, id, None).json(edit)?.repeatable()).await
    }

    /// Holds a job, so that it is not assigned to a worker. Idempotent.
    ///
    /// # Errors
    /// The job has ended, or the server could not be reached.
    pub async fn hold(&self, id: u64) -> Result<Job, ClientError> {
        self.read(&self.of_job(Method::POST, id, Some("hold")).repeatable()).await
    }

    /// Releases a held job. Idempotent.
    ///
    /// # Errors
    /// The job has ended, or the server could not be reached.
    pub async fn release(&self, id: u64) -> Result<Job, ClientError> {
        self.read(&self.of_job(Method::POST, id, Some("release")).repeatable()).await
    }

    /// Makes a job run immediately, regardless of its start time, backoff and windows.
    ///
    /// # Errors
    /// A worker has the job, it has ended, or the server could not be reached.
    pub async fn run_now(&self, id: u64) -> Result<Job, ClientError> {
        self.read(&self.of_job(Method::POST, id, Some("run_now"))).await
    }

    /// Why a job is not running.
    ///
    /// # Errors
    /// The job does not exist, or the server could not be reached.
    pub async fn explain(&self, id: u64) -> Result<Explanation, ClientError> {
        self.read(&self.of_job(Method::GET, id, Some("explain"))).await
    }

    /// The result of a job that succeeded.
    ///
    /// # Errors
    /// The job has no result, or the server could not be reached.
    pub async fn result(&self, id: u64) -> Result<Box<RawValue>, ClientError> {
        self.read(&self.of_job(Method::GET, id, Some("result"))).await
    }

    pub(crate) fn of_job(&self, method: Method, id: u64, verb: Option<&str>) -> Call {
        let id = id.to_string();
        let segments: Vec<&str> = ["jobs", &id].into_iter().chain(verb).collect();
        self.api(method, &segments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_says_only_what_narrows() {
        assert!(JobFilter::default().pairs(None).is_empty());
        let filter = JobFilter {
            states: vec!["queued".to_owned(), "running".to_owned()],
            limit: Some(50),
            ..JobFilter::default()
        };
        let pairs = filter.pairs(Some("c"));
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(pairs, [("state", "queued,running"), ("limit", "50"), ("cursor", "c")]);
    }
}
