//! The reference store: plain maps under one lock. Its behaviour defines the rules of the port.
//!
//! A database guards only by `rev`. This store also asks `core` whether the step is a possible result of the
//! transition function, and panics if not: a wrong step is a bug of the caller, and tests should fail.

mod apply;
mod excerpt;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobhall_core::retention::Completed;
use jobhall_core::{Group, GroupId, Job, JobId, Key, PastAttempt, RecordKind, Submitted, Time, TypeName};

use crate::{
    AuditRow, Block, BlockChange, CommitError, Committed, CompletedPage, FeedPage, FeedRow, GroupFilter,
    GroupPage, JobCount, JobCounts, JobFilter, JobPage, Later, Link, Member, Prune, Pruned, Record,
    RecordFilter, RecordPage, RemovedJob, ReuseRange, Setting, SettingKind, Store, StoreError, Unit,
};

pub use excerpt::Excerpt;

/// A (type, key).
type KeyOf = (TypeName, Key);

/// A store that loses its data when it is dropped. The methods `…_now` are those of [`Store`] without a future.
#[derive(Debug, Default)]
pub struct Memory {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    jobs: BTreeMap<JobId, Job>,
    attempts: BTreeMap<JobId, Vec<PastAttempt>>,
    live_keys: BTreeMap<KeyOf, JobId>,
    next_keys: BTreeMap<KeyOf, JobId>,
    settings: BTreeMap<(SettingKind, String), Setting>,
    groups: BTreeMap<GroupId, Group>,
    records: BTreeMap<(RecordKind, Key), Record>,
    links: BTreeMap<(JobId, String), JobId>,
    idempotency_keys: BTreeMap<(String, String), StoredKey>,
    blocks: BTreeMap<JobId, Block>,
    last_id: u64,
    feed: Vec<FeedRow>,
    feed_pruned_to: u64,
    audit: Vec<AuditRow>,
    last_act: u64,
    /// Whether steps are not checked with `core`.
    trusting: bool,
}

#[derive(Clone, Debug)]
struct StoredKey {
    body: u128,
    answer: Vec<Submitted>,
    at: Time,
}

impl Memory {
    pub fn new() -> Memory {
        Memory::default()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn commit_now(&self, units: Vec<Unit>) -> Committed {
        self.tables().commit(units)
    }

    pub fn take_block_now(&self, size: u64) -> Block {
        self.tables().take_block(size)
    }

    pub fn settle_blocks_now(&self, changes: Vec<BlockChange>) {
        self.tables().settle_blocks(changes);
    }

    pub fn prune_now(&self, prune: &Prune) -> Pruned {
        self.tables().prune(prune)
    }

    pub fn jobs_now(&self, ids: &[JobId]) -> Vec<Option<Job>> {
        let tables = self.tables();
        ids.iter().map(|id| tables.jobs.get(id).cloned()).collect()
    }

    /// All jobs in id order, for checkers that compare the whole state.
    pub fn all_jobs(&self) -> Vec<Job> {
        self.tables().jobs.values().cloned().collect()
    }

    pub fn attempts_now(&self, id: JobId) -> Vec<PastAttempt> {
        self.tables().attempts.get(&id).cloned().unwrap_or_default()
    }

    pub fn open_jobs_now(&self, after: Option<JobId>, limit: usize) -> Vec<Job> {
        self.tables().open_jobs(after, limit)
    }

    pub fn blocks_now(&self) -> Vec<Block> {
        self.tables().blocks.values().cloned().collect()
    }

    pub fn completed_now(&self, after: Option<JobId>, limit: usize) -> CompletedPage {
        self.tables().completed(after, limit)
    }

    pub fn count_completed_now(&self, after: Option<JobId>, last: JobId, except: &[JobId]) -> JobCounts {
        self.tables().count_completed(after, last, except)
    }

    pub fn list_now(&self, filter: &JobFilter, before: Option<JobId>, limit: usize) -> JobPage {
        let tables = self.tables();
        let older = tables.jobs.values().rev().filter(|job| before.is_none_or(|before| job.id < before));
        let mut shown = older.filter(|job| filter.shows(job));
        let jobs: Vec<_> = shown.by_ref().take(limit).cloned().collect();
        let next = shown.next().and(jobs.last()).map(|job| job.id);
        JobPage { jobs, next }
    }

    pub fn group_now(&self, id: GroupId) -> Option<(Group, Vec<Member>)> {
        let tables = self.tables();
        let group = tables.groups.get(&id).cloned()?;
        Some((group, tables.members(id, None, usize::MAX)))
    }

    /// All groups, or the open ones, oldest first.
    pub fn groups_now(&self, open: bool) -> Vec<Group> {
        let mut groups = self.tables().group_page(&GroupFilter::all(open), None, usize::MAX).groups;
        groups.reverse();
        groups
    }

    pub fn links_now(&self, after: Option<&(JobId, String)>, limit: usize) -> Vec<Link> {
        self.tables().links(after, limit)
    }

    pub fn settings_now(&self) -> Vec<Setting> {
        self.tables().settings.values().cloned().collect()
    }

    /// All records by kind and key.
    pub fn records_now(&self) -> Vec<Record> {
        self.tables().records.values().cloned().collect()
    }

    pub fn audit_now(&self, before: Option<u64>, limit: usize) -> Vec<AuditRow> {
        let tables = self.tables();
        let older = tables.audit.iter().rev().filter(|row| before.is_none_or(|before| row.n < before));
        older.take(limit).cloned().collect()
    }

    pub fn feed_now(&self, after: u64, limit: usize) -> FeedPage {
        self.tables().feed(after, limit)
    }

    pub fn feed_end_now(&self) -> u64 {
        self.tables().feed_end()
    }
}

impl Tables {
    fn take_block(&mut self, size: u64) -> Block {
        let id = |n| JobId::new(n).expect("ids of a test run stay in range");
        let (first, last) = (id(self.last_id + 1), id(self.last_id + size.max(1)));
        self.last_id = last.get();
        let block = Block { first, last, live: None };
        self.blocks.insert(first, block.clone());
        block
    }

