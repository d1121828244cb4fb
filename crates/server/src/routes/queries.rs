//! Queries: evaluated by a GET of their text, or in the background.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Request, Uri};
use axum::response::Response;
use jobhall_core::query::{
    CommandName, Query, QueryError, QueryErrorKind, Span, TEXT_BYTES_MAX, URL_BYTES_MAX,
};
use jobhall_core::{Disposition, JobId, Owner, State as JobState};
use jobhall_protocol::{
    AskQuery, CACHE_COMPUTED, CACHE_HEADER, CACHE_HIT, CACHE_JOINED, Code, PlannedNode, QueryProblem,
    QueryPromise, REFRESH_ALL,
};
use jobhall_queries::{
    Asked, Ended, EndedHow, Error, Found, Planned, QUEUE, Refresh, Request as Ask, StoredSource, Warmth,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use super::query_steps;
use super::sources;
use crate::auth::tokens::{Identity, Role};
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::response::content;
use crate::server::app::{App, now};

/// The prefix of queries in URLs.
pub(super) const PREFIX: &str = "/q/";
/// The priority of what someone waits for.
const INTERACTIVE: i32 = 50;
/// The priority of what nobody waits for.
const BACKGROUND: i32 = 100;
/// How much of a text a problem repeats; it marks the place in a shorter one only.
const SHOWN_BYTES: usize = 500;
/// Maximum time that a request may ask to wait, in seconds.
pub(super) const WAIT_S: u64 = 3_600;
/// How often a query is asked again while the files of its commands change.
const ASKED_MAX: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EvaluateQuery {
    /// Answer with the promise of the value after this many seconds, at most 3,600; by default the answer is the value,
    /// whenever it is there.
    #[schemars(range(max = WAIT_S))]
    wait: Option<u64>,
    /// `ok`: the answer may be a value that has expired, or that was made before a check had another answer.
    #[schemars(length(max = 2), extend("enum" = ["ok"]))]
    stale: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ValueQuery {
    /// Wait this many seconds for the value, at most 3,600, which is the default.
    #[schemars(range(max = WAIT_S))]
    wait: Option<u64>,
}

/// The routes of queries need a token that reaches their queue.
pub(super) fn check_scope(who: &Identity) -> Result<(), ApiError> {
    if who.scope.reaches(QUEUE) {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, format!("queries need a token that reaches the queue {QUEUE}")))
}

/// Whether jobs may be created. A page of another site can make a browser send its cookie with a GET, so a cookie
/// computes only for a page of this server, and for an address that a user has entered.
pub(super) fn may_compute(who: &Identity, headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    let own = !who.is_browser() || matches!(site, Some("same-origin" | "none"));
    matches!(who.role, Role::Client | Role::Admin) && own
}

pub(super) async fn evaluate(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    check_scope(&who)?;
    let (wait, stale) = choices(&uri, &headers)?;
    let text = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let query = Query::parse(text, URL_BYTES_MAX).map_err(|error| wrong(&error, text))?;
    let compute = method != Method::HEAD && may_compute(&who, &headers);
    let deadline = wait.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut asked = 0;
    loop {
        let how = How { compute, stale, priority: INTERACTIVE };
        let (asked_for, planned) = ask(&app, &who, query.clone(), text, how, None).await?;
        let found = match asked_for {
            Asked::Hit(ended) => return answer(&app, &ended, CACHE_HIT, &method, &headers).await,
            Asked::Source(source) => return stored(&app, &source, &method, &headers).await,
            Asked::Promise(found) => found,
            Asked::NotComputed(planned) => return Err(not_computed(text, &planned)),
        };
        let _share = app.shares.waiting(&who)?;
        asked += 1;
        match waited(&app, found.job, deadline).await.map_err(removed)? {
            Some(ended) if ended.is_outdated() && asked < ASKED_MAX => {}
            // It was begun for someone else, and something that it asked for has changed since.
            Some(ended) if asked < ASKED_MAX && is_stale(&app, &found, &ended).await? => {}
            Some(ended) => {
                let cache = cache_of(found.disposition);
                return answer(&app, &ended, cache, &method, &headers).await;
            }
            None => return promised(&app, &found, &planned).await,
        }
    }
}

/// The time after which the promise is the answer, none if the request waits for the value; and whether the value may be
/// stale.
fn choices(uri: &Uri, headers: &HeaderMap) -> Result<(Option<u64>, bool), ApiError> {
    let asked: EvaluateQuery = params::query(uri)?;
    let given = headers.get("prefer").and_then(|given| given.to_str().ok()).unwrap_or_default();
    let preferences: Vec<&str> = given.split([',', ';']).map(str::trim).collect();
    let seconds = preferences.iter().find_map(|word| word.strip_prefix("wait=")?.parse().ok());
    let preferred = preferences.contains(&"respond-async").then(|| seconds.unwrap_or(0));
    if let Some(other) = asked.stale.as_deref().filter(|stale| *stale != "ok") {
        return Err(ApiError::bad(format!("stale: is ok or left away, not {}", params::shown(other))));
    }
    Ok((bounded(asked.wait.or(preferred))?, asked.stale.is_some()))
}

fn bounded(wait: Option<u64>) -> Result<Option<u64>, ApiError> {
    match wait {
        Some(seconds) if seconds > WAIT_S => {
            Err(ApiError::bad(format!("wait of {seconds} is outside 0 to {WAIT_S}")))
        }
        wait => Ok(wait),
    }
}

/// How a query is to be answered.
struct How {
    compute: bool,
    stale: bool,
    priority: i32,
}

async fn ask(
    app: &App,
    who: &Identity,
    query: Query,
    text: &str,
    how: How,
    refresh: Option<&Refresh>,
) -> Result<(Asked, Planned), ApiError> {
    let How { compute, stale, priority } = how;
    if compute {
        app.takes_work()?;
    }
    let owner = Owner::new(&who.name).ok();
    let request = Ask { query, compute, stale, priority, owner, within: None };
    app.queries.ask_refreshing(request, refresh).await.map_err(|error| refused(error, text))
}

async fn is_stale(app: &App, found: &Found, ended: &Ended) -> Result<bool, ApiError> {
    let joined = matches!(found.disposition, Disposition::Joined | Disposition::JoinedOther);
    Ok(joined && app.queries.is_stale(ended).await.map_err(|error| refused(error, ""))?)
}

/// Waits for the end of a promise, without a limit if none is given.
async fn waited(app: &App, id: JobId, deadline: Option<Instant>) -> Result<Option<Arc<Ended>>, ApiError> {
    let limit = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ended = app.queries.wait(id) => ended.map(Some).map_err(|error| refused(error, "")),
        () = limit => Ok(None),
        () = app.drained() => Err(ApiError::new(Code::Unavailable, "the server is stopping")),
    }
}

