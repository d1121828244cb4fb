//! The reads of the port. A read of several statements runs on one snapshot.

use std::collections::{BTreeSet, HashMap};

use jobhall_core::retention::Completed;
use jobhall_core::{
    GroupId, Job, JobId, Key, Owner, PastAttempt, QueueName, Scope, StateName, Time, TypeName,
};
use jobhall_store::{
    AuditEntry, AuditRow, Block, CompletedPage, FeedPage, FeedRow, JobCount, JobCounts, JobFilter, JobPage,
    ReuseRange, Setting, SettingKind, unpack,
};
use tokio_postgres::Row;

use crate::connect::wire::{Step, Wire};
use crate::error::{PgError, damaged};
use crate::rows::row::{self, get, number};
use crate::writer::upkeep;

/// Number of ids scanned for one page of a list.
const STRETCH: i64 = 100_000;

/// A statement that returns whole jobs.
macro_rules! select_job {
    ($file:literal) => {
        concat!(include_str!("sql/select_job.sql"), include_str!("sql/spec_columns.sql"), include_str!($file))
    };
}

const JOB: &str = select_job!("sql/job.sql");

/// The reads over one connection.
pub(crate) struct Reads<'c>(pub(crate) Wire<'c>);

/// The state codes as bits; all states if the list is empty.
fn state_bits(states: &[StateName]) -> i64 {
    let bits = states.iter().fold(0, |bits, &state| bits | 1 << state as i64);
    if bits == 0 { i64::MAX } else { bits }
}

/// The entries of a scope, separated by commas; none if it has every queue.
fn queues(scope: &Scope) -> Option<String> {
    (!scope.is_all()).then(|| scope.entries().collect::<Vec<_>>().join(","))
}

/// A count of rows as a limit.
pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// The step that reads these jobs; [`row::job`] reads its rows.
pub(crate) fn reading(ids: impl IntoIterator<Item = JobId>) -> Step {
    Step::new(JOB).with(ids.into_iter().map(number).collect::<Vec<_>>())
}

/// The step that finds the newest success of each (type, key) in its range: its id, type and key.
pub(crate) fn successes<'a>(wanted: impl Iterator<Item = (&'a TypeName, &'a Key, ReuseRange)>) -> Step {
    let (mut types, mut keys, mut since, mut above) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (job_type, key, range) in wanted {
        types.push(job_type.as_str());
        keys.push(key.as_str());
        since.push(range.since.as_ms());
        above.push(range.above.map_or(0, number));
    }
    let step = Step::new(include_str!("sql/success_since.sql")).with(types).with(keys);
    step.with(since).with(above)
}