    fn settle_blocks(&mut self, changes: Vec<BlockChange>) {
        for change in changes {
            match change {
                BlockChange::Close(first) => {
                    self.blocks.remove(&first);
                }
                BlockChange::Shrink(first, live) => {
                    if let Some(block) = self.blocks.get_mut(&first) {
                        block.live = Some(live);
                    }
                }
            }
        }
    }

    fn prune(&mut self, prune: &Prune) -> Pruned {
        let mut pruned = Pruned::default();
        for id in &prune.jobs {
            if self.jobs.get(id).is_some_and(|job| job.status.state.is_terminal())
                && let Some(job) = self.jobs.remove(id)
            {
                self.attempts.remove(id);
                self.links.retain(|(parent, _), _| parent != id);
                let (job_type, queue) = (job.spec.job_type.clone(), job.spec.queue.clone());
                pruned.jobs.push(RemovedJob { id: *id, job_type, queue });
            }
        }
        for id in &prune.groups {
            if self.groups.get(id).is_some_and(|group| group.end.is_some()) {
                self.groups.remove(id);
            }
        }
        if let Some(before) = prune.feed_before {
            let gone = self.feed.iter().take_while(|row| row.at < before).count();
            if let Some(last) = self.feed.drain(..gone).next_back() {
                self.feed_pruned_to = last.n;
            }
            pruned.feed = gone as u64;
        }
        if let Some(before) = prune.idempotency_keys_before {
            let all = self.idempotency_keys.len();
            self.idempotency_keys.retain(|_, stored| stored.at >= before);
            pruned.idempotency_keys = (all - self.idempotency_keys.len()) as u64;
        }
        if let Some(before) = prune.audit_before {
            let all = self.audit.len();
            self.audit.retain(|row| row.entry.at >= before);
            pruned.audit = (all - self.audit.len()) as u64;
        }
        for (kind, before) in &prune.records {
            let all = self.records.len();
            self.records.retain(|(of, _), record| of != kind || record.at >= *before);
            pruned.records += (all - self.records.len()) as u64;
        }
        pruned
    }

    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Vec<Job> {
        let mut found = Vec::new();
        for block in self.blocks.values() {
            let ids: Vec<JobId> = match &block.live {
                Some(live) => live.clone(),
                None => self.jobs.range(block.first..=block.last).map(|(&id, _)| id).collect(),
            };
            let open =
                ids.iter().filter_map(|id| self.jobs.get(id)).filter(|job| !job.status.state.is_terminal());
            found.extend(open.filter(|job| after.is_none_or(|after| job.id > after)).cloned());
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        found
    }

    fn completed(&self, after: Option<JobId>, limit: usize) -> CompletedPage {
        let examined: Vec<_> = self.above(after).take(limit).collect();
        CompletedPage {
            jobs: examined.iter().filter_map(|job| self.completed_job(job)).collect(),
            last: examined.last().map(|job| (job.id, job.spec.created_at)),
        }
    }

    /// Jobs in id order, after this one.
    fn above(&self, after: Option<JobId>) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(move |job| after.is_none_or(|after| job.id > after))
    }

