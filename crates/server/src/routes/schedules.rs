//! Schedules. Entity tags name their versions, as for types; a tick of a schedule does not create a new version.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Request, Uri};
use jobhall_core::{ScheduleName, Time};
use jobhall_engine::{Rejected, ScheduleConfig, ShownSchedule};
use jobhall_protocol as wire;
use jobhall_protocol::{Code, Page, SetSchedule, Timestamp, schema};
use schemars::JsonSchema;
use serde::Deserialize;

use super::large;
use super::submit::key_without_body;
use super::versions::{ROUNDS, Wanted};
use crate::auth::audit;
use crate::auth::tokens::Identity;
use crate::decode;
use crate::error::{self, Answer, ApiError};
use crate::request::params::PAGE_BYTES;
use crate::request::{body, params};
use crate::response::to_wire;
use crate::server::app::{App, now};

/// Default page size.
const LIMIT: usize = 500;
const LIMIT_MOST: usize = 500;
/// Default and maximum number of ticks in a response.
const TICKS: u64 = 5;
const TICKS_MAX: u64 = 100;

fn checked(name: &str) -> Result<ScheduleName, ApiError> {
    ScheduleName::new(name).map_err(ApiError::bad)
}

fn unknown(name: &ScheduleName) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no schedule {name}"))
}

async fn find(app: &App, name: &ScheduleName) -> Result<Option<ShownSchedule>, ApiError> {
    Ok(app.engine.schedule(name.clone()).await?)
}

async fn must_find(app: &App, name: &ScheduleName) -> Result<ShownSchedule, ApiError> {
    find(app, name).await?.ok_or_else(|| unknown(name))
}

