//! A job's log: all of it, a byte range, or as it grows.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::header::{self, CONTENT_LENGTH};
use axum::http::{HeaderMap, HeaderValue, Uri};
use jobhall_blobs::{ByteRange, RangeError};
use jobhall_core::{AttemptId, JobId};
use jobhall_engine::Shown;
use jobhall_protocol::Code;
use serde::Deserialize;

use crate::app::App;
use crate::error::{self, Answer, Trouble};
use crate::logs::{Follow, Found};
use crate::metrics::Counted;
use crate::stream::{Left, Writer, pipe};
use crate::tokens::Identity;
use crate::{params, reach};

/// A log is bytes of any kind: nothing may take them for a page.
const KIND: &str = "text/plain; charset=utf-8";
/// How often a follower looks whether its attempt has begun or ended without a word.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// `17-2`, or the number of the attempt from 1; the last one if missing.
    attempt: Option<String>,
    #[serde(default)]
    follow: bool,
}

pub(super) async fn log(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let id = params::job_id(&id)?;
    let asked: Asked = params::query(&uri)?;
    let shown = reach::shown(&app, &who, id).await?;
    let attempt = attempt(&shown, asked.attempt.as_deref())?;
    if asked.follow {
        return Ok(error::body(KIND, follow(&app, who, id, attempt)));
    }
    match attempt {
        Some(attempt) => read(&app, attempt, &headers).await,
        None => Ok(error::body(KIND, "")),
    }
}

/// The claims of all attempts, oldest first.
fn claims(shown: &Shown) -> Vec<u32> {
    let last = shown.job.life.state.tenure().map(|_| shown.job.life.claim);
    shown.past.iter().map(|past| past.claim).chain(last).collect()
}

fn attempt(shown: &Shown, asked: Option<&str>) -> Result<Option<AttemptId>, Trouble> {
    let (job, claims) = (shown.job.id, claims(shown));
    let Some(text) = asked else {
        return Ok(claims.last().map(|claim| AttemptId { job, claim: *claim }));
    };
    let claim = match text.parse::<usize>() {
        Ok(number) => number.checked_sub(1).and_then(|at| claims.get(at)).copied(),
        Err(_) => {
            let attempt = params::attempt_id(text)?;
            claims.contains(&attempt.claim).then_some(attempt.claim).filter(|_| attempt.job == job)
        }
    };
    let none = || Trouble::new(Code::NotFound, format!("job {job} has no attempt {text}"));
    Ok(Some(AttemptId { job, claim: claim.ok_or_else(none)? }))
}

async fn read(app: &Arc<App>, attempt: AttemptId, headers: &HeaderMap) -> Answer {
    let total = app.logs.info(attempt).await?.len;
    let range = headers.get(header::RANGE).and_then(|range| byte_range(range.to_str().ok()?));
    let bytes = range.unwrap_or(ByteRange::All).resolve(total).map_err(|error| match error {
        RangeError::Unsatisfiable { total } => {
            let trouble = Trouble::new(Code::RangeNotSatisfiable, error.to_string());
            trouble.with_header(header::CONTENT_RANGE, &format!("bytes */{total}"))
        }
        RangeError::Backwards { .. } => Trouble::bad(error),
    })?;
    let body = pieces(app, attempt, bytes.start, bytes.end);
    let mut response = match range {
        Some(_) => {
            let last = bytes.end.saturating_sub(1);
            error::part(KIND, &format!("bytes {}-{last}/{total}", bytes.start), body)
        }
        None => error::body(KIND, body),
    };
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes.end - bytes.start));
    Ok(response)
}

/// One range in bytes. Anything else is none of our ranges, and HTTP has it ignored.
fn byte_range(text: &str) -> Option<ByteRange> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    match (first.trim(), last.trim()) {
        ("", last) => Some(ByteRange::Suffix(last.parse().ok()?)),
        (first, "") => Some(ByteRange::From(first.parse().ok()?)),
        (first, last) => Some(ByteRange::FromTo(first.parse().ok()?, last.parse().ok()?)),
    }
}

/// Bytes from one offset to another, some at a time, so that a large log never lies in memory.
fn pieces(app: &Arc<App>, attempt: AttemptId, mut from: u64, to: u64) -> Body {
    let (writer, body) = pipe();
    let app = app.clone();
    tokio::spawn(async move {
        while from < to {
            match app.logs.read(attempt, from, to).await {
                Ok(bytes) => {
                    from += bytes.len() as u64;
                    if writer.write(bytes).await.is_err() {
                        return;
                    }
                }
                Err(trouble) => {
                    tracing::error!("a log broke off: {}", trouble.inside().unwrap_or("unknown"));
                    return writer.fail().await;
                }
            }
        }
    });
    body
}

/// What is there, then what comes, until the attempt ends. A job that waits is waited for.
fn follow(app: &Arc<App>, who: Identity, id: JobId, attempt: Option<AttemptId>) -> Body {
    let (writer, body) = pipe();
    let app = app.clone();
    tokio::spawn(async move {
        let _counted = Counted::new(&app.metrics.live_clients);
        tokio::select! {
            told = follow_job(&app, &writer, id, attempt) => {
                if let Err(Some(trouble)) = told {
                    tracing::error!("a log broke off: {}", trouble.inside().unwrap_or("unknown"));
                    writer.fail().await;
                }
            }
            () = writer.left() => {}
            () = app.drained() => {}
            () = app.tokens.gone(&who) => {}
        }
    });
    body
}

/// Ends with an error: a trouble, or none where the reader has left.
async fn follow_job(
    app: &App,
    writer: &Writer,
    id: JobId,
    attempt: Option<AttemptId>,
) -> Result<(), Option<Trouble>> {
    let attempt = match attempt {
        Some(attempt) => attempt,
        None => match first_attempt(app, id).await? {
            Some(attempt) => attempt,
            None => return Ok(()),
        },
    };
    let mut follow = app.logs.follow(attempt, 0)?;
    loop {
        let over = is_over(app, attempt).await?;
        // What came before the end was seen is still told.
        loop {
            match follow.look().await? {
                Found::Bytes(bytes) => writer.write(bytes).await.map_err(|Left| None)?,
                Found::Nothing => break,
                Found::End => return Ok(()),
            }
        }
        if over {
            return Ok(());
        }
        wait(&follow).await;
    }
}

async fn wait(follow: &Follow) {
    // An attempt can end without its log being completed, for instance when its worker is lost.
    let _ = tokio::time::timeout(LOOK, follow.news()).await;
}

async fn first_attempt(app: &App, id: JobId) -> Result<Option<AttemptId>, Trouble> {
    loop {
        let shown = app.engine.show(id).await?;
        let found = attempt(&shown, None)?;
        if found.is_some() || shown.job.life.state.is_terminal() {
            return Ok(found);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether nobody works on this attempt any more.
async fn is_over(app: &App, attempt: AttemptId) -> Result<bool, Trouble> {
    let shown = app.engine.show(attempt.job).await?;
    let life = &shown.job.life;
    Ok(life.claim != attempt.claim || life.state.held().is_none())
}