    fn completed_job(&self, job: &Job) -> Option<Completed> {
        Some(Completed {
            id: job.id,
            job_type: job.spec.job_type.clone(),
            queue: job.spec.queue.clone(),
            created_at: job.spec.created_at,
            ended_at: job.status.state.ended_at()?,
            newest_success: self.is_newest_success(job),
            parent: job.spec.parent,
            group: job.spec.group,
        })
    }

    fn is_newest_success(&self, job: &Job) -> bool {
        let succeeded = |job: &Job| job.status.state.name() == jobhall_core::StateName::Succeeded;
        let same = |later: &Job| later.spec.job_type == job.spec.job_type && later.spec.key == job.spec.key;
        job.spec.key.is_some()
            && succeeded(job)
            && !self.above(Some(job.id)).any(|later| same(later) && succeeded(later))
    }

    fn count_completed(&self, after: Option<JobId>, last: JobId, except: &[JobId]) -> JobCounts {
        let mut counts = BTreeMap::<_, u64>::new();
        let jobs = self.above(after).take_while(|job| job.id <= last);
        for job in jobs.filter(|job| job.status.state.is_terminal() && !except.contains(&job.id)) {
            *counts.entry((job.spec.job_type.clone(), job.spec.queue.clone())).or_default() += 1;
        }
        let counts = counts.into_iter().map(|((job_type, queue), jobs)| JobCount { job_type, queue, jobs });
        JobCounts { counts: counts.collect(), next: self.above(Some(last)).next().map(|job| job.id) }
    }

    fn group_page(&self, filter: &GroupFilter, before: Option<GroupId>, limit: usize) -> GroupPage {
        let older = self.groups.values().rev().filter(|group| before.is_none_or(|before| group.id < before));
        let shown = older.filter(|group| filter.shows(group)).cloned();
        GroupPage::cut(shown.collect(), true, filter, limit)
    }

    fn members(&self, group: GroupId, after: Option<JobId>, limit: usize) -> Vec<Member> {
        let jobs = self.jobs.values().filter(|job| job.spec.group == Some(group));
        let later = jobs.filter(|job| after.is_none_or(|after| job.id > after));
        let member = |job: &Job| Member {
            id: job.id,
            copy_of: job.spec.copy_of,
            attached: job.spec.attached,
            state: job.status.state.name(),
        };
        later.take(limit).map(member).collect()
    }

    fn links(&self, after: Option<&(JobId, String)>, limit: usize) -> Vec<Link> {
        let later = self.links.iter().filter(|(at, _)| after.is_none_or(|after| *at > after));
        let link = |((parent, call), job): (&(JobId, String), &JobId)| Link {
            parent: *parent,
            call: call.clone(),
            job: *job,
        };
        later.take(limit).map(link).collect()
    }

    fn record_page(&self, filter: &RecordFilter, after: Option<&Key>, limit: usize) -> RecordPage {
        let shown = self.records.values().filter(|record| filter.shows(record));
        let later = shown.filter(|record| after.is_none_or(|after| record.key > *after));
        RecordPage::cut(later.cloned(), limit)
    }

    fn feed_end(&self) -> u64 {
        self.feed.last().map_or(self.feed_pruned_to, |row| row.n)
    }

    fn feed(&self, after: u64, limit: usize) -> FeedPage {
        let rows = self.feed.iter().filter(|row| row.n > after).take(limit).cloned().collect();
        FeedPage { rows, pruned_to: self.feed_pruned_to }
    }
}

fn ready<T: Send + 'static>(value: T) -> Later<T> {
    Box::pin(std::future::ready(value))
}

