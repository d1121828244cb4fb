//! Retention: removes completed jobs, ended groups, old feed rows, idempotency keys and audit entries, a
//! bounded step at a time.
//!
//! A pass reads the jobs from the oldest up and ends at the first that is too young for every rule. It does not read
//! ranges again that it left before, while nothing in them can be removed ([`Segments`]). If there are more jobs of a
//! type than its rule allows, it reads on until enough are removed, from where it stopped the last time ([`Floors`]).
//!
//! A group is removed after its jobs: it must have ended, none of its jobs may be left, and no request may be answered
//! with it any more, because the feed and the idempotency keys of its time have been removed.

use std::collections::HashMap;

use jobhall_core::retention::{Completed, Fate};
use jobhall_core::{GroupId, JobId, Time};
use jobhall_store::{CommitError, CompletedPage, Prune, Pruned, RemovedJob, StoreError};

use super::floors::Floors;
use super::kept::{CompletedCounts, CountOf};
use super::segments::Segments;
use super::{Service, Wake};
use crate::api::time::Mono;
use crate::kernel::{Kernel, StoreRequest};

pub(super) const SERVICE: Service = Service { name: "retention", next, run };

/// After this time at the latest it is examined again whether the newest success of a key is still the newest.
const SPARED_MS: u64 = 24 * 3_600_000;

/// What retention knows between and during its passes.
#[derive(Debug)]
pub(crate) struct Walk {
    at: Option<Mono>,
    pass: Option<Pass>,
    segments: Segments,
    floors: Floors,
    pub(super) kept: CompletedCounts,
    /// The highest id that was examined.
    highest: u64,
    /// Jobs removed since the start.
    pub removed: u64,
}

/// A pass over the completed jobs, oldest first.
#[derive(Debug)]
struct Pass {
    now: Time,
    /// Everything up to this id was examined or skipped.
    cursor: u64,
    /// Jobs submitted then or later are too young for every rule; none: no rule has an age.
    young: Option<Time>,
    /// The jobs of which there are too many, with the number that is kept.
    over: HashMap<CountOf, u64>,
    /// Jobs that have ended since the current page was requested, with the time until which they are kept.
    ended: Vec<(u64, CountOf, Time)>,
    /// Whether the pass begins again, because what it was based on has changed.
    stale: bool,
}

impl Walk {
    pub fn at(at: Mono) -> Walk {
        Walk {
            at: Some(at),
            pass: None,
            segments: Segments::default(),
            floors: Floors::default(),
            kept: CompletedCounts::default(),
            highest: 0,
            removed: 0,
        }
    }

    /// Forgets what earlier passes have found. A pass in progress begins again.
    pub(super) fn forget(&mut self) {
        self.segments.clear();
        self.floors.clear();
        if let Some(pass) = &mut self.pass {
            pass.stale = true;
        }
    }

    /// A job has ended. A pass may have gone past its id before.
    fn ended(&mut self, id: JobId, of: CountOf, until: Time) {
        let id = id.get();
        self.segments.ended(id, until);
        let below = self.floors.ended(&of, id);
        let Some(pass) = self.pass.as_mut().filter(|pass| !below && pass.over.contains_key(&of)) else {
            return;
        };
        if id <= pass.cursor {
            pass.over.remove(&of);
        } else {
            pass.ended.push((id, of, until));
        }
    }

    /// Whether a pass may have gone past this id.
    fn has_passed(&self, id: JobId) -> bool {
        self.pass.is_some() || id.get() <= self.highest
    }

    /// Skips ranges that need not be read, and returns after which id to read.
    fn skip(&mut self) -> Option<u64> {
        let pass = self.pass.as_mut()?;
        while let Some(last) = self.segments.skip(pass.cursor + 1, pass.now) {
            match pass.over.keys().map(|of| self.floors.get(of).id).min() {
                Some(floor) if floor < last => {
                    pass.cursor = pass.cursor.max(floor);
                    break;
                }
                _ => pass.cursor = last,
            }
        }
        Some(pass.cursor)
    }
}

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.retention.at.map(Wake::Mono)
}

