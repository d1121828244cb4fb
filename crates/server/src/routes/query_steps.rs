//! The steps of queries: how each was answered for a request, what became of its job, and what would run.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Uri};
use jobhall_core::query::{Query, StoredValue, URL_BYTES_MAX};
use jobhall_core::{Failure, Job, JobId, Lease, Outcome, State as JobState};
use jobhall_protocol::{
    CACHE_COMPUTED, CACHE_HIT, CACHE_JOINED, Page, QueryCheck, QueryPlan, QueryProgress, QueryStep, schema,
};
use jobhall_queries::{Answered, CheckState, Found, Planned, StepJob, StepOf};
use schemars::JsonSchema;
use serde::Deserialize;

use super::commands;
use super::queries::{check_scope, may_compute, refused, wrong};
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::params;
use crate::server::app::{App, now};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainQuery {
    /// The text of the query, as in a URL.
    #[schemars(with = "schema::QueryPath")]
    query: String,
}

pub(super) async fn explain(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    check_scope(&who)?;
    let ExplainQuery { query: text } = params::query(&uri)?;
    let query = Query::parse(&text, URL_BYTES_MAX).map_err(|error| wrong(&error, &text))?;
    let steps = app
        .queries
        .explain(&query, may_compute(&who, &headers))
        .await
        .map_err(|error| refused(error, &text))?;
    let mut steps = with_jobs(&app, steps).await?;
    if steps.iter().any(|step| step.cache == MISSING) {
        let workers = commands::connected(&app).await?;
        for step in steps.iter_mut().filter(|step| step.cache == MISSING) {
            step.workers = commands::having(&step.command, &step.version, &workers);
        }
    }
    Ok(error::ok(&QueryPlan { query: query.text(), steps }))
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    check_scope(&who)?;
    let id = params::job_id(&id)?;
    let jobs = app.queries.jobs_of(id).await.map_err(|error| refused(error, ""))?;
    let items = jobs.iter().flat_map(of_job).collect();
    Ok(error::ok(&Page { items, next_cursor: None }))
}

const MISSING: &str = "missing";
const NOT_NEEDED: &str = "not_needed";
const PENDING: &str = "pending";
const SKIPPED: &str = "skipped";

/// The steps of a plan, as they are answered if these jobs were submitted.
pub(super) async fn of_plan(
    app: &App,
    planned: &Planned,
    found: Option<&Found>,
) -> Result<Vec<QueryStep>, ApiError> {
    with_jobs(app, planned.steps(found)).await
}

async fn with_jobs(app: &App, steps: Vec<StepOf>) -> Result<Vec<QueryStep>, ApiError> {
    let mut ids: Vec<JobId> = steps.iter().filter_map(|step| step.job).collect();
    ids.dedup();
    let jobs = app.queries.jobs(&ids).await.map_err(|error| refused(error, ""))?;
    let jobs: HashMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
    Ok(steps.into_iter().map(|step| shown(&step, step.job.and_then(|id| jobs.get(&id)))).collect())
}

fn shown(step: &StepOf, job: Option<&Job>) -> QueryStep {
    let cache = match (step.answered, job) {
        (Answered::Hit, _) => CACHE_HIT.to_owned(),
        (Answered::Joined, _) => CACHE_JOINED.to_owned(),
        (Answered::Missing, _) => MISSING.to_owned(),
        (Answered::NotNeeded, _) => NOT_NEEDED.to_owned(),
        (Answered::Created, Some(job)) => became(job),
        (Answered::Created, None) => PENDING.to_owned(),
    };
    let shown = QueryStep {
        query: step.query.clone(),
        identity: step.identity.to_string(),
        command: step.command.to_string(),
        version: step.version.to_string(),
        cache,
        job: step.job.map(JobId::get),
        state: None,
        ms: None,
        bytes: None,
        worker: None,
        age_s: None,
        workers: Vec::new(),
        why: step.why.clone(),
        check: step.check.as_ref().map(check),
        asked_by: None,
        progress: Vec::new(),
    };
    job.map_or(shown.clone(), |job| with_job(shown, job))
}

fn check(state: &CheckState) -> QueryCheck {
    let (answer, failure) = (state.answer.as_ref(), state.failure.as_ref());
    let at = failure.map(|failure| failure.at).or(answer.map(|answer| answer.at));
    let answer = answer.filter(|_| failure.is_none());
    QueryCheck {
        answer: answer.map(|answer| answer.text.clone()),
        error: failure.map(|failure| failure.why.clone()),
        age_ms: at.map(|at| now().since(at)),
        took_ms: answer.map(|answer| answer.took_ms),
        job: failure.map(|failure| failure.job).or(answer.map(|answer| answer.job)).map(JobId::get),
    }
}

/// The progress of the jobs of a promise that are pending.
pub(super) async fn progress(app: &App, promise: JobId) -> Result<Vec<QueryProgress>, ApiError> {
    let jobs = app.queries.jobs_of(promise).await.map_err(|error| refused(error, ""))?;
    let progress = jobs.into_iter().filter(|of| !of.progress.is_empty()).map(|of| QueryProgress {
        job: of.job.id.get(),
        query: of.params.query,
        progress: of.progress,
    });
    Ok(progress.collect())
}

/// The steps of one job.
fn of_job(StepJob { job, params, progress, asked_by }: &StepJob) -> impl Iterator<Item = QueryStep> + '_ {
    params.steps.iter().map(move |step| {
        let shown = QueryStep {
            query: params.query.clone(),
            identity: params.identity.to_string(),
            command: step.command.to_string(),
            version: step.version.to_string(),
            cache: became(job),
            job: Some(job.id.get()),
            state: None,
            ms: None,
            bytes: None,
            worker: None,
            age_s: None,
            workers: Vec::new(),
            why: None,
            check: None,
            asked_by: asked_by.map(JobId::get),
            progress: progress.clone(),
        };
        with_job(shown, job)
    })
}

/// How a job that was created for a step has ended.
fn became(job: &Job) -> String {
    match &job.status.state {
        JobState::Succeeded(success) if success.outcome == Outcome::Skipped => SKIPPED.to_owned(),
        JobState::Succeeded(_) => CACHE_COMPUTED.to_owned(),
        state if state.is_terminal() => job.status.name(now()).to_string(),
        _ => PENDING.to_owned(),
    }
}

fn with_job(step: QueryStep, job: &Job) -> QueryStep {
    let state = &job.status.state;
    let ended = state.ended_at();
    let (lease, bytes, why) = match state {
        JobState::Succeeded(success) => {
            (Some(&success.last), StoredValue::parse(success.value.as_str()).map(|value| value.size), None)
        }
        JobState::Failed(end) | JobState::Crashed(end) | JobState::Cancelled(end) => {
            (end.last.as_ref(), None, Some(said(&end.failure)))
        }
        state => (state.leased().map(|held| &held.lease), None, None),
    };
    let began = |lease: &Lease| lease.started_at.or(lease.accepted_at).unwrap_or(lease.assigned_at);
    QueryStep {
        state: Some(job.status.name(now()).to_string()),
        ms: lease.map(|lease| ended.unwrap_or_else(now).since(began(lease))),
        bytes,
        worker: lease.map(|lease| lease.worker.to_string()),
        age_s: ended.map(|at| now().since(at) / 1_000),
        why: why.or(step.why),
        ..step
    }
}

fn said(failure: &Failure) -> String {
    let said = [failure.reason.as_str(), failure.explanation.as_str()];
    said.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
}
