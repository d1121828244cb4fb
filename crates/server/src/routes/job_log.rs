//! The log of a job: complete, a byte range, one stream, as frames, or followed as it grows.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::header::{self, CONTENT_LENGTH};
use axum::http::{HeaderMap, HeaderValue, Uri};
use jobhall_blobs::LogKey;
use jobhall_core::{AttemptId, JobId};
use jobhall_protocol::{LogStream, schema};
use schemars::JsonSchema;
use serde::Deserialize;

use super::history;
use super::log_form::Form;
use crate::auth::tokens::Identity;
use crate::auth::visibility;
use crate::blobs::logs::{Follow, Found};
use crate::error::{self, Answer, ApiError};
use crate::metrics::Counted;
use crate::request::{params, range};
use crate::response::stream::{self, Left, Writer, pipe};
use crate::server::app::App;

/// Interval at which a follower checks whether its attempt has ended without a notification.
const LOOK: Duration = Duration::from_millis(200);

/// The log and the format.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogQuery {
    /// Attempt id such as `17-2`, or attempt number starting at 1; default: the last attempt.
    #[schemars(with = "Option<schema::WhichAttempt>")]
    attempt: Option<String>,
    /// Stream new output until the attempt ends.
    #[serde(default)]
    follow: bool,
    /// `stdout` or `stderr`; default: both. `note` selects the notes of the worker instead: lines of JSON.
    #[schemars(with = "Option<LogStream>")]
    stream: Option<String>,
    /// Byte offset in the log to start at.
    #[serde(default)]
    from: u64,
}

pub(super) async fn log(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let id = params::job_id(&id)?;
    let asked: LogQuery = params::query(&uri)?;
    let form = Form::of(asked.stream.as_deref(), &headers)?;
    let shown = visibility::shown(&app, &who, id).await?;
    let attempt = history::attempt(&app, &shown.job, asked.attempt.as_deref()).await?;
    if asked.follow {
        return Ok(error::body(form.kind(), follow(&app, who, id, attempt, asked.from, form)?));
    }
    match attempt {
        Some(attempt) if form.is_whole() && asked.from == 0 => {
            read(&app, form.log(attempt), form.kind(), &headers).await
        }
        Some(attempt) => Ok(error::body(form.kind(), chunks(&app, attempt, asked.from, form).await?)),
        None => Ok(error::body(form.kind(), "")),
    }
}

async fn read(app: &Arc<App>, log: LogKey, kind: &'static str, headers: &HeaderMap) -> Answer {
    let total = app.logs.info(log).await?.len;
    let range = range::asked(headers, total)?;
    let bytes = range.clone().unwrap_or(0..total);
    let body = pieces(app, log, bytes.start, bytes.end).await?;
    let mut response = match range {
        Some(range) => error::part(kind, &range::label(&range, total), body),
        None => error::body(kind, body),
    };
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes.end - bytes.start));
    Ok(response)
}

/// All formatted chunks from an offset to the current end of the log.
async fn chunks(app: &Arc<App>, attempt: AttemptId, mut from: u64, form: Form) -> Result<Body, ApiError> {
    // Before the response starts, so that an unreachable database is reported as an error.
    let log = form.log(attempt);
    let end = app.logs.info(log).await?.len;
    let (writer, body) = pipe();
    let app = app.clone();
    tokio::spawn(async move {
        let told = async {
            while from < end {
                let entries = app.logs.entries(log, from).await?;
                from = entries.next;
                writer.write(form.write(entries.items)?).await.map_err(|Left| None)?;
            }
            Ok::<_, Option<ApiError>>(())
        };
        if let Err(Some(trouble)) = told.await {
            broken_off(&writer, &trouble).await;
        }
    });
    Ok(body)
}

async fn broken_off(writer: &Writer, trouble: &ApiError) {
    tracing::error!("a log stream was aborted: {}", trouble.inside().unwrap_or(trouble.detail()));
    writer.fail().await;
}