/// The job of a query that was found a moment ago, and removed while this request waited for it.
fn removed(error: ApiError) -> ApiError {
    match error.words().0 {
        Code::NotFound => ApiError::new(Code::Conflict, "the job of this query was removed; ask again"),
        _ => error,
    }
}

fn cache_of(disposition: Disposition) -> &'static str {
    match disposition {
        Disposition::Reused => CACHE_HIT,
        Disposition::Joined | Disposition::JoinedOther => CACHE_JOINED,
        Disposition::Created | Disposition::Superseding | Disposition::Again => CACHE_COMPUTED,
    }
}

pub(super) async fn submit(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    check_scope(&who)?;
    let AskQuery { query: text, refresh } = body::json(request).await?;
    let refresh = refresh.as_deref().map(refreshed).transpose()?;
    let query = Query::parse(&text, TEXT_BYTES_MAX).map_err(|error| match error.kind {
        QueryErrorKind::TooLong { .. } => ApiError::new(Code::TooLarge, error.kind.to_string()),
        _ => wrong(&error, &text),
    })?;
    let how = How { compute: true, stale: false, priority: BACKGROUND };
    let (asked, planned) = ask(&app, &who, query, &text, how, refresh.as_ref()).await?;
    match asked {
        Asked::Hit(ended) => {
            let steps = query_steps::of_plan(&app, &planned, None).await?;
            let promise = QueryPromise { cache: Some(CACHE_HIT.to_owned()), steps, ..promise_of(&ended) };
            Ok(error::made(false, &address(ended.job.id), &promise))
        }
        Asked::Promise(found) => promised(&app, &found, &planned).await,
        Asked::Source(source) => Err(ApiError::bad(format!(
            "a query without a command has no promise; read the source {:?}",
            source.key.as_str()
        ))),
        Asked::NotComputed(planned) => Err(not_computed(&text, &planned)),
    }
}

