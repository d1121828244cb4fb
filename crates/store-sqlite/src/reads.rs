//! The reads of the port, each on one snapshot.

use jobhall_core::retention::Completed;
use jobhall_core::{
    GroupId, Job, JobId, Key, Owner, PastAttempt, QueueName, Scope, StateName, Time, TypeName,
};
use jobhall_store::{
    AuditEntry, AuditRow, Block, CompletedPage, FeedPage, FeedRow, JobCount, JobCounts, JobFilter, JobPage,
    ReuseRange, Setting, SettingKind, unpack,
};

use rusqlite::Statement;

use crate::apply::success;
use crate::error::{SqlError, damaged};
use crate::rows::row;
use crate::statements::Reads;
use crate::writer::upkeep::{self, FEED_PRUNED_TO};

/// Number of ids scanned for one page of a list.
const STRETCH: i64 = 100_000;

/// The state codes as bits; all states if the list is empty.
fn state_bits(states: &[StateName]) -> i64 {
    let bits = states.iter().fold(0, |bits, &state| bits | 1 << state as i64);
    if bits == 0 { i64::MAX } else { bits }
}

/// The entries of a scope as a JSON array; none if it has every queue. An entry has no character that JSON escapes.
fn queues(scope: &Scope) -> Option<String> {
    let entries: Vec<_> = scope.entries().map(|entry| format!("\"{entry}\"")).collect();
    (!scope.is_all()).then(|| format!("[{}]", entries.join(",")))
}

fn last_id(job: &Job) -> i64 {
    job.id.get().cast_signed()
}

pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// A whole job, read by the statement `job`.
fn whole(job: &mut Statement<'_>, id: JobId) -> Result<Option<Job>, SqlError> {
    job.raw_bind_parameter(1, id.get().cast_signed())?;
    let mut rows = job.raw_query();
    rows.next()?.map(row::job).transpose()
}

