//! Event streams: past events after a position of the feed, then new events, without gaps or repeats.
//!
//! The `id` of an event is the position to resume from. A commit that changed several jobs assigns it to the last of
//! them, so a client that disconnects in between receives the whole commit again. Steps of a live attempt that are
//! not stored, progress and the end of a group have no id. A stream of one group begins with the group's end if it has
//! ended, so that a client that reconnects does not miss it. If the feed was pruned beyond the position, or never reached it, the stream sends `reset`:
//! the client must read everything again. Every stream starts with its current position and heartbeats repeat it, so
//! a client that disconnects before the first event misses nothing. When the server stops, the last event is
//! `closing`: the client should reconnect.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Path, State};
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Uri};
use jobhall_core::{GroupId, GroupState, Indicator, JobId, StateName};
use jobhall_engine::{Engine, Rejected, Watch, Watched};
use jobhall_protocol::{Change, ProgressChange, schema};
use jobhall_store::{FeedEntry, FeedRow};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::auth::tokens::Identity;
use crate::auth::visibility::{self, Eyes};
use crate::error::{self, Answer, ApiError};
use crate::metrics::Counted;
use crate::request::params;
use crate::response::stream::{self, Left, Writer, pipe};
use crate::server::app::{App, now};

/// Interval between two heartbeat comments, which let both sides detect dead connections.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Start position.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Same as `Last-Event-ID`, for clients that cannot set headers.
    after: Option<u64>,
}

/// Start position and filter.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AllEventsQuery {
    /// Same as `Last-Event-ID`, for clients that cannot set headers.
    after: Option<u64>,
    /// Only events of jobs in this group.
    #[schemars(with = "Option<schema::JobId>")]
    group: Option<u64>,
}

pub(super) async fn of_all(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let query: AllEventsQuery = params::query(&uri)?;
    let asked = position(query.after, &headers)?;
    let group = query.group.map(GroupId::new).transpose().map_err(ApiError::bad)?;
    if let Some(group) = group.filter(|_| !who.sees_all()) {
        return Err(Rejected::NoSuchGroup(group).into());
    }
    let end = app.store.feed_end().await?;
    let watch = app.engine.watch(asked.unwrap_or(end).min(end));
    let first = First { beyond: asked.is_some_and(|asked| asked > end), state: None };
    let eyes = Eyes::new(app.store.clone(), who).for_group(group);
    open(&app, Telling { watch, job: None, group, seen_rev: 0 }, eyes, first)
}

/// The events of one job. Without a position the stream starts with the current state. It ends when the job ends.
pub(super) async fn of_job(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let id = params::job_id(&id)?;
    let query: EventsQuery = params::query(&uri)?;
    let asked = position(query.after, &headers)?;
    let end = app.store.feed_end().await?;
    // The watch starts before the read, so that no change between them is missed.
    let watch = app.engine.watch(asked.unwrap_or(end).min(end));
    let shown = visibility::shown(&app, &who, id).await?;
    let status = &shown.job.status;
    let beyond = asked.is_some_and(|asked| asked > end);
    let tells = asked.is_none() || beyond || status.state.is_terminal();
    let first = First { beyond, state: tells.then(|| status.name(now())) };
    let seen_rev = if tells { status.rev } else { 0 };
    open(
        &app,
        Telling { watch, job: Some(id), group: None, seen_rev },
        Eyes::new(app.store.clone(), who),
        first,
    )
}

fn position(after: Option<u64>, headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(header) = headers.get("last-event-id") else { return Ok(after) };
    let number = header.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| ApiError::bad("Last-Event-ID is not a position of this stream"))
}

/// The state of a stream.
struct Telling {
    watch: Watch,
    job: Option<JobId>,
    /// The group whose jobs are selected.
    group: Option<GroupId>,
    /// Changes of the job up to this one have been sent.
    seen_rev: u32,
}

/// The first event of a stream.
struct First {
    /// The requested position is beyond the end of the feed.
    beyond: bool,
    /// The current state of the job.
    state: Option<StateName>,
}

