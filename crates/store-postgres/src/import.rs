//! Imports the content of another store in one transaction: all of it or nothing, whatever fails meanwhile.
//!
//! The transaction locks the leadership row, so that no node starts before it ends. Every chunk is read back and
//! compared row by row before the next one is written. At the end the rows of all tables are counted.

mod check;

use deadpool_postgres::ClientWrapper;
use jobhall_core::{JobId, PastAttempt};
use jobhall_store::{AuditRow, Block, ExportChunk, Holdings, Later, Marks, Setting, StoreError};

use crate::Database;
use crate::apply::records;
use crate::apply::{attempts, idempotency_keys, links};
use crate::connect::wire::{Step, Wire};
use crate::error::{PgError, damaged};
use crate::groups;
use crate::rows::lives::Lives;
use crate::rows::row::{get, number, text};
use crate::rows::spec::Specs;

/// An import in progress. If it is dropped, nothing remains of it.
pub struct Import {
    client: ClientWrapper,
    database: Database,
}

impl std::fmt::Debug for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Import").finish_non_exhaustive()
    }
}

impl Database {
    /// Begins the import of another store. The database must be empty, and no node may hold its leadership.
    pub fn import(&self) -> Later<Result<Import, StoreError>> {
        let database = self.clone();
        // The connection is driven by the store's own runtime.
        let begun = self.home.run(async move { Import::begin(database).await });
        Box::pin(async move { begun.await.unwrap_or_else(|| Err(crate::database::ended())) })
    }
}

impl Import {
    async fn begin(database: Database) -> Result<Import, StoreError> {
        let failed = |trouble: PgError| trouble.while_doing("begin the move");
        let client = database.connector.connect().await.map_err(failed)?;
        let import = Import { client, database };
        let opening = [include_str!("sql/begin.sql"), include_str!("sql/import_begin.sql")].map(Step::new);
        import.wire().send(&opening).await.map_err(failed)?;
        if let Some(holder) = import.holder().await.map_err(failed)? {
            return Err(StoreError::new(format!("{holder} leads the target: stop its nodes first")));
        }
        let (held, last_id) = import.counted().await.map_err(failed)?;
        if !held.is_empty() || last_id > 0 {
            return Err(StoreError::new(format!(
                "the target is not an empty hall, it has {held} and has given {last_id} ids: use a new database, or \
                 drop its schema jobhall"
            )));
        }
        Ok(import)
    }

    fn wire(&self) -> Wire<'_> {
        self.database.connector.wire(&self.client)
    }

    /// The current leader, if any. From now on no node can take the leadership.
    async fn holder(&self) -> Result<Option<String>, PgError> {
        let rows = self.wire().ask(Step::new(include_str!("sql/import_leadership.sql"))).await?;
        let leadership = rows.first().ok_or_else(|| damaged("leadership", "it is missing"))?;
        let (node, url) = (text(leadership, 0)?, text(leadership, 1)?);
        Ok(get::<bool>(leadership, 2)?.then(|| format!("node {node} at {url}")))
    }

    async fn counted(&self) -> Result<(Holdings, u64), PgError> {
        let rows = self.wire().ask(Step::new(include_str!("sql/import_holdings.sql"))).await?;
        let found = rows.first().ok_or_else(|| damaged("count", "it is missing"))?;
        let count = |column| get::<i64>(found, column).map(i64::cast_unsigned);
        let held = Holdings {
            jobs: count(0)?,
            attempts: count(1)?,
            groups: count(2)?,
            links: count(3)?,
            settings: count(4)?,
            idempotency_keys: count(5)?,
            acts: count(6)?,
            blocks: count(7)?,
            records: count(8)?,
        };
        Ok((held, count(9)?))
    }

    /// Writes a chunk, reads it back, and compares.
    pub async fn put(&self, portion: &ExportChunk) -> Result<(), StoreError> {
        let failed = |trouble: PgError| trouble.while_doing("write to the target");
        self.wire().send(&steps(portion).map_err(failed)?).await.map_err(failed)?;
        match check::differs(&self.wire(), portion).await.map_err(failed)? {
            Some(what) => Err(StoreError::new(format!("{what} differs in the target"))),
            None => Ok(()),
        }
    }

    /// Ends the import: sets the counters, compares the counts, and commits.
    pub async fn finish(self, marks: Marks, held: Holdings) -> Result<(), StoreError> {
        let failed = |trouble: PgError| trouble.while_doing("end the move");
        let put = |name: &'static str, value: u64| {
            Step::new(include_str!("sql/put_meta.sql")).with(name).with(value.cast_signed())
        };
        let set = [
            put("last_id", marks.last_id),
            // As if every feed row had been pruned: readers of the feed must start again.
            put("feed_pruned_to", marks.last_feed),
            put("last_act", marks.last_act),
        ];
        self.wire().send(&set).await.map_err(failed)?;
        let (counted, _) = self.counted().await.map_err(failed)?;
        if counted != held || check::marks(&self.wire()).await.map_err(failed)? != marks {
            return Err(StoreError::new(format!("the target has {counted} instead of {held}")));
        }
        let ended = self.wire().ask(Step::new(include_str!("sql/commit.sql"))).await;
        ended.map(|_| ()).map_err(failed)
    }
}