fn run(kernel: &mut Kernel) {
    let now = kernel.env.wall();
    kernel.deadlines.retention.at = None;
    kernel.want(StoreRequest::Prune(Prune {
        feed_before: Some(now.minus_ms(kernel.env.config().feed_ms)),
        idempotency_keys_before: Some(now.minus_ms(kernel.env.config().idempotency_key_ms)),
        audit_before: Some(now.minus_ms(kernel.env.config().audit_ms)),
        ..Prune::default()
    }));
    kernel.begin_counting();
    if kernel.settings.removes_jobs() {
        kernel.begin_pass();
    } else {
        kernel.walk_groups(None);
    }
}

impl Kernel {
    fn begin_pass(&mut self) {
        let now = self.env.wall();
        let young = self.settings.shortest_keep_ms().map(|keep_ms| now.minus_ms(keep_ms));
        let walk = &mut self.deadlines.retention;
        let keep = |of: &CountOf| self.settings.keep_count(of);
        let counts = walk.kept.iter().filter_map(|(of, count)| Some((of, count, keep(of)?)));
        let over = counts.filter(|(of, count, keep)| walk.floors.above(of, *count) > *keep);
        let over = over.map(|(of, _, keep)| (of.clone(), keep)).collect();
        walk.pass = Some(Pass { now, cursor: 0, young, over, ended: Vec::new(), stale: false });
        self.next_page();
    }

    /// Reads the next jobs that may have to be removed.
    fn next_page(&mut self) {
        if self.deadlines.retention.pass.as_ref().is_some_and(|pass| pass.stale) {
            return self.begin_pass();
        }
        let Some(after) = self.deadlines.retention.skip() else { return };
        if let Some(pass) = &mut self.deadlines.retention.pass {
            pass.ended.clear();
        }
        let step = self.env.config().retention_step;
        self.want(StoreRequest::Completed(JobId::new(after).ok(), step));
    }

    pub(crate) fn retention_page(&mut self, result: Result<CompletedPage, StoreError>) {
        let Some(mut pass) = self.deadlines.retention.pass.take() else { return };
        let Ok(page) = result else { return self.end_walk() };
        let Some((last, created_at)) = page.last else { return self.walk_groups(None) };
        if pass.stale {
            self.deadlines.retention.pass = Some(pass);
            return self.next_page();
        }
        let late: Vec<_> = std::mem::take(&mut pass.ended)
            .into_iter()
            .filter(|(id, ..)| *id <= last.get() && !page.jobs.iter().any(|job| job.id.get() == *id))
            .collect();
        late.iter().for_each(|(_, of, _)| {
            pass.over.remove(of);
        });
        let (jobs, until) = self.examine(&page.jobs, &mut pass);
        let walk = &mut self.deadlines.retention;
        walk.segments.put(pass.cursor + 1, last.get(), until);
        late.iter().for_each(|(id, _, until)| walk.segments.ended(*id, *until));
        pass.cursor = last.get();
        walk.highest = walk.highest.max(last.get());
        let is_finished = pass.over.is_empty() && pass.young.is_none_or(|young| created_at >= young);
        walk.pass = Some(pass);
        match (jobs.is_empty(), is_finished) {
            (false, _) => {
                self.relations.inputs.remove(&jobs);
                self.want(StoreRequest::Prune(Prune { jobs, ..Prune::default() }));
            }
            (true, false) => self.next_page(),
            (true, true) => self.walk_groups(None),
        }
    }

