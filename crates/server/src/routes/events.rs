//! Streams of events: what happened after a position of the feed, then what happens, without gap or repeat.
//!
//! An event's `id` is the position to resume from; a commit that changed several jobs gives it to the last of them,
//! so who breaks off in the middle gets all of that commit again. Steps of a live attempt that are not stored come
//! without an id. Where the feed has been pruned beyond the position, `reset` says: look at everything anew.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Path, State};
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use jobhall_core::{JobId, StateName};
use jobhall_engine::{Watch, Watched};
use jobhall_protocol::Change;
use jobhall_store::Store;
use serde::Deserialize;

use crate::app::{App, now};
use crate::error::{self, Answer, Trouble};
use crate::metrics::Counted;
use crate::params;
use crate::reach::{self, Eyes};
use crate::stream::{Left, Writer, pipe};
use crate::tokens::Identity;

/// A comment goes out this often, so that dead connections are noticed on both sides.
const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// As `Last-Event-ID`, for those who cannot set headers.
    after: Option<u64>,
}

/// Everything that happens.
pub(super) async fn of_all(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let after = match position(&uri, &headers)? {
        Some(after) => after,
        None => end_of_feed(app.store.as_ref()).await?,
    };
    let watch = app.engine.watch(after);
    Ok(open(&app, Telling { watch, job: None, seen_rev: 0 }, Eyes::new(&app, who), None))
}

/// What happens to one job. Without a position it begins with the state of this moment; it ends with the job.
pub(super) async fn of_job(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let id = params::job_id(&id)?;
    let asked = position(&uri, &headers)?;
    let end = end_of_feed(app.store.as_ref()).await?;
    // The watch begins before the look, so nothing can happen between them unseen.
    let watch = app.engine.watch(asked.unwrap_or(end));
    let shown = reach::shown(&app, &who, id).await?;
    let life = &shown.job.life;
    let first = (asked.is_none() || life.state.is_terminal()).then(|| (end, life.name(now())));
    let seen_rev = if first.is_some() { life.rev } else { 0 };
    Ok(open(&app, Telling { watch, job: Some(id), seen_rev }, Eyes::new(&app, who), first))
}

fn position(uri: &Uri, headers: &HeaderMap) -> Result<Option<u64>, Trouble> {
    let asked: Asked = params::query(uri)?;
    let Some(header) = headers.get("last-event-id") else { return Ok(asked.after) };
    let number = header.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Trouble::bad("Last-Event-ID is not a position of this stream"))
}

/// The last position, found by halving: positions are dense.
async fn end_of_feed(store: &dyn Store) -> Result<u64, Trouble> {
    let page = store.feed(0, 1).await?;
    let mut below = page.rows.last().map_or(page.pruned_to, |row| row.n).max(page.pruned_to);
    let mut step = 1u64;
    while let Some(row) = store.feed(below + step - 1, 1).await?.rows.first() {
        below = row.n;
        step *= 2;
    }
    while step > 1 {
        step /= 2;
        if let Some(row) = store.feed(below + step - 1, 1).await?.rows.first() {
            below = row.n;
        }
    }
    Ok(below)
}

/// What is told, and to whom.
struct Telling {
    watch: Watch,
    job: Option<JobId>,
    /// Changes of the job up to this one have been told.
    seen_rev: u32,
}

fn open(app: &Arc<App>, telling: Telling, mut eyes: Eyes, first: Option<(u64, StateName)>) -> Response {
    let (writer, body) = pipe();
    let app = app.clone();
    tokio::spawn(async move {
        let (tokens, who) = eyes.token();
        let _counted = Counted::new(&app.metrics.live_clients);
        // The reader may leave at any moment; then there is nobody to tell.
        let _ = tokio::select! {
            told = tell(&writer, telling, &mut eyes, first) => told,
            () = writer.left() => Err(Left),
            () = tokens.gone(&who) => Ok(()),
            () = app.drained() => Ok(()),
        };
    });
    let mut response = error::body("text/event-stream", body);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

async fn tell(
    writer: &Writer,
    mut telling: Telling,
    eyes: &mut Eyes,
    first: Option<(u64, StateName)>,
) -> Result<(), Left> {
    writer.write("retry: 2000\n\n").await?;
    if let (Some((position, state)), Some(id)) = (first, telling.job) {
        writer.write(event(Some(position), id, state)).await?;
        if state.is_terminal() {
            return Ok(());
        }
    }
    loop {
        match tokio::time::timeout(HEARTBEAT, telling.watch.next()).await {
            Err(_) => writer.write(":\n\n").await?,
            Ok(Ok(Some(watched))) => {
                let Ok(watched) = eyes.see(watched).await else {
                    tracing::error!("a stream of events broke off: its jobs could not be read");
                    return Ok(());
                };
                let Some(watched) = watched else { continue };
                let (text, over) = telling.text(watched);
                if !text.is_empty() {
                    writer.write(text).await?;
                }
                if over {
                    return Ok(());
                }
            }
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => {
                tracing::error!("a stream of events broke off: {error}");
                return Ok(());
            }
        }
    }
}

impl Telling {
    /// The events of what was seen, and whether the stream is over.
    fn text(&self, watched: Watched) -> (String, bool) {
        match watched {
            Watched::Reset(position) => (format!("id: {position}\nevent: reset\ndata: {{}}\n\n"), false),
            Watched::Live(id, state) if self.job.is_none_or(|job| job == id) => {
                (event(None, id, state), false)
            }
            Watched::Live(..) => (String::new(), false),
            Watched::Row(row) => {
                let new = |entry: &&jobhall_store::FeedEntry| {
                    self.job.is_none_or(|job| job == entry.id && entry.rev > self.seen_rev)
                };
                let entries: Vec<_> = row.entries.iter().filter(new).collect();
                let last = entries.len().saturating_sub(1);
                let events = entries.iter().enumerate();
                let text =
                    events.map(|(at, entry)| event((at == last).then_some(row.n), entry.id, entry.state));
                let ended =
                    self.job.is_some() && entries.last().is_some_and(|entry| entry.state.is_terminal());
                (text.collect(), ended)
            }
        }
    }
}

fn event(position: Option<u64>, id: JobId, state: StateName) -> String {
    let change = Change { id: id.get(), state: state.to_string() };
    let data = serde_json::to_string(&change).unwrap_or_default();
    let id = position.map(|position| format!("id: {position}\n")).unwrap_or_default();
    format!("{id}event: job\ndata: {data}\n\n")
}