impl Reads<'_> {
    /// The jobs with these ids, in the requested order.
    pub(crate) fn jobs(&mut self, ids: &[JobId]) -> Result<Vec<Option<Job>>, SqlError> {
        ids.iter().map(|&id| self.one_job(id)).collect()
    }

    fn one_job(&mut self, id: JobId) -> Result<Option<Job>, SqlError> {
        whole(&mut self.job, id)
    }

    /// Ended attempts of a job: at most `at_most` of those before the newest `skip`, oldest first.
    pub(crate) fn attempts_of(
        &mut self,
        id: JobId,
        skip: usize,
        at_most: usize,
    ) -> Result<Vec<PastAttempt>, SqlError> {
        self.attempts.raw_bind_parameter(1, id.get().cast_signed())?;
        self.attempts.raw_bind_parameter(2, limit(at_most))?;
        self.attempts.raw_bind_parameter(3, limit(skip))?;
        let mut rows = self.attempts.raw_query();
        let mut found = Vec::new();
        while let Some(attempt) = rows.next()? {
            found.push(row::attempt(attempt)?);
        }
        found.reverse();
        Ok(found)
    }

    /// The newest ended attempts of each of these jobs, oldest first.
    pub(crate) fn attempts_of_jobs(
        &mut self,
        ids: &[JobId],
        at_most: usize,
    ) -> Result<Vec<Vec<PastAttempt>>, SqlError> {
        ids.iter().map(|&id| self.attempts_of(id, 0, at_most)).collect()
    }

    /// The newest success of each of these (type, key).
    pub(crate) fn successes(&mut self, keys: &[(TypeName, Key)]) -> Result<Vec<Option<Job>>, SqlError> {
        let mut found = Vec::with_capacity(keys.len());
        for (job_type, key) in keys {
            let id = success(&mut self.success_since, job_type, key, ReuseRange::since(Time::EPOCH))?;
            found.push(id.map(|id| self.one_job(id)).transpose()?.flatten());
        }
        Ok(found)
    }

    pub(crate) fn all_blocks(&mut self) -> Result<Vec<Block>, SqlError> {
        let mut rows = self.blocks.raw_query();
        let mut found = Vec::new();
        while let Some(block) = rows.next()? {
            found.push(upkeep::block(block)?);
        }
        Ok(found)
    }

    /// Open jobs in id order from the blocks.
    pub(crate) fn open(&mut self, after: Option<JobId>, at_most: usize) -> Result<Vec<Job>, SqlError> {
        let mut found = Vec::new();
        for block in self.all_blocks()? {
            if found.len() >= at_most || after.is_some_and(|after| block.last <= after) {
                continue;
            }
            match &block.live {
                Some(live) => self.open_of_list(live, after, at_most, &mut found)?,
                None => self.open_of_range(&block, after, at_most, &mut found)?,
            }
        }
        Ok(found)
    }

    fn open_of_list(
        &mut self,
        live: &[JobId],
        after: Option<JobId>,
        at_most: usize,
        found: &mut Vec<Job>,
    ) -> Result<(), SqlError> {
        for &id in live.iter().filter(|&&id| after.is_none_or(|after| id > after)) {
            if found.len() >= at_most {
                break;
            }
            found.extend(self.one_job(id)?.filter(|job| !job.status.state.is_terminal()));
        }
        Ok(())
    }

    fn open_of_range(
        &mut self,
        block: &Block,
        after: Option<JobId>,
        at_most: usize,
        found: &mut Vec<Job>,
    ) -> Result<(), SqlError> {
        let first = after.map_or(0, |after| after.get() + 1).max(block.first.get());
        self.open_jobs.raw_bind_parameter(1, first.cast_signed())?;
        self.open_jobs.raw_bind_parameter(2, block.last.get().cast_signed())?;
        self.open_jobs.raw_bind_parameter(3, limit(at_most - found.len()))?;
        let Reads { open_jobs, job, .. } = self;
        let mut rows = open_jobs.raw_query();
        while let Some(open) = rows.next()? {
            if row::flag(open, 0)? {
                let same = found.last().map(|job| &*job.spec);
                found.push(row::new_job(open, same)?);
            } else {
                found.extend(whole(job, row::job_id(open, 1)?)?);
            }
        }
        Ok(())
    }

    /// The completed ones among the next jobs.
    pub(crate) fn ended(&mut self, after: Option<JobId>, at_most: usize) -> Result<CompletedPage, SqlError> {
        self.select_completed.raw_bind_parameter(1, after.map_or(0, |after| after.get().cast_signed()))?;
        self.select_completed.raw_bind_parameter(2, limit(at_most))?;
        let mut rows = self.select_completed.raw_query();
        let mut page = CompletedPage::default();
        while let Some(job) = rows.next()? {
            let (id, created_at) = (row::job_id(job, 0)?, row::time(job, 5)?);
            page.last = Some((id, created_at));
            if row::state_name(job.get(1)?)?.is_terminal() {
                page.jobs.push(Completed {
                    id,
                    job_type: row::job_type(row::text(job, 3)?)?,
                    queue: row::queue(row::text(job, 4)?)?,
                    created_at,
                    ended_at: row::time(job, 2)?,
                    newest_success: job.get(8)?,
                    parent: row::job_id_or_null(job, 6)?,
                    group: row::job_id_or_null(job, 7)?.map(GroupId::of),
                });
            }
        }
        Ok(page)
    }

    pub(crate) fn count_ended(
        &mut self,
        after: Option<JobId>,
        last: JobId,
        except: &[JobId],
    ) -> Result<JobCounts, SqlError> {
        let except: Vec<u64> = except.iter().map(|id| id.get()).collect();
        self.count_completed.raw_bind_parameter(1, after.map_or(0, |after| after.get().cast_signed()))?;
        self.count_completed.raw_bind_parameter(2, last.get().cast_signed())?;
        self.count_completed.raw_bind_parameter(3, row::to_json(&except)?)?;
        let mut rows = self.count_completed.raw_query();
        let mut counts = Vec::new();
        while let Some(found) = rows.next()? {
            counts.push(JobCount {
                job_type: row::job_type(row::text(found, 0)?)?,
                queue: row::queue(row::text(found, 1)?)?,
                jobs: found.get::<_, i64>(2)?.cast_unsigned(),
            });
        }
        drop(rows);
        counts.sort();
        self.next_id.raw_bind_parameter(1, last.get().cast_signed())?;
        let mut rows = self.next_id.raw_query();
        let next = rows.next()?.map(|found| row::job_id_or_null(found, 0)).transpose()?.flatten();
        Ok(JobCounts { counts, next })
    }

    /// Jobs of a (type, key), newest id first.
    fn page_of_key(
        &mut self,
        (job_type, key): (&TypeName, &Key),
        before: Option<JobId>,
        at_most: usize,
    ) -> Result<JobPage, SqlError> {
        self.list_key.raw_bind_parameter(1, job_type.as_str())?;
        self.list_key.raw_bind_parameter(2, key.as_str())?;
        self.list_key.raw_bind_parameter(3, before.map_or(i64::MAX, |before| before.get().cast_signed()))?;
        self.list_key.raw_bind_parameter(4, limit(at_most))?;
        let mut rows = self.list_key.raw_query();
        let mut jobs = Vec::new();
        while let Some(job) = rows.next()? {
            jobs.push(row::job(job)?);
        }
        let next = jobs.last().map(|job| job.id).filter(|_| jobs.len() >= at_most);
        Ok(JobPage { jobs, next })
    }

    /// Jobs that match the filter, newest id first, within one range of ids.
    pub(crate) fn page(
        &mut self,
        filter: &JobFilter,
        before: Option<JobId>,
        at_most: usize,
    ) -> Result<JobPage, SqlError> {
        if let Some(key) = filter.only_key() {
            return self.page_of_key(key, before, at_most);
        }
        let Some((lowest, highest)) = self.id_span()? else {
            return Ok(JobPage { jobs: Vec::new(), next: None });
        };
        let below = before.map_or(highest + 1, |before| before.get().cast_signed()).min(highest + 1);
        let from = (below - STRETCH).max(lowest);
        self.list.raw_bind_parameter(1, below)?;
        self.list.raw_bind_parameter(2, from)?;
        self.list.raw_bind_parameter(3, state_bits(&filter.states))?;
        self.list.raw_bind_parameter(4, filter.job_type.as_ref().map(TypeName::as_str))?;
        self.list.raw_bind_parameter(5, filter.key.as_ref().map(Key::as_str))?;
        self.list.raw_bind_parameter(6, filter.queue.as_ref().map(QueueName::as_str))?;
        self.list.raw_bind_parameter(7, limit(at_most))?;
        self.list.raw_bind_parameter(8, filter.created_after.map(Time::as_ms))?;
        self.list.raw_bind_parameter(9, filter.created_before.map(Time::as_ms))?;
        self.list.raw_bind_parameter(10, filter.group.map(|group| group.get().cast_signed()))?;
        self.list.raw_bind_parameter(11, filter.owner.as_ref().map(Owner::as_str))?;
        self.list.raw_bind_parameter(12, filter.tag.as_ref().map(|tag| format!("\"{tag}\"")))?;
        self.list.raw_bind_parameter(13, queues(&filter.scope))?;
        let mut rows = self.list.raw_query();
        let mut jobs = Vec::new();
        while let Some(job) = rows.next()? {
            jobs.push(row::job(job)?);
        }
        let seen_to = if jobs.len() < at_most { from } else { jobs.last().map_or(below, last_id) };
        let next = JobId::new(seen_to.cast_unsigned()).ok().filter(|_| seen_to > lowest);
        Ok(JobPage { jobs, next })
    }

    fn id_span(&mut self) -> Result<Option<(i64, i64)>, SqlError> {
        let mut rows = self.id_span.raw_query();
        let Some(span) = rows.next()? else { return Ok(None) };
        let (lowest, highest): (Option<i64>, Option<i64>) = (span.get(0)?, span.get(1)?);
        Ok(lowest.zip(highest))
    }

    pub(crate) fn all_settings(&mut self, kind: Option<SettingKind>) -> Result<Vec<Setting>, SqlError> {
        let kind = kind.map(SettingKind::as_str);
        let mut rows = self.settings.query([kind])?;
        let mut found = Vec::new();
        while let Some(setting) = rows.next()? {
            let kind = row::text(setting, 0)?;
            let known = SettingKind::ALL.into_iter().find(|known| known.as_str() == kind);
            let kind = known.ok_or_else(|| damaged("setting", format_args!("unknown kind {kind}")))?;
            let (name, rev, value) = (setting.get(1)?, setting.get(2)?, setting.get(3)?);
            found.push(Setting { kind, name, rev, value });
        }
        Ok(found)
    }

    /// Audit entries, newest first.
    pub(crate) fn acts(&mut self, before: Option<u64>, at_most: usize) -> Result<Vec<AuditRow>, SqlError> {
        let below = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
        self.audit.raw_bind_parameter(1, below)?;
        self.audit.raw_bind_parameter(2, limit(at_most))?;
        let mut rows = self.audit.raw_query();
        let mut found = Vec::new();
        while let Some(act) = rows.next()? {
            let entry = AuditEntry {
                at: row::time(act, 1)?,
                who: act.get(2)?,
                act: act.get(3)?,
                subject: act.get(4)?,
                detail: act.get(5)?,
            };
            found.push(AuditRow { n: act.get::<_, i64>(0)?.cast_unsigned(), entry });
        }
        Ok(found)
    }

    /// The number of the last feed row ever written.
    pub(crate) fn feed_end(&mut self) -> Result<u64, SqlError> {
        let mut rows = self.feed_last.raw_query();
        let last = rows.next()?.ok_or_else(|| damaged("meta", "feed_pruned_to is missing"))?;
        Ok(last.get::<_, i64>(0)?.cast_unsigned())
    }

    pub(crate) fn feed_page(&mut self, after: u64, at_most: usize) -> Result<FeedPage, SqlError> {
        let pruned_to = upkeep::number(&mut self.meta, FEED_PRUNED_TO)?;
        self.feed.raw_bind_parameter(1, i64::try_from(after).unwrap_or(i64::MAX))?;
        self.feed.raw_bind_parameter(2, limit(at_most))?;
        let mut rows = self.feed.raw_query();
        let mut found = Vec::new();
        while let Some(feed) = rows.next()? {
            let entries = unpack(feed.get_ref(2)?.as_blob()?);
            found.push(FeedRow {
                n: feed.get::<_, i64>(0)?.cast_unsigned(),
                at: row::time(feed, 1)?,
                entries: entries.ok_or_else(|| damaged("feed", "its entries do not unpack"))?,
            });
        }
        Ok(FeedPage { rows: found, pruned_to })
    }
}