/// What is computed anew: the steps of a command with what follows them, or all.
fn refreshed(given: &str) -> Result<Refresh, ApiError> {
    if given == REFRESH_ALL {
        return Ok(Refresh::All);
    }
    let name = CommandName::new(given);
    name.map(Refresh::Command).map_err(|error| ApiError::bad(format!("refresh: {error}")))
}

fn address(id: JobId) -> String {
    format!("{}/queries/{id}", jobhall_protocol::API)
}

async fn promised(app: &App, found: &Found, planned: &Planned) -> Answer {
    let promise = QueryPromise {
        steps: query_steps::of_plan(app, planned, Some(found)).await?,
        cache: Some(cache_of(found.disposition).to_owned()),
        created: Some(found.created),
        ..promise(app, found.job).await?
    };
    Ok(error::accepted(&address(found.job), &promise))
}

async fn promise(app: &App, id: JobId) -> Result<QueryPromise, ApiError> {
    let pending = app.queries.promised(id).await.map_err(|error| refused(error, ""))?;
    let (job, params) = (pending.job, pending.params);
    let mut promise = QueryPromise {
        id: job.id.get(),
        query: params.query,
        identity: params.identity.to_string(),
        state: job.status.name(now()).to_string(),
        cache: None,
        created: None,
        media_type: None,
        size: None,
        steps: Vec::new(),
        progress: Vec::new(),
    };
    if let Some(value) = pending.value {
        (promise.media_type, promise.size) = (Some(value.media_type), Some(value.size));
    }
    Ok(promise)
}

fn promise_of(ended: &Ended) -> QueryPromise {
    let (media_type, size) = match &ended.how {
        EndedHow::Value(value) => (Some(value.media_type.clone()), Some(value.size)),
        EndedHow::Failure { .. } => (None, None),
    };
    QueryPromise {
        id: ended.job.id.get(),
        query: ended.params.query.clone(),
        identity: ended.params.identity.to_string(),
        state: ended.job.status.name(now()).to_string(),
        cache: None,
        created: None,
        media_type,
        size,
        steps: Vec::new(),
        progress: Vec::new(),
    }
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    check_scope(&who)?;
    let id = params::job_id(&id)?;
    let promise = promise(&app, id).await?;
    let progress = query_steps::progress(&app, id).await?;
    Ok(error::ok(&QueryPromise { progress, ..promise }))
}

pub(super) async fn value(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    check_scope(&who)?;
    let asked: ValueQuery = params::query(&uri)?;
    let (id, wait) = (params::job_id(&id)?, bounded(asked.wait)?);
    let _share = app.shares.waiting(&who)?;
    let deadline = Instant::now() + Duration::from_secs(wait.unwrap_or(WAIT_S));
    match waited(&app, id, Some(deadline)).await? {
        Some(ended) => answer(&app, &ended, CACHE_HIT, &method, &headers).await,
        None => Ok(error::accepted(&address(id), &promise(&app, id).await?)),
    }
}

/// The value, or the failure of the step that failed first.
async fn answer(
    app: &App,
    ended: &Ended,
    cache: &'static str,
    method: &Method,
    headers: &HeaderMap,
) -> Answer {
    let EndedHow::Value(value) = &ended.how else { return Err(failed(ended)) };
    let Some(mut response) = content::value(app, value, method, headers).await? else {
        let detail =
            format!("the value of job {} is damaged or missing; ask for the query again", ended.job.id);
        return Err(ApiError::new(Code::Conflict, detail));
    };
    let age = ended.job.status.state.ended_at().map_or(0, |at| now().since(at)) / 1_000;
    set(&mut response, HeaderName::from_static(CACHE_HEADER), cache);
    set(&mut response, header::AGE, &age.to_string());
    Ok(response)
}

