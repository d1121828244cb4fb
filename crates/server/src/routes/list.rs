//! Lists of jobs, newest first, in pages.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::Uri;
use jobhall_core::{Job, JobId, Key, QueueName, StateName, TypeName};
use jobhall_engine::{Answer as Told, Request};
use jobhall_protocol::Page;
use jobhall_store::JobFilter;
use serde::Deserialize;

use crate::app::{App, now};
use crate::error::{self, Answer, Trouble};
use crate::tokens::Identity;
use crate::{params, tell};

/// Jobs on a page.
const LIMIT: usize = 50;
const LIMIT_MOST: usize = 500;
/// Pages of the store that one request reads at most, when most of what they have is filtered out.
const READS: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    state: Option<String>,
    #[serde(rename = "type")]
    job_type: Option<String>,
    key: Option<String>,
    queue: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    let asked: Asked = params::query(&uri)?;
    let limit = asked.limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MOST).contains(&limit) {
        return Err(Trouble::bad(format!("limit of {limit} is outside 1 to {LIMIT_MOST}")));
    }
    let names = states(asked.state.as_deref())?;
    let filter = filter(&asked, &names)?;
    let before = asked.cursor.as_deref().map(from_cursor).transpose()?;
    let (jobs, next) = read(&app, &who, filter, &names, before, limit).await?;
    let items = jobs.iter().map(|job| tell::job(job, now())).collect::<Result<Vec<_>, _>>()?;
    Ok(error::ok(&Page { items, next_cursor: next.map(to_cursor) }))
}

/// Reads until the page is full. The store knows stored states only: what is scheduled, retrying or simply queued
/// depends on the moment, and how far a live attempt is may not be stored yet; both are told apart here.
async fn read(
    app: &App,
    who: &Identity,
    filter: JobFilter,
    names: &[StateName],
    mut before: Option<JobId>,
    limit: usize,
) -> Result<(Vec<Job>, Option<JobId>), Trouble> {
    let mut jobs = Vec::new();
    let moment = now();
    for _ in 0..READS {
        let page = app.engine.list(filter.clone(), before, limit - jobs.len()).await?;
        let named = |job: &Job| names.is_empty() || names.contains(&job.life.name(moment));
        let shown = |job: &Job| named(job) && who.sees(job);
        jobs.extend(live(app, page.jobs).await?.into_iter().filter(shown));
        before = page.next;
        if jobs.len() >= limit || before.is_none() {
            break;
        }
    }
    Ok((jobs, before))
}

/// The jobs, those in the hands of workers as the engine knows them.
async fn live(app: &App, mut jobs: Vec<Job>) -> Result<Vec<Job>, Trouble> {
    let held: Vec<_> = (0..jobs.len()).filter(|&at| jobs[at].life.state.held().is_some()).collect();
    let ask = held.iter().map(|&at| Request::Show(jobs[at].id)).collect();
    for (at, told) in held.into_iter().zip(app.engine.ask_many(ask).await?) {
        // One that was removed meanwhile stays as it was read.
        if let Ok(Told::Shown(shown)) = told {
            jobs[at] = shown.job;
        }
    }
    Ok(jobs)
}

fn filter(asked: &Asked, names: &[StateName]) -> Result<JobFilter, Trouble> {
    let mut states: Vec<_> = names.iter().flat_map(stored).copied().collect();
    states.sort_unstable();
    states.dedup();
    Ok(JobFilter {
        states,
        job_type: asked.job_type.as_deref().map(TypeName::new).transpose().map_err(Trouble::bad)?,
        key: asked.key.as_deref().map(Key::new).transpose().map_err(Trouble::bad)?,
        queue: asked.queue.as_deref().map(QueueName::new).transpose().map_err(Trouble::bad)?,
    })
}

/// Several states are separated by commas.
fn states(text: Option<&str>) -> Result<Vec<StateName>, Trouble> {
    let name = |word: &str| {
        let known = StateName::ALL.into_iter().find(|name| name.as_str() == word);
        known.ok_or_else(|| Trouble::bad(format!("{word:?} is not a state")))
    };
    text.map_or(Ok(Vec::new()), |text| text.split(',').map(name).collect())
}

/// The stored states in which a job of this name may be found.
fn stored(name: &StateName) -> &[StateName] {
    match name {
        StateName::Scheduled | StateName::Retrying => &[StateName::Queued],
        StateName::Assigned | StateName::Accepted | StateName::Running => {
            &[StateName::Assigned, StateName::Accepted, StateName::Running]
        }
        other => std::slice::from_ref(other),
    }
}

fn to_cursor(id: JobId) -> String {
    format!("b{:x}", id.get())
}

fn from_cursor(text: &str) -> Result<JobId, Trouble> {
    let number = text.strip_prefix('b').and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let id = number.and_then(|number| JobId::new(number).ok());
    id.ok_or_else(|| Trouble::bad(format!("{text:?} is not a cursor of this list")))
}
