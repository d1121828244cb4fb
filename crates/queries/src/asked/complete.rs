//! The end of an attempt: what it asked for is stored with its value, and the failure of a query that it asked for with
//! its own.

use jobhall_core::query::{AskedQueries, StoredValue};
use jobhall_core::{Failure, Job, JobId, Json, Report, State};
use jobhall_engine::{AttemptRef, Rejected};
use serde::{Deserialize, Serialize};

use crate::cache::expires_at;
use crate::promise::params;
use crate::{Error, Queries};

/// The reasons of a process that ended as `jobhall query` did, whose query had failed.
const HANDED_ON: [&str; 4] = ["exit_100", "exit_101", "exit_102", "exit_103"];

/// What a value depends on besides its identity.
struct Depends {
    asked: AskedQueries,
    /// The last epoch in which all of it was right.
    since: u64,
}

impl Depends {
    fn on(self, asked: &AskedQueries, since: u64) -> Depends {
        Depends { asked: self.asked.and(asked), since: self.since.min(since) }
    }
}

impl Queries {
    /// The outcome of an attempt as it is stored: that of a step of a query says what the step and its inputs asked for.
    /// Other outcomes are as they were.
    ///
    /// # Errors
    /// What it asked for cannot be read.
    pub async fn complete(&self, of: &AttemptRef, report: Report) -> Result<Report, Error> {
        match &report {
            Report::Succeeded(value) | Report::Skipped(value) => {
                let Some(value) = StoredValue::parse(value.as_str()) else { return Ok(report) };
                let Some((job, depends)) = self.depends(of).await? else { return Ok(report) };
                if !depends.asked.is_empty() {
                    self.0.fresh.note(job, depends.since);
                }
                let value = serde_json::to_string(&value.asking(depends.asked));
                let value = Json::value(&value.map_err(crate::job::damaged)?);
                let value = value.map_err(|error| Error::Refused(error.to_string()))?;
                Ok(match report {
                    Report::Skipped(_) => Report::Skipped(value),
                    _ => Report::Succeeded(value),
                })
            }
            Report::Failed(failure, verdict) => {
                let handed_on = failure.data.is_none() && HANDED_ON.contains(&failure.reason.as_str());
                let cause = if handed_on { self.0.asks.failed(of.attempt).await } else { None };
                let failure = cause.map(|cause| failed_by(failure, cause));
                Ok(failure.map_or(report.clone(), |failure| Report::Failed(failure, verdict.clone())))
            }
            _ => Ok(report),
        }
    }

    /// What the value of an attempt depends on; none if it is not a step of a query, or not held.
    async fn depends(&self, of: &AttemptRef) -> Result<Option<(JobId, Depends)>, Error> {
        let job = match self.0.promises.shared.job(of.attempt.job).await {
            Ok(job) => job,
            Err(Error::NoSuchPromise(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let held = job.status.state.leased().filter(|held| held.lease.id == of.lease);
        let Some(leased) = held else { return Ok(None) };
        let mut depends = Depends { asked: AskedQueries::default(), since: u64::MAX };
        if let Some(by) = self.0.asks.asked_by(of.attempt, leased.lease.assigned_at).await? {
            depends = depends.on(&by.asked, by.since);
            for ended in self.shown(&by.jobs).await? {
                depends = match ended.as_ref().map(|job| (job.id, &job.status.state)) {
                    // Nothing tells when it expires, so what is made of it is not right in any epoch.
                    Some((_, State::Succeeded(_))) if ended.as_ref().and_then(expires_at).is_some() => {
                        depends.on(&AskedQueries::ANY, 0)
                    }
                    Some((id, State::Succeeded(success))) => self.and(depends, id, success.value.as_str()),
                    // It has not waited for it.
                    Some((_, state)) if !state.is_terminal() => depends,
                    // What it made of a failure holds until something changes. What a removed job asked for is not known.
                    Some(_) | None => depends.on(&AskedQueries::ANY, u64::MAX),
                };
            }
        }
        let inputs = params(&job)?.inputs.len();
        let inputs: Vec<JobId> = job.spec.after.iter().copied().take(inputs).collect();
        for input in self.shown(&inputs).await?.into_iter().flatten() {
            if let State::Succeeded(success) = &input.status.state {
                depends = self.and(depends, input.id, success.value.as_str());
            }
        }
        Ok(Some((job.id, depends)))
    }

    /// Adds what another value depends on.
    fn and(&self, depends: Depends, job: JobId, value: &str) -> Depends {
        let value = StoredValue::parse(value);
        match value.as_ref().and_then(StoredValue::asked) {
            Some(asked) => depends.on(asked, self.0.fresh.right_in(job)),
            None => depends,
        }
    }

    /// These jobs, each as far as it is stored.
    async fn shown(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let shown = self.0.engine.show_each(ids).await?;
        let job = |shown: Result<Box<jobhall_engine::Shown>, Rejected>| match shown {
            Ok(shown) => Ok(Some(shown.job)),
            Err(Rejected::NoSuchJob(_)) => Ok(None),
            Err(refused) => Err(refused.into()),
        };
        shown.into_iter().map(job).collect()
    }
}

/// What a failure says about a query that was asked for.
#[derive(Serialize, Deserialize)]
struct Cause {
    /// The job of the query.
    asked: u64,
}

/// The failure of a step because of a query that it asked for.
fn failed_by(failure: &Failure, cause: JobId) -> Failure {
    let data = serde_json::to_string(&Cause { asked: cause.get() }).ok();
    Failure { data: data.and_then(|data| Json::value(&data).ok()), ..failure.clone() }
}

/// The job of a query whose failure is the cause of this one.
pub(crate) fn cause(failure: &Failure) -> Option<JobId> {
    let data: Cause = serde_json::from_str(failure.data.as_ref()?.as_str()).ok()?;
    JobId::new(data.asked).ok()
}
