//! The schema over time: an ordered list that only grows. Each migration runs in one transaction with the row that
//! records it, under a lock that lets one node migrate at a time.
//!
//! The checksum guards against an edited migration, not against an attacker: a database that ran another text has
//! another schema than this code expects.

#[cfg(test)]
mod tests;

use jobhall_store::StoreError;

use crate::connect::wire::{Step, Wire};
use crate::error::PgError;
use crate::rows::row::get;

/// Held while a migration runs: "JOBH".
const LOCK: &str = "SELECT pg_advisory_xact_lock(1245659720)";

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// The name, for people.
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

pub(crate) const ALL: &[Migration] = &[
    Migration { name: "0001_hall", sql: include_str!("migrations/0001_hall.sql") },
    Migration { name: "0002_desk", sql: include_str!("migrations/0002_desk.sql") },
    Migration { name: "0003_inbox", sql: include_str!("migrations/0003_inbox.sql") },
    Migration { name: "0004_submit", sql: include_str!("migrations/0004_submit.sql") },
    Migration { name: "0005_leadership", sql: include_str!("migrations/0005_leadership.sql") },
    Migration { name: "0006_idempotency_keys", sql: include_str!("migrations/0006_idempotency_keys.sql") },
    Migration { name: "0007_words", sql: include_str!("migrations/0007_words.sql") },
    Migration { name: "0008_hall_key", sql: include_str!("migrations/0008_hall_key.sql") },
    Migration { name: "0009_submit_sizes", sql: include_str!("migrations/0009_submit_sizes.sql") },
    Migration { name: "0010_at_most_once", sql: include_str!("migrations/0010_at_most_once.sql") },
    Migration { name: "0011_records", sql: include_str!("migrations/0011_records.sql") },
    Migration { name: "0012_progress", sql: include_str!("migrations/0012_progress.sql") },
    Migration { name: "0013_group_fails", sql: include_str!("migrations/0013_group_fails.sql") },
];

/// FNV-1a, 64 bits.
fn checksum(text: &str) -> i64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    text.bytes().fold(0xCBF2_9CE4_8422_2325, fold).cast_signed()
}

/// Refuses a schema that this program must not change, and runs the pending migrations.
pub(crate) async fn run(wire: &Wire<'_>, list: &[Migration]) -> Result<(), StoreError> {
    let failed = |trouble: PgError| trouble.while_doing("migrate the database");
    loop {
        wire.client.batch_execute(&format!("BEGIN; {LOCK}")).await.map_err(PgError::from).map_err(failed)?;
        let ran = next(wire, list).await;
        let end = if ran.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = wire.client.batch_execute(end).await.map_err(PgError::from).map_err(failed);
        if !ran? {
            return ended;
        }
        ended?;
    }
}

/// Runs the next migration; false if there is none.
async fn next(wire: &Wire<'_>, list: &[Migration]) -> Result<bool, StoreError> {
    let failed = |trouble: PgError| trouble.while_doing("migrate the database");
    let applied = applied(wire).await?;
    compare(&applied, list)?;
    let Some(migration) = list.get(applied.len()) else { return Ok(false) };
    let first = if applied.is_empty() { "CREATE SCHEMA IF NOT EXISTS jobhall" } else { "" };
    let table = include_str!("sql/migrations.sql");
    let text = format!("{first};\n{table};\n{}", migration.sql);
    wire.client.batch_execute(&text).await.map_err(PgError::from).map_err(failed)?;
    let n = i32::try_from(applied.len() + 1).unwrap_or(i32::MAX);
    let record = Step::new(include_str!("sql/insert_migration.sql")).with(n);
    wire.ask(record.with(migration.name).with(checksum(migration.sql))).await.map_err(failed)?;
    Ok(true)
}

/// The recorded migrations in order. A schema of this name without that record belongs to another program.
async fn applied(wire: &Wire<'_>) -> Result<Vec<(i32, String, i64)>, StoreError> {
    let failed = |trouble: PgError| trouble.while_doing("read the migrations of the database");
    let step = Step::new(include_str!("sql/recorded.sql"));
    let rows = wire.ask(step).await.map_err(failed)?;
    let (objects, recorded): (i64, bool) = match rows.first() {
        Some(found) => (get(found, 0).map_err(failed)?, get(found, 1).map_err(failed)?),
        None => (0, false),
    };
    if !recorded {
        if objects > 0 {
            return Err(StoreError::new(
                "the database has a schema jobhall of another program; nothing was changed in it",
            ));
        }
        return Ok(Vec::new());
    }
    let rows = wire.ask(Step::new(include_str!("sql/applied.sql"))).await.map_err(failed)?;
    let read = |found| Ok((get(found, 0)?, get(found, 1)?, get(found, 2)?));
    rows.iter().map(read).collect::<Result<_, PgError>>().map_err(failed)
}

fn compare(applied: &[(i32, String, i64)], list: &[Migration]) -> Result<(), StoreError> {
    let foreign =
        |why: String| Err(StoreError::new(format!("the database {why}; nothing was changed in it")));
    let newest = applied.last().map_or(0, |(n, ..)| *n);
    if usize::try_from(newest).is_ok_and(|newest| newest > list.len()) {
        return foreign(format!(
            "has schema {newest}, this jobhall knows schemas up to {}: it was used by a newer one",
            list.len()
        ));
    }
    if usize::try_from(newest) != Ok(applied.len()) {
        return foreign(format!("has schema {newest}, but records {} migrations", applied.len()));
    }
    for ((n, name, sum), known) in applied.iter().zip(list) {
        if name != known.name || *sum != checksum(known.sql) {
            return foreign(format!(
                "was made by another text of migration {n} ({name}) than this jobhall has ({})",
                known.name
            ));
        }
    }
    Ok(())
}