impl Store for Memory {
    fn commit(&self, units: Vec<Unit>) -> Later<Result<Committed, CommitError>> {
        ready(Ok(self.commit_now(units)))
    }

    fn take_block(&self, size: u64) -> Later<Result<Block, CommitError>> {
        ready(Ok(self.take_block_now(size)))
    }

    fn settle_blocks(&self, changes: Vec<BlockChange>) -> Later<Result<(), CommitError>> {
        self.settle_blocks_now(changes);
        ready(Ok(()))
    }

    fn prune(&self, prune: Prune) -> Later<Result<Pruned, CommitError>> {
        ready(Ok(self.prune_now(&prune)))
    }

    fn jobs(&self, ids: Vec<JobId>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        ready(Ok(self.jobs_now(&ids)))
    }

    fn attempts(&self, id: JobId, skip: usize, limit: usize) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        let mut past = self.attempts_now(id);
        past.truncate(past.len().saturating_sub(skip));
        past.drain(..past.len().saturating_sub(limit));
        ready(Ok(past))
    }

    fn attempts_of_jobs(
        &self,
        ids: Vec<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Vec<PastAttempt>>, StoreError>> {
        let newest = |id: &JobId| {
            let mut past = self.attempts_now(*id);
            past.split_off(past.len().saturating_sub(limit))
        };
        ready(Ok(ids.iter().map(newest).collect()))
    }

    fn successes(&self, keys: Vec<KeyOf>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        let tables = self.tables();
        let newest = |key: &KeyOf| tables.success(key, ReuseRange::since(Time::EPOCH));
        ready(Ok(keys.iter().map(newest).collect()))
    }

    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>> {
        ready(Ok(self.open_jobs_now(after, limit)))
    }

    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>> {
        ready(Ok(self.blocks_now()))
    }

    fn completed(&self, after: Option<JobId>, limit: usize) -> Later<Result<CompletedPage, StoreError>> {
        ready(Ok(self.completed_now(after, limit)))
    }

    fn count_completed(
        &self,
        after: Option<JobId>,
        last: JobId,
        except: Vec<JobId>,
    ) -> Later<Result<JobCounts, StoreError>> {
        ready(Ok(self.count_completed_now(after, last, &except)))
    }

    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Later<Result<JobPage, StoreError>> {
        ready(Ok(self.list_now(&filter, before, limit)))
    }

    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>> {
        let tables = self.tables();
        ready(Ok(ids.iter().map(|id| tables.groups.get(id).cloned()).collect()))
    }

    fn group_page(
        &self,
        filter: GroupFilter,
        before: Option<GroupId>,
        limit: usize,
    ) -> Later<Result<GroupPage, StoreError>> {
        ready(Ok(self.tables().group_page(&filter, before, limit)))
    }

    fn members(
        &self,
        group: GroupId,
        after: Option<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Member>, StoreError>> {
        ready(Ok(self.tables().members(group, after, limit)))
    }

    fn links(&self, after: Option<(JobId, String)>, limit: usize) -> Later<Result<Vec<Link>, StoreError>> {
        ready(Ok(self.tables().links(after.as_ref(), limit)))
    }

    fn settings(&self, kind: Option<SettingKind>) -> Later<Result<Vec<Setting>, StoreError>> {
        let mut settings = self.settings_now();
        settings.retain(|setting| kind.is_none_or(|kind| setting.kind == kind));
        ready(Ok(settings))
    }

    fn records(&self, keys: Vec<(RecordKind, Key)>) -> Later<Result<Vec<Option<Record>>, StoreError>> {
        let tables = self.tables();
        ready(Ok(keys.iter().map(|key| tables.records.get(key).cloned()).collect()))
    }

    fn record_page(
        &self,
        filter: RecordFilter,
        after: Option<Key>,
        limit: usize,
    ) -> Later<Result<RecordPage, StoreError>> {
        ready(Ok(self.tables().record_page(&filter, after.as_ref(), limit)))
    }

    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        ready(Ok(self.audit_now(before, limit)))
    }

    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        ready(Ok(self.feed_now(after, limit)))
    }

    fn feed_end(&self) -> Later<Result<u64, StoreError>> {
        ready(Ok(self.feed_end_now()))
    }
}