    /// Decides about the jobs of a page: which are removed, and until when none of the others is.
    fn examine(&mut self, page: &[Completed], pass: &mut Pass) -> (Vec<JobId>, Time) {
        let (mut gone, mut going, mut until) = (Vec::new(), HashMap::new(), Time::EPOCH.plus_ms(u64::MAX));
        for job in page {
            if self.jobs.contains(job.id) {
                // Its end is stored, but the reply is pending: its dependents are not ended, and it is not counted.
                until = Time::EPOCH;
                continue;
            }
            let rule = self.settings.rule(&job.job_type, &job.queue);
            let of = self.settings.count_of(&job.job_type, &job.queue);
            let beyond = self.is_beyond(job.id.get(), &of, rule.keep.keep_count, &going, pass);
            let fate = match rule.fate(job, beyond, pass.now) {
                Fate::Removed if self.is_needed(job) => Fate::KeptUntil(Time::EPOCH),
                Fate::Spared(end) => Fate::KeptUntil(end.min(pass.now.plus_ms(SPARED_MS))),
                fate => fate,
            };
            let floors = &mut self.deadlines.retention.floors;
            match fate {
                Fate::KeptUntil(end) | Fate::Spared(end) => until = until.min(end),
                Fate::Removed => {
                    floors.leaves(&of, job.id.get());
                    *going.entry(of.clone()).or_default() += 1;
                    gone.push(job.id);
                }
            }
            if beyond {
                floors.applied(&of, job.id.get(), fate != Fate::Removed);
            }
        }
        (gone, until)
    }

    /// Whether there are enough newer jobs of those that are counted together.
    fn is_beyond(
        &self,
        id: u64,
        of: &CountOf,
        keep: Option<u64>,
        going: &HashMap<CountOf, u64>,
        pass: &mut Pass,
    ) -> bool {
        let walk = &self.deadlines.retention;
        let Some(keep) = keep.filter(|_| walk.kept.is_counted()) else { return false };
        let count = walk.kept.count(of).saturating_sub(going.get(of).copied().unwrap_or(0));
        let above = walk.floors.above(of, count);
        if id <= walk.floors.get(of).id {
            return above >= keep;
        }
        // What is above the floor was read completely only if this was known when the pass began.
        let beyond = above > keep && pass.over.contains_key(of);
        if !beyond {
            pass.over.remove(of);
        }
        beyond
    }

    /// Whether open jobs or groups still refer to a completed job. An open parent may request its sub-jobs again.
    fn is_needed(&self, job: &Completed) -> bool {
        self.relations.needs(job.id)
            || self.relations.is_wanted(job.id)
            || job.parent.is_some_and(|parent| self.jobs.contains(parent))
            || job.group.is_some_and(|group| self.groups.get(group).is_some())
    }

    /// An open job has ended.
    pub(crate) fn count_end(&mut self, id: JobId) {
        let Some(class) = self.jobs.get(id).and_then(|entry| self.board.class(entry.class)) else { return };
        let of = self.settings.count_of(&class.job_type, &class.queue);
        let walk = &mut self.deadlines.retention;
        walk.kept.ended(id, &of);
        if walk.has_passed(id) {
            let keep_ms = self.settings.rule(&class.job_type, &class.queue).keep.keep_ms;
            walk.ended(id, of, self.env.wall().plus_ms(keep_ms.unwrap_or(u64::MAX)));
        }
        self.bound_counts();
    }

    /// A rule has changed.
    pub(crate) fn rules_changed(&mut self) {
        self.deadlines.retention.forget();
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
        self.relations.inputs.removed(ids);
        match result {
            Ok(pruned) => {
                self.jobs.removed(ids);
                self.deadlines.retention.removed += pruned.jobs.len() as u64;
                self.count_removed(&pruned.jobs);
                if !ids.is_empty() {
                    self.next_page();
                }
            }
            Err(error) => {
                self.storage_failed(&error);
                // Which of the jobs are stored is known again after they are read.
                self.deadlines.retention.forget();
                self.end_walk();
            }
        }
    }

    fn count_removed(&mut self, jobs: &[RemovedJob]) {
        for job in jobs {
            let of = self.settings.count_of(&job.job_type, &job.queue);
            self.deadlines.retention.kept.removed(job.id, &of);
        }
    }

    /// These jobs were removed on request.
    pub(crate) fn removed_early(&mut self, jobs: &[RemovedJob]) {
        self.count_removed(jobs);
        let below = |job: &RemovedJob| {
            let of = self.settings.count_of(&job.job_type, &job.queue);
            job.id.get() <= self.deadlines.retention.floors.get(&of).id
        };
        if jobs.iter().any(below) {
            self.deadlines.retention.forget();
        }
    }

    /// Completed jobs removed by retention since the start.
    pub fn removed_count(&self) -> u64 {
        self.deadlines.retention.removed
    }
}