impl Reads<'_> {
    /// The jobs with these ids, in the requested order.
    pub(crate) async fn jobs(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, PgError> {
        let rows = self.0.ask(reading(ids.iter().copied())).await?;
        let jobs = rows.iter().map(row::job).collect::<Result<Vec<_>, _>>()?;
        let found: HashMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    /// The ended attempts of a job.
    pub(crate) async fn attempts_of(
        &self,
        id: JobId,
        skip: usize,
        at_most: usize,
    ) -> Result<Vec<PastAttempt>, PgError> {
        let step = Step::new(include_str!("sql/attempts.sql")).with(number(id));
        let rows = self.0.ask(step.with(limit(at_most)).with(limit(skip))).await?;
        rows.iter().rev().map(row::attempt).collect()
    }

    /// The newest ended attempts of each of these jobs, oldest first.
    pub(crate) async fn attempts_of_jobs(
        &self,
        ids: &[JobId],
        at_most: usize,
    ) -> Result<Vec<Vec<PastAttempt>>, PgError> {
        let distinct: BTreeSet<i64> = ids.iter().copied().map(number).collect();
        let step = Step::new(include_str!("sql/attempts_of_jobs.sql"));
        let step = step.with(distinct.into_iter().collect::<Vec<_>>()).with(limit(at_most));
        let mut found: HashMap<JobId, Vec<PastAttempt>> = HashMap::new();
        for attempt in &self.0.ask(step).await? {
            found.entry(row::job_id(attempt, 10)?).or_default().push(row::attempt(attempt)?);
        }
        Ok(ids.iter().map(|id| found.get(id).cloned().unwrap_or_default()).collect())
    }

    /// The newest success of each of these (type, key).
    pub(crate) async fn successes(&self, keys: &[(TypeName, Key)]) -> Result<Vec<Option<Job>>, PgError> {
        let any = ReuseRange::since(Time::EPOCH);
        let rows = self.0.ask(successes(keys.iter().map(|(job_type, key)| (job_type, key, any)))).await?;
        let ids = rows.iter().map(|found| row::job_id(found, 0)).collect::<Result<Vec<_>, _>>()?;
        let jobs = self.jobs(&ids).await?.into_iter().flatten();
        let of_key = |job: Job| Some(((job.spec.job_type.clone(), job.spec.key.clone()?), job));
        let found: HashMap<(TypeName, Key), Job> = jobs.filter_map(of_key).collect();
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    pub(crate) async fn all_blocks(&self) -> Result<Vec<Block>, PgError> {
        let rows = self.0.ask(Step::new(include_str!("sql/blocks.sql"))).await?;
        rows.iter().map(upkeep::block).collect()
    }

    /// Open jobs in id order from the blocks.
    pub(crate) async fn open(&self, after: Option<JobId>, at_most: usize) -> Result<Vec<Job>, PgError> {
        self.0.ask(Step::new(include_str!("sql/snapshot.sql"))).await?;
        let found = self.open_in_snapshot(after, at_most).await;
        self.0.ask(Step::new(include_str!("sql/commit.sql"))).await?;
        found
    }

    async fn open_in_snapshot(&self, after: Option<JobId>, at_most: usize) -> Result<Vec<Job>, PgError> {
        let mut found = Vec::new();
        for block in self.all_blocks().await? {
            if found.len() >= at_most {
                break;
            }
            if after.is_none_or(|after| block.last > after) {
                found.extend(self.open_of_block(&block, after, at_most - found.len()).await?);
            }
        }
        Ok(found)
    }

    async fn open_of_block(
        &self,
        block: &Block,
        after: Option<JobId>,
        at_most: usize,
    ) -> Result<Vec<Job>, PgError> {
        if let Some(live) = &block.live {
            let mut later: Vec<JobId> = live.iter().copied().filter(|&id| after < Some(id)).collect();
            later.sort_unstable();
            let jobs = self.jobs(&later).await?.into_iter().flatten();
            return Ok(jobs.filter(|job| !job.status.state.is_terminal()).take(at_most).collect());
        }
        let first = after.map_or(0, |after| number(after) + 1).max(number(block.first));
        let step = Step::new(select_job!("sql/open_jobs.sql")).with(first).with(number(block.last));
        self.0.ask(step.with(limit(at_most))).await?.iter().map(row::job).collect()
    }

    /// The completed ones among the next jobs.
    pub(crate) async fn ended(&self, after: Option<JobId>, at_most: usize) -> Result<CompletedPage, PgError> {
        let step = Step::new(include_str!("sql/select_completed.sql")).with(after.map_or(0, number));
        let rows = self.0.ask(step.with(limit(at_most))).await?;
        let last = rows.last().map(|found| Ok::<_, PgError>((row::job_id(found, 0)?, row::time(found, 5)?)));
        let completed = rows.iter().map(completed).filter_map(Result::transpose);
        Ok(CompletedPage { jobs: completed.collect::<Result<_, _>>()?, last: last.transpose()? })
    }

    pub(crate) async fn count_ended(
        &self,
        after: Option<JobId>,
        last: JobId,
        except: &[JobId],
    ) -> Result<JobCounts, PgError> {
        let except: Vec<i64> = except.iter().copied().map(number).collect();
        let step = Step::new(include_str!("sql/count_completed.sql")).with(after.map_or(0, number));
        let rows = self.0.ask(step.with(number(last)).with(except)).await?;
        let mut counts = rows.iter().map(job_count).collect::<Result<Vec<_>, _>>()?;
        counts.sort();
        let rows = self.0.ask(Step::new(include_str!("sql/next_id.sql")).with(number(last))).await?;
        let next = rows.first().map(|found| row::job_id_or_null(found, 0)).transpose()?.flatten();
        Ok(JobCounts { counts, next })
    }

    /// Jobs that match the filter, newest id first, within one range of ids.
    pub(crate) async fn page(
        &self,
        filter: &JobFilter,
        before: Option<JobId>,
        at_most: usize,
    ) -> Result<JobPage, PgError> {
        if let Some(key) = filter.only_key() {
            return self.page_of_key(key, before, at_most).await;
        }
        let Some((lowest, highest)) = self.id_span().await? else {
            return Ok(JobPage { jobs: Vec::new(), next: None });
        };
        let below = before.map_or(highest + 1, number).min(highest + 1);
        let from = (below - STRETCH).max(lowest);
        let step = Step::new(select_job!("sql/list.sql")).with(below).with(from);
        let step = step.with(state_bits(&filter.states)).with(filter.job_type.as_ref().map(TypeName::as_str));
        let step = step.with(filter.key.as_ref().map(Key::as_str));
        let step = step.with(filter.queue.as_ref().map(QueueName::as_str)).with(limit(at_most));
        let step =
            step.with(filter.created_after.map(Time::as_ms)).with(filter.created_before.map(Time::as_ms));
        let step = step.with(filter.group.map(|group| group.get().cast_signed()));
        let step = step.with(filter.owner.as_ref().map(Owner::as_str));
        let step = step.with(filter.tag.as_ref().map(|tag| format!("\"{tag}\"")));
        let rows = self.0.ask(step.with(queues(&filter.scope))).await?;
        let jobs = rows.iter().map(row::job).collect::<Result<Vec<_>, _>>()?;
        let seen_to =
            if jobs.len() < at_most { from } else { jobs.last().map_or(below, |job| number(job.id)) };
        let next = JobId::new(seen_to.cast_unsigned()).ok().filter(|_| seen_to > lowest);
        Ok(JobPage { jobs, next })
    }

    /// Jobs of a (type, key), newest id first.
    async fn page_of_key(
        &self,
        (job_type, key): (&TypeName, &Key),
        before: Option<JobId>,
        at_most: usize,
    ) -> Result<JobPage, PgError> {
        let step = Step::new(select_job!("sql/list_key.sql")).with(job_type.as_str()).with(key.as_str());
        let rows = self.0.ask(step.with(before.map_or(i64::MAX, number)).with(limit(at_most))).await?;
        let jobs = rows.iter().map(row::job).collect::<Result<Vec<_>, _>>()?;
        let next = jobs.last().map(|job| job.id).filter(|_| jobs.len() >= at_most);
        Ok(JobPage { jobs, next })
    }

    async fn id_span(&self) -> Result<Option<(i64, i64)>, PgError> {
        let rows = self.0.ask(Step::new(include_str!("sql/id_span.sql"))).await?;
        let Some(span) = rows.first() else { return Ok(None) };
        let (lowest, highest): (Option<i64>, Option<i64>) = (get(span, 0)?, get(span, 1)?);
        Ok(lowest.zip(highest))
    }

    pub(crate) async fn all_settings(&self, kind: Option<SettingKind>) -> Result<Vec<Setting>, PgError> {
        let (first, last) = kind.map_or(("", "~"), |kind| (kind.as_str(), kind.as_str()));
        let step = Step::new(include_str!("sql/settings.sql")).with(first).with(last);
        let rows = self.0.ask(step).await?;
        rows.iter().map(setting).collect()
    }

    /// Audit entries, newest first.
    pub(crate) async fn acts(&self, before: Option<u64>, at_most: usize) -> Result<Vec<AuditRow>, PgError> {
        let below = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
        let step = Step::new(include_str!("sql/audit.sql")).with(below).with(limit(at_most));
        self.0.ask(step).await?.iter().map(act).collect()
    }

    /// The number of the last feed row ever written.
    pub(crate) async fn feed_end(&self) -> Result<u64, PgError> {
        let rows = self.0.ask(Step::new(include_str!("sql/feed_end.sql"))).await?;
        let last = rows.first().ok_or_else(|| damaged("meta", "feed_pruned_to is missing"))?;
        Ok(get::<i64>(last, 0)?.cast_unsigned())
    }

    pub(crate) async fn feed_page(&self, after: u64, at_most: usize) -> Result<FeedPage, PgError> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let step = Step::new(include_str!("sql/feed.sql")).with(after).with(limit(at_most));
        let rows = self.0.ask(step).await?;
        let pruned = rows.first().ok_or_else(|| damaged("meta", "feed_pruned_to is missing"))?;
        let pruned_to = get::<i64>(pruned, 0)?.cast_unsigned();
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            found.extend(feed_row(row)?);
        }
        Ok(FeedPage { rows: found, pruned_to })
    }
}

