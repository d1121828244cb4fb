//! Blocks of ids, and the deletes of maintenance.

use jobhall_core::{JobId, Time};
use jobhall_store::{Block, BlockChange, Prune, Pruned, RemovedJob};
use rusqlite::Statement;

use crate::apply::run;
use crate::error::{SqlError, damaged};
use crate::rows::row::{self, to_json};
use crate::statements::Writes;

/// The highest id handed out. It is kept when blocks and jobs are removed, so that no id is used twice.
const LAST_ID: &str = "last_id";
/// The highest feed number removed.
pub(crate) const FEED_PRUNED_TO: &str = "feed_pruned_to";

/// A number of `meta`.
pub(crate) fn number(meta: &mut Statement<'_>, name: &str) -> Result<u64, SqlError> {
    meta.raw_bind_parameter(1, name)?;
    let mut rows = meta.raw_query();
    let found = rows.next()?.ok_or_else(|| damaged("meta", format_args!("{name} is missing")))?;
    Ok(found.get::<_, i64>(0)?.cast_unsigned())
}

impl Writes<'_> {
    /// Assigns the next ids; none if not enough ids are left.
    pub(crate) fn lend_block(&mut self, size: u64) -> Result<Option<Block>, SqlError> {
        let last = number(&mut self.meta, LAST_ID)?;
        let (Ok(first), Ok(last)) = (JobId::new(last + 1), JobId::new(last.saturating_add(size.max(1))))
        else {
            return Ok(None);
        };
        self.put_number(LAST_ID, last.get())?;
        self.insert_block.raw_bind_parameter(1, first.get().cast_signed())?;
        self.insert_block.raw_bind_parameter(2, last.get().cast_signed())?;
        run(&mut self.insert_block)?;
        Ok(Some(Block { first, last, live: None }))
    }

    pub(crate) fn settle(&mut self, changes: &[BlockChange]) -> Result<(), SqlError> {
        for change in changes {
            match change {
                BlockChange::Close(first) => {
                    self.close_block.raw_bind_parameter(1, first.get().cast_signed())?;
                    run(&mut self.close_block)?;
                }
                BlockChange::Shrink(first, live) => {
                    let live: Vec<u64> = live.iter().map(|id| id.get()).collect();
                    self.shrink_block.raw_bind_parameter(1, first.get().cast_signed())?;
                    self.shrink_block.raw_bind_parameter(2, to_json(&live)?)?;
                    run(&mut self.shrink_block)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, prune: &Prune) -> Result<Pruned, SqlError> {
        let mut pruned = Pruned::default();
        for id in &prune.jobs {
            pruned.jobs.extend(self.remove_job(*id)?);
        }
        for id in &prune.groups {
            self.prune_group.raw_bind_parameter(1, id.get().cast_signed())?;
            run(&mut self.prune_group)?;
        }
        if let Some(before) = prune.feed_before {
            pruned.feed = self.remove_feed(before)?;
        }
        if let Some(before) = prune.idempotency_keys_before {
            self.prune_idempotency_keys.raw_bind_parameter(1, before.as_ms())?;
            pruned.idempotency_keys = run(&mut self.prune_idempotency_keys)? as u64;
        }
        if let Some(before) = prune.audit_before {
            self.prune_audit.raw_bind_parameter(1, before.as_ms())?;
            pruned.audit = run(&mut self.prune_audit)? as u64;
        }
        for (kind, before) in &prune.records {
            self.prune_records.raw_bind_parameter(1, kind.as_str())?;
            self.prune_records.raw_bind_parameter(2, before.as_ms())?;
            pruned.records += run(&mut self.prune_records)? as u64;
        }
        Ok(pruned)
    }

    fn remove_job(&mut self, id: JobId) -> Result<Option<RemovedJob>, SqlError> {
        self.prune_job.raw_bind_parameter(1, id.get().cast_signed())?;
        if run(&mut self.prune_job)? == 0 {
            return Ok(None);
        }
        let removed = self.remove_spec(id)?;
        self.prune_attempts.raw_bind_parameter(1, id.get().cast_signed())?;
        run(&mut self.prune_attempts)?;
        self.remove_links.raw_bind_parameter(1, id.get().cast_signed())?;
        run(&mut self.remove_links)?;
        Ok(Some(removed))
    }

    fn remove_spec(&mut self, id: JobId) -> Result<RemovedJob, SqlError> {
        self.prune_spec.raw_bind_parameter(1, id.get().cast_signed())?;
        let mut rows = self.prune_spec.raw_query();
        let found = rows.next()?.ok_or_else(|| damaged("spec", format_args!("job {id} has none")))?;
        let (job_type, queue) = (row::job_type(row::text(found, 0)?)?, row::queue(row::text(found, 1)?)?);
        // A statement that returns rows has ended only after the last one.
        rows.next()?;
        Ok(RemovedJob { id, job_type, queue })
    }

    fn remove_feed(&mut self, before: Time) -> Result<u64, SqlError> {
        let last = self.last_feed_number()?;
        self.feed_kept_from.raw_bind_parameter(1, before.as_ms())?;
        let mut rows = self.feed_kept_from.raw_query();
        let kept_from = match rows.next()? {
            Some(found) => found.get::<_, i64>(0)?.cast_unsigned(),
            None => last + 1,
        };
        drop(rows);
        let up_to = kept_from.saturating_sub(1);
        self.prune_feed.raw_bind_parameter(1, up_to.cast_signed())?;
        let gone = run(&mut self.prune_feed)?;
        if gone > 0 {
            self.put_number(FEED_PRUNED_TO, up_to)?;
        }
        Ok(gone as u64)
    }

    /// The highest feed number ever used.
    pub(crate) fn last_feed_number(&mut self) -> Result<u64, SqlError> {
        let mut rows = self.feed_last.raw_query();
        let found = rows.next()?.ok_or_else(|| damaged("feed", "it has no last number"))?;
        Ok(found.get::<_, i64>(0)?.cast_unsigned())
    }

    fn put_number(&mut self, name: &str, value: u64) -> Result<(), SqlError> {
        self.put_meta.raw_bind_parameter(1, name)?;
        self.put_meta.raw_bind_parameter(2, value.cast_signed())?;
        run(&mut self.put_meta)?;
        Ok(())
    }
}

/// A row of `blocks.sql`.
pub(crate) fn block(found: &rusqlite::Row<'_>) -> Result<Block, SqlError> {
    let live = match row::text_or_null(found, 2)? {
        Some(text) => Some(ids(&row::from_json::<Vec<u64>>("block", text)?)?),
        None => None,
    };
    Ok(Block { first: row::job_id(found, 0)?, last: row::job_id(found, 1)?, live })
}

pub(crate) fn ids(numbers: &[u64]) -> Result<Vec<JobId>, SqlError> {
    numbers.iter().map(|&n| JobId::new(n).map_err(|error| damaged("block", error))).collect()
}
