//! Queries that a running command asks for, authorized by the lease of its attempt or by its job token. The job must itself
//! be a step of a query: other jobs may belong to users who may not read the values of queries.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use jobhall_core::query::{Query, QueryErrorKind, TEXT_BYTES_MAX};
use jobhall_core::{Job, base64};
use jobhall_engine::{AttemptRef, Rejected};
use jobhall_protocol::{AskSubQuery, Code, HERE_BYTES_MAX, HERE_MAX, SubQuery, SubQueryState};
use jobhall_queries::{
    Asker, Content, Ended, EndedHow, Found, Inline, QUERIES, StoredSource, SubAsked, Within,
};

use super::attempts::attempt_ref;
use super::queries::{failed, refused, wrong};
use crate::auth::tokens::Identity;
use crate::decode::sub_job::held;
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::server::app::App;

/// The attempt's job, which is a step of a query and held by the caller.
async fn step(app: &App, of: &AttemptRef) -> Result<Job, ApiError> {
    let job = held(app, of).await?;
    if job.spec.job_type.as_str().starts_with(QUERIES.0) {
        return Ok(job);
    }
    let detail = format!(
        "job {} is not a step of a query: only a command of queries may ask for others while it runs",
        job.id
    );
    Err(ApiError::new(Code::Forbidden, detail))
}

pub(super) async fn ask(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let job = match step(&app, &of).await {
        // Whoever may not ask is refused whatever the body is.
        Err(refused) if refused.words().0 == Code::Forbidden => return Err(refused),
        job => job,
    };
    let AskSubQuery { query: text, here } = body::json(request).await?;
    let job = job?;
    if here.len() > HERE_MAX || here.iter().any(|command| command.len() > HERE_BYTES_MAX) {
        let detail = format!("here has at most {HERE_MAX} commands of {HERE_BYTES_MAX} bytes");
        return Err(ApiError::bad(detail));
    }
    let query = Query::parse(&text, TEXT_BYTES_MAX).map_err(|error| match error.kind {
        QueryErrorKind::TooLong { .. } => ApiError::new(Code::TooLarge, error.kind.to_string()),
        _ => wrong(&error, &text),
    })?;
    let asker = Asker { of, job, here: here.into_iter().collect() };
    let asked = app.queries.ask_within(asker, query).await;
    let Within { meaning, asked } = asked.map_err(|error| refused(error, &text))?;
    match asked {
        SubAsked::Ended(ended) => ready(meaning, &ended),
        SubAsked::Source(source) => Ok(error::ok(&of_source(meaning, &source))),
        SubAsked::Pending(Found { job, .. }) => Ok(pending(meaning, job.get())),
        SubAsked::Inline(inline) => run_here(meaning, &inline),
    }
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path((id, job)): Path<(String, String)>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let (_, job) = (step(&app, &of).await?, params::job_id(&job)?);
    let promised = match app.queries.promised_within(&of, job).await {
        Err(jobhall_queries::Error::Rejected(refused @ Rejected::NotSubJob { .. })) => {
            return Err(ApiError::new(Code::NotFound, refused.to_string()));
        }
        promised => promised.map_err(|error| refused(error, ""))?,
    };
    match promised {
        (identity, Some(ended)) => ready(identity, &ended),
        (identity, None) => Ok(pending(identity, job.get())),
    }
}

fn pending(identity: String, job: u64) -> axum::response::Response {
    let answer = SubQuery { job: Some(job), ..answer(SubQueryState::Pending, identity) };
    error::accepted(&format!("{}/jobs/{job}", jobhall_protocol::API), &answer)
}

fn run_here(identity: String, inline: &Inline) -> Answer {
    let node = serde_json::to_value(&inline.params).map_err(ApiError::internal)?;
    let jobs = inline.jobs.iter().map(|job| job.get()).collect();
    Ok(error::ok(&SubQuery { node: Some(node), jobs, ..answer(SubQueryState::Inline, identity) }))
}

fn answer(answer: SubQueryState, identity: String) -> SubQuery {
    SubQuery {
        answer,
        identity,
        job: None,
        media_type: None,
        size: None,
        text: None,
        base64: None,
        node: None,
        jobs: Vec::new(),
    }
}

/// A value that is in the row of its job is part of the answer.
fn ready(identity: String, ended: &Ended) -> Answer {
    let EndedHow::Value(value) = &ended.how else { return Err(failed(ended)) };
    let (text, base64) = match &value.content {
        Content::Object(_) => (None, None),
        Content::Inline(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => (None, Some(base64::encode(bytes))),
        },
    };
    Ok(error::ok(&SubQuery {
        job: Some(ended.job.id.get()),
        media_type: Some(value.media_type.clone()),
        size: Some(value.size),
        text,
        base64,
        ..answer(SubQueryState::Ready, identity)
    }))
}

fn of_source(identity: String, source: &StoredSource) -> SubQuery {
    SubQuery {
        media_type: Some(source.media_type.clone()),
        size: Some(source.size),
        ..answer(SubQueryState::Ready, identity)
    }
}