fn steps(portion: &ExportChunk) -> Result<Vec<Step>, PgError> {
    Ok(match portion {
        ExportChunk::Settings(all) => vec![settings(all)],
        ExportChunk::Blocks(all) => all.iter().map(block).collect(),
        ExportChunk::Groups(all) => vec![groups::writing(&all.iter().collect::<Vec<_>>())?],
        ExportChunk::Jobs(all) => {
            let (mut lives, mut specs) = (Lives::default(), Specs::default());
            for (job, _) in all {
                lives.push_job(job);
                specs.push(job.id, &job.spec);
            }
            let past: Vec<(JobId, &PastAttempt)> =
                all.iter().flat_map(|(job, past)| past.iter().map(|past| (job.id, past))).collect();
            vec![
                lives.placed(include_str!("sql/insert_job.sql"))?,
                specs.step(include_str!("sql/insert_spec.sql"))?,
                attempts(&past)?,
            ]
        }
        ExportChunk::Links(all) => {
            let all = all.iter().map(|link| ((link.parent, link.call.as_str()), link.job));
            vec![links(&all.collect())]
        }
        ExportChunk::IdempotencyKeys(all) => vec![idempotency_keys(&all.iter().collect::<Vec<_>>(), true)?],
        ExportChunk::Acts(all) => vec![acts(all)],
        ExportChunk::Records(all) => vec![records::writing(&all.iter().collect::<Vec<_>>())],
    })
}

fn settings(all: &[Setting]) -> Step {
    let step = Step::new(include_str!("sql/put_setting.sql"));
    let step = step.with(all.iter().map(|setting| setting.kind.as_str()).collect::<Vec<_>>());
    let step = step.with(all.iter().map(|setting| setting.name.as_str()).collect::<Vec<_>>());
    let step = step.with(all.iter().map(|setting| setting.rev.cast_signed()).collect::<Vec<_>>());
    step.with(all.iter().map(|setting| setting.value.as_str()).collect::<Vec<_>>())
}

fn block(block: &Block) -> Step {
    let live = block.live.as_ref().map(|live| live.iter().copied().map(number).collect::<Vec<i64>>());
    let step = Step::new(include_str!("sql/import_block.sql"));
    step.with(number(block.first)).with(number(block.last)).with(live)
}

fn acts(all: &[AuditRow]) -> Step {
    let step = Step::new(include_str!("sql/insert_audit.sql"));
    let step = step.with(all.iter().map(|row| row.n.cast_signed()).collect::<Vec<_>>());
    let step = step.with(all.iter().map(|row| row.entry.at.as_ms()).collect::<Vec<_>>());
    let step = step.with(all.iter().map(|row| row.entry.who.as_str()).collect::<Vec<_>>());
    let step = step.with(all.iter().map(|row| row.entry.act.as_str()).collect::<Vec<_>>());
    let step = step.with(all.iter().map(|row| row.entry.subject.as_str()).collect::<Vec<_>>());
    step.with(all.iter().map(|row| row.entry.detail.as_str()).collect::<Vec<_>>())
}
