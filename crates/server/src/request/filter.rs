//! Job filters: validation, and search in the store one page at a time.
//!
//! The store knows stored states only. Whether a job is scheduled, retrying or queued depends on the current time,
//! the progress of a live attempt may not be stored yet, and texts are not indexed. These conditions are evaluated
//! here, row by row.

use jobhall_core::bounds::SEARCH_BYTES;
use jobhall_core::{
    GroupId, Job, JobId, Key, Owner, QueueName, Scope, State, StateName, Tag, Time, TypeName,
};
use jobhall_protocol as wire;
use jobhall_store::{JobFilter, JobPage};

use crate::error::ApiError;
use crate::request::params::shown;
use crate::server::app::{App, now};

/// A validated filter.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    stored: JobFilter,
    names: Vec<StateName>,
    /// In lower case.
    text: Option<String>,
}

impl Filter {
    /// A filter for a caller with access to these queues.
    pub(crate) fn new(asked: &wire::JobFilter, scope: Scope) -> Result<Filter, ApiError> {
        let names = states(asked.state.as_deref())?;
        let mut stored_names: Vec<_> = names.iter().flat_map(stored).copied().collect();
        stored_names.sort_unstable();
        stored_names.dedup();
        let stored = JobFilter {
            states: stored_names,
            job_type: asked.job_type.as_deref().map(TypeName::new).transpose().map_err(ApiError::bad)?,
            key: asked.key.as_deref().map(Key::new).transpose().map_err(ApiError::bad)?,
            queue: asked.queue.as_deref().map(QueueName::new).transpose().map_err(ApiError::bad)?,
            // The store applies the scope, so that the end of a page does not depend on jobs outside of it.
            scope,
            group: asked.group.map(GroupId::new).transpose().map_err(ApiError::bad)?,
            owner: asked.owner.as_deref().map(Owner::new).transpose().map_err(ApiError::bad)?,
            tag: asked.tag.as_deref().map(Tag::new).transpose().map_err(ApiError::bad)?,
            created_after: asked.created_after.map(|at| at.0),
            created_before: asked.created_before.map(|at| at.0),
        };
        let text = asked.q.as_deref().map(search).transpose()?;
        Ok(Filter { stored, names, text })
    }

    /// Whether the filter matches every job.
    pub(crate) fn is_all(&self) -> bool {
        self.stored == JobFilter::default() && self.text.is_none()
    }

    /// Whether the store alone cannot evaluate the filter.
    pub(crate) fn is_searching(&self) -> bool {
        self.text.is_some()
    }

    /// The matching jobs among at most `rows` below `before`, and where to continue.
    pub(crate) async fn look(
        &self,
        app: &App,
        before: Option<JobId>,
        rows: usize,
    ) -> Result<JobPage, ApiError> {
        let moment = now();
        let page = app.engine.list(self.stored.clone(), before, rows).await?;
        let mut jobs = live(app, page.jobs).await?;
        jobs.retain(|job| self.means(job, moment));
        Ok(JobPage { jobs, next: page.next })
    }

    fn means(&self, job: &Job, moment: Time) -> bool {
        (self.names.is_empty() || self.names.contains(&job.status.name(moment)))
            && self.text.as_ref().is_none_or(|text| has(job, text))
    }
}

/// Several states are separated by commas.
fn states(text: Option<&str>) -> Result<Vec<StateName>, ApiError> {
    let name = |word: &str| {
        let known = StateName::ALL.into_iter().find(|name| name.as_str() == word);
        known.ok_or_else(|| ApiError::bad(format!("state: {} is not a state", shown(word))))
    };
    let mut names: Vec<_> = text.map_or(Ok(Vec::new()), |text| text.split(',').map(name).collect())?;
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// The stored states in which a job of this name may be found.
fn stored(name: &StateName) -> &[StateName] {
    match name {
        StateName::Scheduled | StateName::Retrying => &[StateName::Queued],
        StateName::Assigned | StateName::Accepted | StateName::Running | StateName::Waiting => {
            &[StateName::Assigned, StateName::Accepted, StateName::Running, StateName::Waiting]
        }
        // A job may still be stored as blocked after the job it depends on ended; the change is stored with its
        // claim, or shortly after.
        StateName::Queued => &[StateName::Queued, StateName::Blocked],
        other => std::slice::from_ref(other),
    }
}

fn search(text: &str) -> Result<String, ApiError> {
    if !(1..=SEARCH_BYTES).contains(&text.len()) {
        return Err(ApiError::bad(format!(
            "q has {} bytes, which is outside 1 to {SEARCH_BYTES}",
            text.len()
        )));
    }
    Ok(text.to_lowercase())
}

/// Whether a text in lower case is in the job's type, key, params or error.
fn has(job: &Job, text: &str) -> bool {
    let error = job.status.state.error();
    let fields = [
        Some(job.spec.job_type.as_str()),
        job.spec.key.as_ref().map(Key::as_str),
        Some(job.spec.params.as_str()),
        error.map(|error| error.reason.as_str()),
        error.map(|error| error.explanation.as_str()),
    ];
    fields.into_iter().flatten().any(|field| field.to_lowercase().contains(text))
}

/// Replaces jobs that are claimed or blocked with the engine's current version.
async fn live(app: &App, mut jobs: Vec<Job>) -> Result<Vec<Job>, ApiError> {
    let ahead = |state: &State| state.leased().is_some() || matches!(state, State::Blocked(_));
    let held: Vec<_> = (0..jobs.len()).filter(|&at| ahead(&jobs[at].status.state)).collect();
    let ids: Vec<_> = held.iter().map(|&at| jobs[at].id).collect();
    for (at, shown) in held.into_iter().zip(app.engine.show_each(&ids).await?) {
        // A job that was removed in the meantime stays as it was read.
        if let Ok(shown) = shown {
            jobs[at] = shown.job;
        }
    }
    Ok(jobs)
}
