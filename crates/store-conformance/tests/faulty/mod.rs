//! A store with a selectable fault: a wrapper around the reference that changes the input or the output.

mod fault;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobhall_core::{Group, GroupId, Job, JobId, Key, PastAttempt, RecordKind, Time, TypeName};
use jobhall_store::{
    AuditRow, Block, BlockChange, CommitError, Committed, CompletedPage, Conflict, FeedPage, GroupFilter,
    GroupPage, JobCounts, JobFilter, JobPage, Later, Link, Member, Memory, Prune, Pruned, Record,
    RecordFilter, RecordPage, Setting, SettingKind, Store, StoreError, Unit,
};

pub use fault::Fault;

pub struct Faulty {
    memory: std::sync::Arc<Memory>,
    fault: Fault,
    kept: Mutex<Kept>,
}

/// State of some faults.
#[derive(Default)]
struct Kept {
    keys: BTreeMap<(TypeName, Key), Job>,
    hidden: Vec<JobId>,
    hidden_groups: Vec<GroupId>,
}

impl Faulty {
    /// An empty store with this fault.
    pub fn new(fault: Fault) -> Faulty {
        Faulty { memory: Memory::new().into(), fault, kept: Mutex::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// These jobs, in another order if that is the fault.
    fn mixed(&self, mut ids: Vec<JobId>) -> Vec<JobId> {
        if self.has(Fault::MixesAttempts) {
            ids.reverse();
        }
        ids
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit_now(&self, mut units: Vec<Unit>) -> Committed {
        let lost = if self.has(Fault::LosesTheLastUnit) && units.len() > 1 { units.pop() } else { None };
        units.iter_mut().for_each(|unit| self.fault.spoil(unit, &self.memory));
        let mut committed = if self.has(Fault::CommitsEachUnitAlone) {
            self.commit_alone(units)
        } else if self.has(Fault::KeepsKeys) {
            self.commit_keeping_keys(units)
        } else if self.has(Fault::StopsAtARefusal) {
            self.commit_up_to_a_refusal(units)
        } else {
            self.commit_and_half_of_the_refused(units)
        };
        committed.results.extend(lost.map(|_| Ok(Default::default())));
        self.fault.spoil_results(&mut committed);
        committed
    }

    fn commit_alone(&self, units: Vec<Unit>) -> Committed {
        let mut all = Committed { feed: None, results: Vec::new() };
        for unit in units {
            let one = self.memory.commit_now(vec![unit]);
            all.feed = one.feed.or(all.feed);
            all.results.extend(one.results);
        }
        all
    }

    /// An ended job keeps its key for later commits.
    fn commit_keeping_keys(&self, units: Vec<Unit>) -> Committed {
        let mut kept = self.kept();
        let key_of = |job: &Job| job.spec.key.clone().map(|key| (job.spec.job_type.clone(), key));
        let refused: Vec<Option<Conflict>> = (units.iter())
            .map(|unit| {
                let insert =
                    unit.inserts.iter().find(|insert| unit.changes.is_empty() && insert.reuse.is_none())?;
                let job = kept.keys.get(&key_of(&insert.job)?)?.clone();
                Some(Conflict::KeyHeld { id: insert.job.id, job })
            })
            .collect();
        let ids: Vec<JobId> = units.iter().flat_map(|unit| &unit.changes).map(|change| change.id).collect();
        let real =
            units.into_iter().zip(&refused).filter(|(_, refused)| refused.is_none()).map(|(unit, _)| unit);
        let committed = self.memory.commit_now(real.collect());
        let ended =
            self.memory.jobs_now(&ids).into_iter().flatten().filter(|job| job.status.state.is_terminal());
        kept.keys.extend(ended.filter_map(|job| Some((key_of(&job)?, job))));
        let mut results = committed.results.into_iter();
        let answer = |refused: Option<Conflict>| {
            refused.map_or_else(|| results.next(), |conflict| Some(Err(vec![conflict])))
        };
        Committed { feed: committed.feed, results: refused.into_iter().filter_map(answer).collect() }
    }

    fn commit_up_to_a_refusal(&self, units: Vec<Unit>) -> Committed {
        let all = units.len();
        let mut done = self.commit_alone(Vec::new());
        for unit in units {
            let one = self.memory.commit_now(vec![unit]);
            done.feed = done.feed.or(one.feed);
            done.results.extend(one.results);
            if done.results.last().is_some_and(Result::is_err) {
                break;
            }
        }
        let refusal = done.results.last().cloned();
        done.results.extend(refusal.into_iter().cycle().take(all - done.results.len()));
        done
    }

    fn commit_and_half_of_the_refused(&self, units: Vec<Unit>) -> Committed {
        let committed = self.memory.commit_now(units.clone());
        let refused = units.into_iter().zip(&committed.results).filter(|(_, result)| result.is_err());
        for (unit, _) in refused {
            if self.has(Fault::WritesHalfAUnit) {
                let inserts = unit.inserts.into_iter().take(1).collect();
                self.memory.commit_now(vec![Unit { inserts, ..Unit::default() }]);
            } else if self.has(Fault::WritesRefusedRecords) {
                let alone = |write| Unit { records: vec![write], ..Unit::default() };
                self.memory.commit_now(unit.records.into_iter().map(alone).collect());
            }
        }
        committed
    }
}

fn ready<T: Send + 'static>(value: T) -> Later<T> {
    Box::pin(std::future::ready(value))
}

impl Store for Faulty {
    fn commit(&self, units: Vec<Unit>) -> Later<Result<Committed, CommitError>> {
        if self.has(Fault::CommitsWhenAwaited) {
            let memory = self.memory.clone();
            return Box::pin(async move { Ok(memory.commit_now(units)) });
        }
        ready(Ok(self.commit_now(units)))
    }

    fn take_block(&self, size: u64) -> Later<Result<Block, CommitError>> {
        let highest = self.memory.blocks_now().iter().map(|block| block.last.get()).max().unwrap_or(0);
        let mut block = self.memory.take_block_now(size);
        if self.has(Fault::ReusesIds) {
            let id = |n| JobId::new(n).expect("a small number is an id");
            (block.first, block.last) = (id(highest + 1), id(highest + size));
        }
        ready(Ok(block))
    }

    fn settle_blocks(&self, changes: Vec<BlockChange>) -> Later<Result<(), CommitError>> {
        let ignored = |change: &BlockChange| {
            self.has(Fault::KeepsClosedBlocks) && matches!(change, BlockChange::Close(_))
        };
        self.memory.settle_blocks_now(changes.into_iter().filter(|change| !ignored(change)).collect());
        ready(Ok(()))
    }

    fn prune(&self, prune: Prune) -> Later<Result<Pruned, CommitError>> {
        if self.has(Fault::PrunesOpenJobs) {
            self.kept().hidden.extend(&prune.jobs);
        }
        if self.has(Fault::PrunesOpenGroups) {
            self.kept().hidden_groups.extend(&prune.groups);
        }
        let mut prune = prune;
        if self.has(Fault::PrunesYoungRecords) {
            let never = Time::from_ms(jobhall_core::bounds::TIME_MS).expect("the latest time");
            prune.records.iter_mut().for_each(|(_, before)| *before = never);
        }
        ready(Ok(self.memory.prune_now(&prune)))
    }

    fn jobs(&self, ids: Vec<JobId>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        let hidden = &self.kept().hidden;
        let jobs = self.memory.jobs_now(&ids).into_iter();
        ready(Ok(jobs.map(|job| job.filter(|job| !hidden.contains(&job.id))).collect()))
    }

    fn attempts(&self, id: JobId, skip: usize, limit: usize) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        self.memory.attempts(id, skip, limit)
    }

    fn attempts_of_jobs(
        &self,
        ids: Vec<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Vec<PastAttempt>>, StoreError>> {
        self.memory.attempts_of_jobs(self.mixed(ids), limit)
    }

    fn successes(&self, keys: Vec<(TypeName, Key)>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        let mut keys = keys;
        if self.has(Fault::MixesSuccesses) {
            keys.reverse();
        }
        self.memory.successes(keys)
    }

    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>> {
        ready(Ok(self.memory.open_jobs_now(after, limit)))
    }

    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>> {
        ready(Ok(self.memory.blocks_now()))
    }

    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Later<Result<JobPage, StoreError>> {
        ready(Ok(self.memory.list_now(&filter, before, limit)))
    }

    fn completed(&self, after: Option<JobId>, limit: usize) -> Later<Result<CompletedPage, StoreError>> {
        let mut page = self.memory.completed_now(after, limit);
        if self.has(Fault::CompletedNewestFirst) {
            page.jobs.reverse();
        }
        if self.has(Fault::EverySuccessIsNewest) {
            page.jobs.iter_mut().for_each(|job| job.newest_success = true);
        }
        ready(Ok(page))
    }

    fn count_completed(
        &self,
        after: Option<JobId>,
        last: JobId,
        except: Vec<JobId>,
    ) -> Later<Result<JobCounts, StoreError>> {
        let except = if self.has(Fault::CountsExceptedJobs) { Vec::new() } else { except };
        self.memory.count_completed(after, last, except)
    }

    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>> {
        let hidden = &self.kept().hidden_groups;
        let stored = |id: &GroupId| self.memory.group_now(*id).map(|(group, _)| group);
        ready(Ok(ids.iter().map(|id| stored(id).filter(|group| !hidden.contains(&group.id))).collect()))
    }

    fn group_page(
        &self,
        filter: GroupFilter,
        before: Option<GroupId>,
        limit: usize,
    ) -> Later<Result<GroupPage, StoreError>> {
        let filter = if self.has(Fault::IgnoresGroupFilter) { GroupFilter::all(filter.open) } else { filter };
        self.memory.group_page(filter, before, limit)
    }

    fn members(
        &self,
        group: GroupId,
        after: Option<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Member>, StoreError>> {
        self.memory.members(group, after, limit)
    }

    fn links(&self, after: Option<(JobId, String)>, limit: usize) -> Later<Result<Vec<Link>, StoreError>> {
        self.memory.links(after, limit)
    }

    fn settings(&self, kind: Option<SettingKind>) -> Later<Result<Vec<Setting>, StoreError>> {
        self.memory.settings(kind)
    }

    fn records(&self, keys: Vec<(RecordKind, Key)>) -> Later<Result<Vec<Option<Record>>, StoreError>> {
        self.memory.records(keys)
    }

    fn record_page(
        &self,
        filter: RecordFilter,
        after: Option<Key>,
        limit: usize,
    ) -> Later<Result<RecordPage, StoreError>> {
        let prefix = if self.has(Fault::IgnoresRecordPrefix) { String::new() } else { filter.prefix };
        self.memory.record_page(RecordFilter { prefix, ..filter }, after, limit)
    }

    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        ready(Ok(self.memory.audit_now(before, limit)))
    }

    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        let mut page = self.memory.feed_now(after, limit);
        if self.has(Fault::FeedHole) {
            page.rows.retain(|row| row.n % 3 != 0);
        }
        ready(Ok(page))
    }

    fn feed_end(&self) -> Later<Result<u64, StoreError>> {
        let kept = self.memory.feed_now(0, usize::MAX).rows.last().map_or(0, |row| row.n);
        ready(Ok(if self.has(Fault::FeedEndForgets) { kept } else { self.memory.feed_end_now() }))
    }
}