/// The value of a query without a command.
async fn stored(app: &App, source: &StoredSource, method: &Method, headers: &HeaderMap) -> Answer {
    let mut response = sources::of(app, source, method, headers).await?;
    set(&mut response, HeaderName::from_static(CACHE_HEADER), CACHE_HIT);
    Ok(response)
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// The problem for a computed failure: what failed, and where in the query.
pub(super) fn failed(ended: &Ended) -> ApiError {
    let EndedHow::Failure { first, step, failure } = &ended.how else {
        return ApiError::internal("a value is no failure");
    };
    let code = match first.status.state {
        _ if ended.is_outdated() => Code::VersionChanged,
        JobState::Crashed(_) => Code::StepCrashed,
        JobState::Cancelled(_) => Code::StepCancelled,
        _ => Code::StepFailed,
    };
    let (query, last) = (&ended.params.query, step.query.len());
    let span = if query.starts_with(&step.query) {
        let start = step.query.rfind('/').map_or(0, |at| at + 1);
        Some(Span::new(start, last))
    } else {
        None
    };
    let said = [failure.reason.as_str(), failure.explanation.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    let what = if step.check { "the check of " } else { "" };
    let detail = format!("{what}{} (job {}): {}", step.query, first.id, said.join(": "));
    ApiError::new(code, detail).with_query(QueryProblem {
        query: query.clone(),
        column: span.map(|span| span.column(query)),
        marks: span.map(|span| span.marks(query)),
        job: Some(first.id.get()),
        plan: Vec::new(),
    })
}

fn not_computed(text: &str, planned: &Planned) -> ApiError {
    let nodes = planned.plan.nodes.iter().zip(&planned.warmth);
    let plan: Vec<PlannedNode> = nodes
        .map(|(node, warmth)| {
            let (cache, job) = match warmth {
                Warmth::Hit(job, _) => ("hit", Some(job.id.get())),
                Warmth::NotNeeded(_) => ("not_needed", None),
                Warmth::Missing(_) | Warmth::Expired(..) => ("missing", None),
            };
            let command = |step: &jobhall_core::query::PlannedStep| {
                format!("{}@{}", step.declared.declaration.name, step.declared.version)
            };
            PlannedNode {
                query: node.text.clone(),
                identity: node.identity.to_string(),
                commands: node.steps.iter().map(command).collect(),
                cache: cache.to_owned(),
                job,
            }
        })
        .collect();
    let detail = "the value is not cached, and this request may not compute it";
    let query = QueryProblem { query: text.to_owned(), plan, ..QueryProblem::default() };
    ApiError::new(Code::NotComputed, detail).with_query(query)
}

/// The problem for a text that is no query, or one that nobody can answer.
pub(super) fn wrong(error: &QueryError, text: &str) -> ApiError {
    let code = serde_json::from_value(serde_json::Value::from(error.kind.code()));
    let whole = text.len() <= SHOWN_BYTES;
    ApiError::new(code.unwrap_or(Code::BadRequest), error.message(text)).with_query(QueryProblem {
        query: text[..text.floor_char_boundary(SHOWN_BYTES)].to_owned(),
        column: Some(error.span.column(text)),
        marks: whole.then(|| error.span.marks(text)),
        ..QueryProblem::default()
    })
}

/// The problem for a refusal of queries about this text.
pub(super) fn refused(error: Error, text: &str) -> ApiError {
    match error {
        Error::Query(error) => wrong(&error, text),
        Error::Rejected(refused) => refused.into(),
        Error::Store(error) => error.into(),
        Error::Refused(why) => ApiError::bad(why),
        Error::Damaged(why) => ApiError::internal(why),
        Error::Blobs(why) => {
            tracing::warn!("stored bytes are unavailable: {why}");
            ApiError::new(Code::Unavailable, "stored values cannot be read; try again")
        }
        Error::Cycle(_) => ApiError::new(Code::QueryCycle, error.to_string()),
        Error::NoSuchPromise(_) => ApiError::new(Code::NotFound, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use jobhall_core::query::QueryErrorKind as Kind;

    use super::*;

    #[test]
    fn every_error_of_a_query_has_a_code_of_its_own() {
        let kinds = [
            Kind::Empty,
            Kind::TooLong { bytes: 2, most: 1 },
            Kind::TooManySteps,
            Kind::UnknownCommand { name: String::new(), nearest: Vec::new(), file: None },
            Kind::LinkExpected { command: String::new(), argument: String::new() },
            Kind::MainElsewhere { command: String::new() },
            Kind::UnknownSource { key: String::new(), nearest: Vec::new() },
            Kind::FormatNotOffered { command: String::new(), found: String::new(), offered: Vec::new() },
            Kind::NotSerialisable { command: String::new() },
        ];
        for kind in kinds {
            let word = kind.code();
            let error = wrong(&QueryError { span: Span::default(), kind }, "a");
            assert_eq!(error::word(error.words().0), word);
            assert!((400..500).contains(&error::status(error.words().0)), "{word}");
        }
    }
}
