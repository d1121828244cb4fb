//! Blocks of ids, and the deletes of maintenance.

use jobhall_core::{GroupId, JobId, Time};
use jobhall_store::{Block, BlockChange, Prune, Pruned, RemovedJob};
use tokio_postgres::Row;

use crate::connect::wire::{Step, Wire};
use crate::error::{PgError, damaged};
use crate::rows::row::{self, get, ids, number};

/// The largest possible id.
const LARGEST: i64 = jobhall_core::bounds::JOB_ID.cast_signed();

/// Assigns the next ids; none if not enough ids are left.
pub(crate) async fn lend_block(wire: &Wire<'_>, size: u64) -> Result<Option<Block>, PgError> {
    let Some(size) = i64::try_from(size.max(1)).ok().filter(|&size| size <= LARGEST) else { return Ok(None) };
    let step = Step::new(include_str!("../sql/lend_block.sql")).with(size).with(LARGEST);
    let rows = wire.ask(step).await?;
    let Some(lent) = rows.first() else { return Ok(None) };
    Ok(Some(Block { first: row::job_id(lent, 0)?, last: row::job_id(lent, 1)?, live: None }))
}

/// Closes or shrinks blocks, in order.
pub(crate) async fn settle(wire: &Wire<'_>, changes: &[BlockChange]) -> Result<(), PgError> {
    let step = |change: &BlockChange| match change {
        BlockChange::Close(first) => {
            Step::new(include_str!("../sql/close_block.sql")).with(vec![number(*first)])
        }
        BlockChange::Shrink(first, live) => {
            let live: Vec<i64> = live.iter().copied().map(number).collect();
            Step::new(include_str!("../sql/shrink_block.sql")).with(number(*first)).with(live)
        }
    };
    wire.send(&changes.iter().map(step).collect::<Vec<_>>()).await?;
    Ok(())
}

pub(crate) async fn remove(wire: &Wire<'_>, prune: &Prune) -> Result<Pruned, PgError> {
    let mut pruned = Pruned::default();
    if !prune.jobs.is_empty() {
        let jobs: Vec<i64> = prune.jobs.iter().copied().map(number).collect();
        let rows = wire.ask(Step::new(include_str!("../sql/prune_job.sql")).with(jobs)).await?;
        pruned.jobs = rows.iter().map(removed).collect::<Result<_, _>>()?;
    }
    if !prune.groups.is_empty() {
        let groups: Vec<i64> = prune.groups.iter().map(|id: &GroupId| id.get().cast_signed()).collect();
        wire.ask(Step::new(include_str!("../sql/prune_group.sql")).with(groups)).await?;
    }
    pruned.feed = older(wire, include_str!("../sql/prune_feed.sql"), prune.feed_before).await?;
    let keys = include_str!("../sql/prune_idempotency_keys.sql");
    pruned.idempotency_keys = older(wire, keys, prune.idempotency_keys_before).await?;
    pruned.audit = older(wire, include_str!("../sql/prune_audit.sql"), prune.audit_before).await?;
    for (kind, before) in &prune.records {
        let step =
            Step::new(include_str!("../sql/prune_records.sql")).with(kind.as_str()).with(before.as_ms());
        pruned.records += count(wire, step).await?;
    }
    Ok(pruned)
}

/// A row of `prune_job.sql`.
fn removed(found: &Row) -> Result<RemovedJob, PgError> {
    Ok(RemovedJob {
        id: row::job_id(found, 0)?,
        job_type: row::job_type(row::text(found, 1)?)?,
        queue: row::queue(row::text(found, 2)?)?,
    })
}

async fn older(wire: &Wire<'_>, sql: &'static str, before: Option<Time>) -> Result<u64, PgError> {
    match before {
        Some(before) => count(wire, Step::new(sql).with(before.as_ms())).await,
        None => Ok(0),
    }
}

async fn count(wire: &Wire<'_>, step: Step) -> Result<u64, PgError> {
    let rows = wire.ask(step).await?;
    let counted = rows.first().ok_or_else(|| damaged("count", "it is missing"))?;
    Ok(get::<i64>(counted, 0)?.cast_unsigned())
}

/// A row of `blocks.sql`.
pub(crate) fn block(found: &Row) -> Result<Block, PgError> {
    let live: Option<Vec<JobId>> = get::<Option<Vec<i64>>>(found, 2)?.map(ids).transpose()?;
    Ok(Block { first: row::job_id(found, 0)?, last: row::job_id(found, 1)?, live })
}