/// Bytes from one offset to another, in chunks, so that a large log is never in memory as a whole. The first chunk is
/// read before the response starts.
async fn pieces(app: &Arc<App>, log: LogKey, mut from: u64, to: u64) -> Result<Body, ApiError> {
    if from >= to {
        return Ok(Body::empty());
    }
    let first = app.logs.read(log, from, to).await?;
    from += first.len() as u64;
    let (writer, body) = pipe();
    let app = app.clone();
    stream::spawn(async move {
        if writer.write(first).await.is_err() {
            return;
        }
        while from < to {
            match app.logs.read(log, from, to).await {
                Ok(bytes) => {
                    from += bytes.len() as u64;
                    if writer.write(bytes).await.is_err() {
                        return;
                    }
                }
                Err(trouble) => return broken_off(&writer, &trouble).await,
            }
        }
    });
    Ok(body)
}

/// Streams the existing output and then new output until the attempt ends. If the job is waiting, waits for its
/// start.
fn follow(
    app: &Arc<App>,
    who: Identity,
    id: JobId,
    attempt: Option<AttemptId>,
    from: u64,
    form: Form,
) -> Result<Body, ApiError> {
    let share = app.shares.waiting(&who)?;
    let (writer, body) = pipe();
    let app = app.clone();
    stream::spawn(async move {
        let _counted = (Counted::new(&app.metrics.live_clients), share);
        tokio::select! {
            told = follow_job(&app, &writer, id, attempt, from, form) => {
                if let Err(Some(trouble)) = told {
                    broken_off(&writer, &trouble).await;
                }
            }
            () = writer.left() => {}
            () = app.closed() => {}
            () = app.tokens.gone(&who) => {}
        }
    });
    Ok(body)
}

/// Ends with an error, or with none if the reader disconnected.
async fn follow_job(
    app: &App,
    writer: &Writer,
    id: JobId,
    attempt: Option<AttemptId>,
    from: u64,
    form: Form,
) -> Result<(), Option<ApiError>> {
    let attempt = match attempt {
        Some(attempt) => attempt,
        None => match first_attempt(app, id).await? {
            Some(attempt) => attempt,
            None => return Ok(()),
        },
    };
    let mut follow = app.logs.follow(form.log(attempt), from).await?;
    let mut over = false;
    loop {
        loop {
            match follow.look().await? {
                Found::Chunks(entries) => writer.write(form.write(entries)?).await.map_err(|Left| None)?,
                Found::Nothing => break,
                Found::End => return Ok(()),
            }
        }
        if over {
            return Ok(());
        }
        // Asked after the output was sent, so that output does not wait for it. Output that arrived before the end was
        // seen is still sent.
        over = is_over(app, attempt).await?;
        if !over {
            wait(&follow).await;
        }
    }
}

async fn wait(follow: &Follow) {
    // An attempt can end without its log being completed, for instance when its worker is lost.
    let _ = tokio::time::timeout(LOOK, follow.news()).await;
}

/// Waits for the first attempt of a job; none if the job ends without one.
async fn first_attempt(app: &App, id: JobId) -> Result<Option<AttemptId>, ApiError> {
    // Before the first look, so that no change between them is missed.
    let (mut changes, mut stored) = (app.engine.changes_of(id), 0);
    loop {
        let shown = app.engine.show(id).await?;
        let found = history::attempt(app, &shown.job, None).await?;
        if found.is_some() || shown.job.status.state.is_terminal() {
            return Ok(found);
        }
        // A change is published a moment before the engine shows it.
        if shown.job.status.rev >= stored {
            stored = changes.next().await;
        }
    }
}

/// Whether the attempt has ended.
async fn is_over(app: &App, attempt: AttemptId) -> Result<bool, ApiError> {
    let shown = app.engine.show(attempt.job).await?;
    let status = &shown.job.status;
    Ok(status.claim != attempt.claim || status.state.leased().is_none())
}