fn open(app: &Arc<App>, telling: Telling, mut eyes: Eyes, first: First) -> Answer {
    let share = app.shares.waiting(&eyes.whose())?;
    let (writer, body) = pipe();
    let app = app.clone();
    stream::spawn(async move {
        let _counted = (Counted::new(&app.metrics.live_clients), share);
        let who = eyes.whose();
        // The reader may disconnect at any time; the error is then ignored.
        let _ = tokio::select! {
            told = tell(&app.engine, &writer, telling, &mut eyes, first) => told,
            () = writer.left() => Err(Left),
            () = app.tokens.gone(&who) => Ok(()),
            () = app.closed() => writer.write("event: closing\ndata: {}\n\n").await,
        };
    });
    let mut response = error::body("text/event-stream", body);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

async fn tell(
    engine: &Engine,
    writer: &Writer,
    mut telling: Telling,
    eyes: &mut Eyes,
    first: First,
) -> Result<(), Left> {
    let position = telling.watch.position();
    writer.write(format!("retry: 2000\nid: {position}\n\n")).await?;
    if first.beyond {
        writer.write(reset(position)).await?;
    }
    if let (Some(state), Some(id)) = (first.state, telling.job) {
        writer.write(event(Some(position), id, state)).await?;
        if state.is_terminal() {
            return Ok(());
        }
    }
    let ended = telling.group_end(engine).await;
    if !ended.is_empty() {
        writer.write(ended).await?;
    }
    loop {
        match tokio::time::timeout(HEARTBEAT, telling.watch.next()).await {
            Err(_) => writer.write(format!(":\nid: {}\n\n", telling.watch.position())).await?,
            Ok(Ok(Some(watched))) => {
                let Ok(watched) = eyes.see(watched).await else {
                    tracing::error!("an event stream was aborted: failed to read its jobs");
                    return Ok(());
                };
                let Some(watched) = watched else { continue };
                let (text, over) = telling.text(engine, watched).await;
                if !text.is_empty() {
                    writer.write(text).await?;
                }
                if over {
                    return Ok(());
                }
            }
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => {
                tracing::error!("an event stream was aborted: {error}");
                return Ok(());
            }
        }
    }
}

impl Telling {
    /// Formats the observed events; returns whether the stream is over.
    async fn text(&mut self, engine: &Engine, watched: Watched) -> (String, bool) {
        match watched {
            Watched::Reset(position) => match self.job {
                Some(id) => self.anew(engine, id, position).await,
                None => (reset(position), false),
            },
            Watched::Live(id, state) if self.job.is_none_or(|job| job == id) => {
                (event(None, id, state), false)
            }
            Watched::Progress(id, progress) if self.job.is_none_or(|job| job == id) => {
                (progress_event(id, &progress), false)
            }
            Watched::Group(id, state) if self.job.is_none() => (group_event(id, state), false),
            Watched::Missed => (self.group_end(engine).await, false),
            Watched::Live(..) | Watched::Progress(..) | Watched::Group(..) => (String::new(), false),
            Watched::Row(row) => self.row(&row),
        }
    }

    /// The end of the selected group, if it has ended.
    async fn group_end(&self, engine: &Engine) -> String {
        let Some(id) = self.group else { return String::new() };
        let ended = engine.group(id).await.ok().filter(|shown| shown.group.end.is_some());
        ended.map_or_else(String::new, |shown| group_event(id, shown.state))
    }

    /// The missed events may include the end of the job, so the job is read. If it was deleted, the stream ends.
    async fn anew(&mut self, engine: &Engine, id: JobId, position: u64) -> (String, bool) {
        let Ok(shown) = engine.show(id).await else { return (reset(position), true) };
        let state = shown.job.status.name(now());
        self.seen_rev = shown.job.status.rev;
        (reset(position) + &event(Some(position), id, state), state.is_terminal())
    }

    fn row(&self, row: &FeedRow) -> (String, bool) {
        let new =
            |entry: &&FeedEntry| self.job.is_none_or(|job| job == entry.id && entry.rev > self.seen_rev);
        let entries: Vec<_> = row.entries.iter().filter(new).collect();
        let last = entries.len().saturating_sub(1);
        let events = entries.iter().enumerate();
        let text = events.map(|(at, entry)| event((at == last).then_some(row.n), entry.id, entry.state));
        let ended = self.job.is_some() && entries.last().is_some_and(|entry| entry.state.is_terminal());
        (text.collect(), ended)
    }
}

fn reset(position: u64) -> String {
    format!("id: {position}\nevent: reset\ndata: {{}}\n\n")
}

fn event(position: Option<u64>, id: JobId, state: StateName) -> String {
    let change = Change { id: id.get(), state: state.to_string() };
    let data = serde_json::to_string(&change).unwrap_or_default();
    let id = position.map(|position| format!("id: {position}\n")).unwrap_or_default();
    format!("{id}event: job\ndata: {data}\n\n")
}

fn group_event(id: GroupId, state: GroupState) -> String {
    let change = Change { id: id.get(), state: state.to_string() };
    let data = serde_json::to_string(&change).unwrap_or_default();
    format!("event: group\ndata: {data}\n\n")
}

fn progress_event(id: JobId, progress: &[Indicator]) -> String {
    let change = ProgressChange { id: id.get(), progress: progress.to_vec() };
    let data = serde_json::to_string(&change).unwrap_or_default();
    format!("event: progress\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures_util::StreamExt;
    use jobhall_engine::{Config, SystemClock};
    use jobhall_store::Memory;

    use super::*;
    use crate::auth::tokens::Role;

    /// Virtual time advances to the next timer when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_beats_and_says_where_it_stands() {
        let store = Arc::new(Memory::new());
        let mut eyes = Eyes::new(store.clone(), Identity::new("a", "a", Role::Admin));
        let engine = Engine::start(store, Config::default(), SystemClock::default()).await.unwrap();
        let telling = Telling { watch: engine.watch(0), job: None, group: None, seen_rev: 0 };
        let (writer, body) = pipe();
        let first = First { beyond: false, state: None };
        tokio::spawn(async move { tell(&engine, &writer, telling, &mut eyes, first).await.is_ok() });
        let mut pieces = Body::into_data_stream(body);
        let mut next = async || String::from_utf8(pieces.next().await.unwrap().unwrap().to_vec()).unwrap();
        let begun = tokio::time::Instant::now();
        assert_eq!(next().await, "retry: 2000\nid: 0\n\n");
        for _ in 0..3 {
            assert_eq!(next().await, ":\nid: 0\n\n");
        }
        assert_eq!(begun.elapsed().as_secs(), 45, "one every 15 seconds");
    }
}
