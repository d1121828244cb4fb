//! Scope checks. A job outside the scope of a token is hidden: the response is the same as for a job that does not
//! exist.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jobhall_core::{GroupId, Job, JobId};
use jobhall_engine::{Rejected, Shown, Watched};
use jobhall_store::Store;

use crate::auth::tokens::Identity;
use crate::error::ApiError;
use crate::server::app::App;

/// A job that the identity may see.
pub(crate) async fn shown(app: &App, who: &Identity, id: JobId) -> Result<Shown, ApiError> {
    let none = || ApiError::from(Rejected::NoSuchJob(id));
    if !who.sees_id(id) {
        return Err(none());
    }
    let shown = app.engine.show(id).await?;
    if who.sees(&shown.job) { Ok(shown) } else { Err(none()) }
}

/// Refuses a job that the identity may not see.
pub(crate) async fn check(app: &App, who: &Identity, id: JobId) -> Result<(), ApiError> {
    if who.sees_all() { Ok(()) } else { shown(app, who, id).await.map(drop) }
}

/// Those of these jobs that the identity may see.
pub(crate) async fn seen(app: &App, who: &Identity, ids: Vec<JobId>) -> Result<HashSet<JobId>, ApiError> {
    let jobs = app.store.jobs(ids).await?;
    Ok(jobs.into_iter().flatten().filter(|job| who.sees(job)).map(|job| job.id).collect())
}

/// Maximum number of jobs whose visibility a watcher caches.
const REMEMBERED: usize = 10_000;

/// A watcher that may not see all jobs, or that selects one group. The queue and group of a job never change, so one
/// read per job is enough.
pub(crate) struct Eyes {
    store: Arc<dyn Store>,
    who: Identity,
    group: Option<GroupId>,
    known: HashMap<JobId, bool>,
}

impl Eyes {
    pub(crate) fn new(store: Arc<dyn Store>, who: Identity) -> Eyes {
        Eyes { store, who, group: None, known: HashMap::new() }
    }

    /// Restricts the watcher to jobs of this group.
    pub(crate) fn for_group(self, group: Option<GroupId>) -> Eyes {
        Eyes { group, ..self }
    }

    /// The identity of the watcher.
    pub(crate) fn whose(&self) -> Identity {
        self.who.clone()
    }

    /// The part of these events that the watcher may see.
    pub(crate) async fn see(&mut self, watched: Watched) -> Result<Option<Watched>, ApiError> {
        if self.who.sees_all() && self.group.is_none() {
            return Ok(Some(watched));
        }
        Ok(match watched {
            Watched::Reset(_) | Watched::Missed => Some(watched),
            Watched::Group(id, _) => {
                let seen = self.who.sees_all() && self.group.is_none_or(|group| group == id);
                seen.then_some(watched)
            }
            Watched::Progress(id, _) => {
                self.look(vec![id]).await?;
                self.sees(id).then_some(watched)
            }
            Watched::Live(id, state) => {
                self.look(vec![id]).await?;
                self.sees(id).then_some(Watched::Live(id, state))
            }
            Watched::Row(mut row) => {
                self.look(row.entries.iter().map(|entry| entry.id).collect()).await?;
                row.entries.retain(|entry| self.sees(entry.id));
                Some(Watched::Row(row))
            }
        })
    }

    fn sees(&self, id: JobId) -> bool {
        self.known.get(&id) == Some(&true)
    }

    async fn look(&mut self, mut ids: Vec<JobId>) -> Result<(), ApiError> {
        if self.known.len() > REMEMBERED {
            self.known.clear();
        }
        ids.retain(|id| !self.known.contains_key(id));
        if !ids.is_empty() {
            let jobs = self.store.jobs(ids.clone()).await?;
            let meant = |job: &Job| self.group.is_none_or(|group| job.spec.group == Some(group));
            let seen =
                jobs.iter().map(|job| job.as_ref().is_some_and(|job| self.who.sees(job) && meant(job)));
            self.known.extend(ids.into_iter().zip(seen.collect::<Vec<_>>()));
        }
        Ok(())
    }
}