/// The entity tag of a schedule. It includes the content, because a schedule that is removed and created again
/// restarts at its first version.
fn tag(shown: &ShownSchedule) -> Result<String, ApiError> {
    let lasting = ShownSchedule { last: None, next_tick: None, ..shown.clone() };
    let content = serde_json::to_vec(&to_wire::schedule(&lasting)?).map_err(ApiError::internal)?;
    Ok(format!("\"{}-{}\"", shown.version, &blake3::hash(&content).to_hex()[..8]))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SchedulesQuery {
    /// Page size, at most 500; default 500. A page ends earlier at 4 MiB of params.
    #[schemars(range(min = 1, max = LIMIT_MOST))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::NameCursor>")]
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    let asked: SchedulesQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, LIMIT, LIMIT_MOST)?;
    let after = asked.cursor.as_deref().map(from_cursor).transpose()?;
    let _turn = app.shares.page_turn(&who).await?;
    // One extra schedule shows whether another page follows.
    let mut found = app.engine.schedules(after, limit + 1).await?;
    let fitting = fitting(&found).min(limit);
    let more = found.len() > fitting;
    found.truncate(fitting);
    let next_cursor = found.last().filter(|_| more).map(|shown| format!("a{}", shown.name));
    let items = found.iter().map(to_wire::schedule).collect::<Result<Vec<_>, _>>()?;
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    large::hold(&app.shares, &who, error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

/// How many of these schedules fit on one page.
fn fitting(found: &[ShownSchedule]) -> usize {
    let mut bytes = 0;
    let exceeds = |shown: &ShownSchedule| {
        bytes += shown.config.job.params.as_str().len();
        bytes >= PAGE_BYTES
    };
    found.iter().position(exceeds).map_or(found.len(), |last| last + 1)
}

fn from_cursor(text: &str) -> Result<ScheduleName, ApiError> {
    let name = text.strip_prefix('a').and_then(|name| ScheduleName::new(name).ok());
    name.ok_or_else(|| ApiError::bad(format!("cursor: {} is not a cursor of this list", params::shown(text))))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let found = must_find(&app, &checked(&name)?).await?;
    let tag = tag(&found)?;
    if Wanted::of(&headers)?.has(Some(&tag)) {
        return Ok(error::unchanged(&tag));
    }
    Ok(error::tagged(error::ok(&to_wire::schedule(&found)?), &tag))
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Answer {
    let name = checked(&name)?;
    let wanted = Wanted::of(request.headers())?;
    let given: SetSchedule = body::json(request).await?;
    let job = match &given.job {
        Some(job) => Some(decode::submit::job(&app, &who, job).await?),
        None => None,
    };
    let make = |before: Option<&ShownSchedule>| {
        let before = before.map(|shown| &*shown.config);
        let schedule = given.over(before.map(|config| &config.schedule)).map_err(ApiError::bad)?;
        let job = job.clone().or_else(|| before.map(|config| config.job.clone()));
        let job = job.ok_or_else(|| ApiError::bad("a new schedule requires job"))?;
        Ok(Some(Arc::new(ScheduleConfig { schedule, job })))
    };
    let version = change(&wanted, &app, &name, make).await?;
    app.acted(&who, "schedule_set", &name, &audit::change(&given)).await;
    let shown = must_find(&app, &name).await?;
    let address = format!("{}/schedules/{name}", wire::API);
    Ok(error::tagged(error::made(version == 1, &address, &to_wire::schedule(&shown)?), &tag(&shown)?))
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let name = checked(&name)?;
    let wanted = Wanted::of(&headers)?;
    must_find(&app, &name).await?;
    change(&wanted, &app, &name, |_| Ok(None)).await?;
    app.acted(&who, "schedule_removed", &name, "").await;
    Ok(error::nothing())
}

/// Submits the job of a schedule now; its ticks are not affected.
pub(super) async fn run(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    app.takes_work()?;
    let name = checked(&name)?;
    let key = key_without_body(&who, &headers, &format!("run of schedule {name}"))?;
    let made = app.engine.run_schedule(name.clone(), key).await?;
    app.acted(&who, "schedule_run", &name, &format!("as job {}", made.id)).await;
    Ok(error::ok(&to_wire::submitted(&made)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TicksQuery {
    /// Number of ticks, from 1 to 100; default 5.
    #[schemars(range(min = 1, max = TICKS_MAX))]
    n: Option<u64>,
}

pub(super) async fn ticks(State(app): State<Arc<App>>, Path(name): Path<String>, uri: Uri) -> Answer {
    let asked: TicksQuery = params::query(&uri)?;
    let n = asked.n.unwrap_or(TICKS);
    if !(1..=TICKS_MAX).contains(&n) {
        return Err(ApiError::bad(format!("n of {n} is outside 1 to {TICKS_MAX}")));
    }
    let found = must_find(&app, &checked(&name)?).await?;
    let schedule = &found.config.schedule;
    let told = |tick: Time| wire::Tick {
        tick: Timestamp(tick),
        run_at: Timestamp(found.config.job.windows.next_open(schedule.start_of(&found.name, tick))),
    };
    let first = if schedule.paused { schedule.next_tick(now()) } else { found.next_tick };
    let all = std::iter::successors(first, |&tick| schedule.next_tick(tick));
    let items: Vec<_> = all.take(usize::try_from(n).unwrap_or(usize::MAX)).map(told).collect();
    Ok(error::ok(&Page { items, next_cursor: None }))
}

type Made = Result<Option<Arc<ScheduleConfig>>, ApiError>;

fn check(wanted: &Wanted, name: &ScheduleName, stored: Option<&ShownSchedule>) -> Result<(), ApiError> {
    let tag = stored.map(tag).transpose()?;
    if wanted.allows(tag.as_deref()) {
        return Ok(());
    }
    Err(ApiError::new(
        Code::PreconditionFailed,
        match tag {
            Some(tag) => format!("schedule {name} has version {tag}"),
            None => format!("there is no schedule {name}"),
        },
    ))
}

/// Changes the schedule, guarded by its version. Without `If-Match` a conflicting change is retried on the new version.
async fn change(
    wanted: &Wanted,
    app: &App,
    name: &ScheduleName,
    make: impl Fn(Option<&ShownSchedule>) -> Made,
) -> Result<u32, ApiError> {
    for _ in 0..ROUNDS {
        let stored = find(app, name).await?;
        check(wanted, name, stored.as_ref())?;
        let config = make(stored.as_ref())?;
        let version = stored.map_or(0, |stored| stored.version);
        match app.engine.set_schedule(name.clone(), config, Some(version), None).await {
            Ok(version) => return Ok(version),
            Err(Rejected::ScheduleChanged { .. }) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Err(Rejected::Contended.into())
}
