//! Retention: removes completed jobs, ended groups, old feed rows, idempotency keys and audit entries, a
//! bounded step at a time.
//!
//! A group is removed after its jobs: it must have ended, none of its jobs may be left, and no request may be answered
//! with it any more, because the feed and the idempotency keys of its time have been removed.

use jobhall_core::retention::{Completed, Pass};
use jobhall_core::{GroupId, JobId};
use jobhall_store::{CommitError, Prune, Pruned, StoreError};

use super::{Service, Wake};
use crate::api::time::Mono;
use crate::kernel::{Kernel, StoreRequest};

pub(super) const SERVICE: Service = Service { name: "retention", next, run };

/// The iteration over completed jobs, newest first.
#[derive(Debug)]
pub(crate) struct Walk {
    at: Option<Mono>,
    pass: Option<Pass>,
    cursor: Option<JobId>,
    /// Jobs removed since the start.
    pub removed: u64,
}

impl Walk {
    pub fn at(at: Mono) -> Walk {
        Walk { at: Some(at), pass: None, cursor: None, removed: 0 }
    }
}

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.retention.at.map(Wake::Mono)
}

fn run(kernel: &mut Kernel) {
    let now = kernel.env.wall();
    kernel.deadlines.retention.at = None;
    kernel.want(StoreRequest::Prune(Prune {
        jobs: Vec::new(),
        groups: Vec::new(),
        feed_before: Some(now.minus_ms(kernel.env.config().feed_ms)),
        idempotency_keys_before: Some(now.minus_ms(kernel.env.config().idempotency_key_ms)),
        audit_before: Some(now.minus_ms(kernel.env.config().audit_ms)),
    }));
    if kernel.settings.removes_jobs() {
        kernel.deadlines.retention.pass = Some(Pass::new(now));
        kernel.deadlines.retention.cursor = None;
        let step = kernel.env.config().retention_step;
        kernel.want(StoreRequest::Completed(None, step));
    } else {
        kernel.walk_groups(None);
    }
}

impl Kernel {
    pub(crate) fn retention_page(&mut self, result: Result<Vec<Completed>, StoreError>) {
        let Ok(page) = result else { return self.end_walk() };
        let Some(last) = page.last().map(|job| job.id) else { return self.walk_groups(None) };
        let Some(mut pass) = self.deadlines.retention.pass.take() else { return };
        // The end of a job may be stored while the reply is pending; its dependents are not ended yet then. An open
        // parent may request its sub-jobs again.
        let needed = |job: &Completed| {
            self.jobs.contains(job.id) || self.is_needed(job) || self.relations.is_wanted(job.id)
        };
        let gone = page.iter().filter(|job| pass.removes(job, &self.type_config(&job.job_type)));
        let jobs: Vec<_> = gone.filter(|job| !needed(job)).map(|job| job.id).collect();
        self.deadlines.retention.pass = Some(pass);
        self.deadlines.retention.cursor = Some(last);
        if jobs.is_empty() {
            return self.next_page();
        }
        self.want(StoreRequest::Prune(Prune { jobs, ..Prune::default() }));
    }

    /// Whether open jobs or groups still refer to a completed job.
    fn is_needed(&self, job: &Completed) -> bool {
        self.relations.needs(job.id)
            || job.parent.is_some_and(|parent| self.jobs.contains(parent))
            || job.group.is_some_and(|group| self.groups.get(group).is_some())
    }

    fn next_page(&mut self) {
        let step = self.env.config().retention_step;
        self.want(StoreRequest::Completed(self.deadlines.retention.cursor, step));
    }

    /// Reads the groups below this one that may be removed.
    fn walk_groups(&mut self, before: Option<GroupId>) {
        let kept_ms = self.env.config().feed_ms.max(self.env.config().idempotency_key_ms);
        let ended_before = self.env.wall().minus_ms(kept_ms);
        self.want(StoreRequest::Emptied(before, ended_before, self.env.config().retention_step));
    }

    pub(crate) fn emptied_page(&mut self, result: Result<(Vec<GroupId>, Option<GroupId>), StoreError>) {
        let Ok((groups, last)) = result else { return self.end_walk() };
        if !groups.is_empty() {
            self.want(StoreRequest::Prune(Prune { groups, ..Prune::default() }));
        }
        match last {
            Some(_) => self.walk_groups(last),
            None => self.end_walk(),
        }
    }

    fn end_walk(&mut self) {
        let walk = &mut self.deadlines.retention;
        walk.pass = None;
        walk.at = Some(self.env.mono().plus_ms(self.env.config().retention_ms));
    }

    pub(crate) fn pruned(&mut self, ids: &[JobId], result: Result<Pruned, CommitError>) {
        match result {
            Ok(pruned) => {
                self.jobs.removed(ids);
                self.deadlines.retention.removed += pruned.jobs;
                if self.deadlines.retention.cursor.is_some() && pruned.jobs > 0 {
                    self.next_page();
                }
            }
            Err(error) => {
                self.storage_failed(&error);
                self.end_walk();
            }
        }
    }

    /// Completed jobs removed by retention since the start.
    pub fn removed_count(&self) -> u64 {
        self.deadlines.retention.removed
    }
}
