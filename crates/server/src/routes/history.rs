//! The attempts of a job. A job is shown with its newest attempts, without large data of their errors. The list of its
//! attempts has all of them in pages.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::http::Uri;
use jobhall_core::{AttemptId, Job, PastAttempt};
use jobhall_engine::Shown;
use jobhall_protocol::{self as wire, Code, Page, schema};
use schemars::JsonSchema;
use serde::Deserialize;

use super::large;
use crate::auth::tokens::Identity;
use crate::auth::visibility;
use crate::error::{self, Answer, ApiError};
use crate::request::params;
use crate::request::params::PAGE_BYTES;
use crate::response::to_wire;
use crate::server::app::{App, now};

/// Ended attempts that are shown with a job.
const SHOWN: usize = 20;
/// Default page size of the list.
const LIMIT: usize = 20;
const LIMIT_MOST: usize = 100;
/// Attempts that are read at once: each may have 272 KiB.
const AT_ONCE: usize = 10;

/// A job with its progress and its newest attempts.
pub(super) async fn job(app: &App, shown: &Shown) -> Result<wire::Job, ApiError> {
    to_wire::shown(shown, &past(app, &shown.job, 0, SHOWN).await?, now())
}

/// Ended attempts of a job as it was read: at most `limit` of those before the newest `skip`, oldest first.
async fn past(app: &App, job: &Job, skip: usize, limit: usize) -> Result<Vec<PastAttempt>, ApiError> {
    let last = u32::from(job.status.state.lease().is_some());
    // Each ended attempt had a claim, so a new job has none.
    if job.status.claim <= last {
        return Ok(Vec::new());
    }
    let mut past = app.store.attempts(job.id, skip, limit).await?;
    // Another attempt may have ended since the job was read.
    past.retain(|past| past.claim <= job.status.claim - last);
    Ok(past)
}

/// The requested attempt, by id or number; by default the last one.
pub(super) async fn attempt(
    app: &App,
    job: &Job,
    asked: Option<&str>,
) -> Result<Option<AttemptId>, ApiError> {
    let id = |claim| AttemptId { job: job.id, claim };
    let last = job.status.state.lease().map(|_| job.status.claim);
    let Some(text) = asked else {
        let claim = match last {
            None => past(app, job, 0, 1).await?.pop().map(|past| past.claim),
            last => last,
        };
        return Ok(claim.map(id));
    };
    let claim = match text.parse::<u32>() {
        Ok(number) => numbered(app, job, number, last).await?,
        Err(_) => {
            let attempt = params::attempt_id(text)?;
            Some(attempt.claim).filter(|claim| attempt.job == job.id && *claim <= job.status.claim)
        }
    };
    let none =
        || ApiError::new(Code::NotFound, format!("job {} has no attempt {}", job.id, params::shown(text)));
    claim.map(|claim| Some(id(claim))).ok_or_else(none)
}

/// The claim of an attempt by its number, from 1.
async fn numbered(app: &App, job: &Job, number: u32, last: Option<u32>) -> Result<Option<u32>, ApiError> {
    let ended = job.status.past_attempts();
    if number == ended + 1 {
        return Ok(last);
    }
    let Some(skip) = ended.checked_sub(number).filter(|_| number > 0) else { return Ok(None) };
    Ok(past(app, job, skip as usize, 1).await?.pop().map(|past| past.claim))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AttemptsQuery {
    /// Page size, at most 100; default 20. A page ends earlier at 4 MiB.
    #[schemars(range(min = 1, max = LIMIT_MOST))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::NumberCursor<'s'>>")]
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer {
    let asked: AttemptsQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, LIMIT, LIMIT_MOST)?;
    let skip = asked.cursor.as_deref().map(|text| params::cursor('s', text)).transpose()?;
    let job = visibility::shown(&app, &who, params::job_id(&id)?).await?.job;
    let _turn = app.shares.page_turn(&who).await?;
    let last = to_wire::last_attempt(&job)?;
    let last_claim = last.as_ref().map(|_| job.status.claim);
    let mut items: Vec<_> = last.filter(|_| skip.is_none()).into_iter().collect();
    let (mut skip, mut bytes) = (skip.map_or(0, |skip| usize::try_from(skip).unwrap_or(usize::MAX)), 0);
    let mut more = true;
    while more && items.len() < limit && bytes < PAGE_BYTES {
        let wanted = AT_ONCE.min(limit - items.len());
        let past = app.store.attempts(job.id, skip, wanted).await?;
        more = past.len() == wanted;
        for past in past.iter().rev() {
            if bytes >= PAGE_BYTES {
                more = true;
                break;
            }
            skip = skip.saturating_add(1);
            // The last attempt may have ended since the job was read; then it is here too.
            if Some(past.claim) != last_claim {
                bytes += size(past);
                items.push(to_wire::past_attempt(&job, past, true)?);
            }
        }
    }
    let next_cursor = more.then(|| format!("s{skip:x}"));
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    large::hold(&app.shares, &who, error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

fn size(past: &PastAttempt) -> usize {
    let failure = &past.failure;
    let progress = past.progress.iter().map(|measure| measure.name.len() + measure.message.len());
    failure.explanation.len()
        + failure.data.as_ref().map_or(0, |data| data.as_str().len())
        + progress.sum::<usize>()
}