/// A row of `select_completed.sql`; none if the job is open.
fn completed(found: &Row) -> Result<Option<Completed>, PgError> {
    if !row::state_name(found, 1)?.is_terminal() {
        return Ok(None);
    }
    Ok(Some(Completed {
        id: row::job_id(found, 0)?,
        job_type: row::job_type(row::text(found, 3)?)?,
        queue: row::queue(row::text(found, 4)?)?,
        created_at: row::time(found, 5)?,
        ended_at: row::time(found, 2)?,
        newest_success: get(found, 8)?,
        parent: row::job_id_or_null(found, 6)?,
        group: row::job_id_or_null(found, 7)?.map(GroupId::of),
    }))
}

/// A row of `count_completed.sql`.
fn job_count(found: &Row) -> Result<JobCount, PgError> {
    Ok(JobCount {
        job_type: row::job_type(row::text(found, 0)?)?,
        queue: row::queue(row::text(found, 1)?)?,
        jobs: get::<i64>(found, 2)?.cast_unsigned(),
    })
}

/// A row of `settings.sql` or `setting.sql`.
pub(crate) fn setting(found: &Row) -> Result<Setting, PgError> {
    let kind = row::text(found, 0)?;
    let known = SettingKind::ALL.into_iter().find(|known| known.as_str() == kind);
    let kind = known.ok_or_else(|| damaged("setting", format_args!("unknown kind {kind}")))?;
    Ok(Setting { kind, name: get(found, 1)?, rev: row::bits(found, 2)?, value: get(found, 3)? })
}

/// A row of `audit.sql`.
pub(crate) fn act(found: &Row) -> Result<AuditRow, PgError> {
    let entry = AuditEntry {
        at: row::time(found, 1)?,
        who: get(found, 2)?,
        act: get(found, 3)?,
        subject: get(found, 4)?,
        detail: get(found, 5)?,
    };
    Ok(AuditRow { n: get::<i64>(found, 0)?.cast_unsigned(), entry })
}

fn feed_row(found: &Row) -> Result<Option<FeedRow>, PgError> {
    let Some(n) = get::<Option<i64>>(found, 1)? else { return Ok(None) };
    let entries = unpack(get(found, 3)?).ok_or_else(|| damaged("feed", "its entries do not unpack"))?;
    Ok(Some(FeedRow { n: n.cast_unsigned(), at: row::time(found, 2)?, entries }))
}
