//! Reads a chunk back and names the first thing that differs.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use jobhall_core::{Group, Job, JobId, PastAttempt};
use jobhall_store::{AuditRow, Block, ExportChunk, Link, Marks, Record, Setting, StoredIdempotencyKey};

use crate::apply::records;
use crate::connect::wire::{Step, Wire};
use crate::error::{PgError, damaged};
use crate::groups;
use crate::reads::{self, Reads};
use crate::rows::row::{self, get, number};
use crate::rows::submitted;

/// The first row of a chunk that is stored differently or missing.
pub(super) async fn differs(wire: &Wire<'_>, portion: &ExportChunk) -> Result<Option<String>, PgError> {
    match portion {
        ExportChunk::Settings(all) => settings(wire, all).await,
        ExportChunk::Blocks(all) => blocks(wire, all).await,
        ExportChunk::Groups(all) => stored_groups(wire, all).await,
        ExportChunk::Jobs(all) => jobs(wire, all).await,
        ExportChunk::Links(all) => links(wire, all).await,
        ExportChunk::IdempotencyKeys(all) => keys(wire, all).await,
        ExportChunk::Acts(all) => acts(wire, all).await,
        ExportChunk::Records(all) => stored_records(wire, all).await,
    }
}

/// The stored counters.
pub(super) async fn marks(wire: &Wire<'_>) -> Result<Marks, PgError> {
    let rows = wire.ask(Step::new(include_str!("../sql/import_marks.sql"))).await?;
    let found = rows.first().ok_or_else(|| damaged("meta", "it is missing"))?;
    let number = |column| get::<i64>(found, column).map(i64::cast_unsigned);
    Ok(Marks { last_id: number(0)?, last_feed: number(1)?, last_act: number(2)? })
}

/// The first of these that differs from the stored one of the same name.
fn first<'a, K: Hash + Eq, V: PartialEq + 'a, N: Display>(
    wanted: impl Iterator<Item = (K, &'a V, N)>,
    stored: &HashMap<K, V>,
) -> Option<String> {
    wanted
        .filter(|(key, value, _)| stored.get(key) != Some(*value))
        .map(|(_, _, name)| name.to_string())
        .next()
}

async fn settings(wire: &Wire<'_>, all: &[Setting]) -> Result<Option<String>, PgError> {
    let kinds: Vec<&str> = all.iter().map(|setting| setting.kind.as_str()).collect();
    let names: Vec<&str> = all.iter().map(|setting| setting.name.as_str()).collect();
    let step = Step::new(include_str!("../sql/setting.sql")).with(kinds).with(names);
    let mut stored = HashMap::new();
    for found in &wire.ask(step).await? {
        let setting = reads::setting(found)?;
        stored.insert((setting.kind, setting.name.clone()), setting);
    }
    let name = |setting: &Setting| format!("{} {}", setting.kind.as_str(), setting.name);
    Ok(first(
        all.iter().map(|setting| ((setting.kind, setting.name.clone()), setting, name(setting))),
        &stored,
    ))
}

async fn blocks(wire: &Wire<'_>, all: &[Block]) -> Result<Option<String>, PgError> {
    let reads = Reads(Wire { client: wire.client, prepares: wire.prepares });
    let stored = reads.all_blocks().await?.into_iter().map(|block| (block.first, block)).collect();
    let name = |block: &Block| format!("the block of ids from {}", block.first);
    Ok(first(all.iter().map(|block| (block.first, block, name(block))), &stored))
}

async fn stored_groups(wire: &Wire<'_>, all: &[Group]) -> Result<Option<String>, PgError> {
    let rows = wire.ask(groups::reading(all.iter().map(|group| group.id))).await?;
    let mut stored = HashMap::new();
    for found in &rows {
        let group = groups::group(found)?;
        stored.insert(group.id.get(), group);
    }
    Ok(first(all.iter().map(|group| (group.id.get(), group, format!("group {}", group.id))), &stored))
}

async fn jobs(wire: &Wire<'_>, all: &[(Job, Vec<PastAttempt>)]) -> Result<Option<String>, PgError> {
    let ids: Vec<JobId> = all.iter().map(|(job, _)| job.id).collect();
    let attempts = Step::new(include_str!("../sql/import_attempts.sql"));
    let attempts = attempts.with(ids.iter().copied().map(number).collect::<Vec<_>>());
    let rows = wire.send(&[reads::reading(ids), attempts]).await?;
    let mut stored: HashMap<JobId, (Job, Vec<PastAttempt>)> = HashMap::new();
    for found in &rows[0] {
        let job = row::job(found)?;
        stored.insert(job.id, (job, Vec::new()));
    }
    for found in &rows[1] {
        if let Some((_, past)) = stored.get_mut(&row::job_id(found, 10)?) {
            past.push(row::attempt(found)?);
        }
    }
    Ok(first(all.iter().map(|whole| (whole.0.id, whole, format!("job {}", whole.0.id))), &stored))
}

async fn links(wire: &Wire<'_>, all: &[Link]) -> Result<Option<String>, PgError> {
    let parents: Vec<i64> = all.iter().map(|link| number(link.parent)).collect();
    let calls: Vec<&str> = all.iter().map(|link| link.call.as_str()).collect();
    let step = Step::new(include_str!("../sql/import_links.sql")).with(parents).with(calls);
    let mut stored = HashMap::new();
    for found in &wire.ask(step).await? {
        let link = groups::link(found)?;
        stored.insert((link.parent, link.call.clone()), link);
    }
    let name = |link: &Link| format!("the link {:?} of job {}", link.call, link.parent);
    Ok(first(all.iter().map(|link| ((link.parent, link.call.clone()), link, name(link))), &stored))
}

async fn keys(wire: &Wire<'_>, all: &[StoredIdempotencyKey]) -> Result<Option<String>, PgError> {
    let scopes: Vec<&str> = all.iter().map(|key| key.scope.as_str()).collect();
    let names: Vec<&str> = all.iter().map(|key| key.key.as_str()).collect();
    let step = Step::new(include_str!("../sql/idempotency_key.sql")).with(scopes).with(names);
    let mut stored = HashMap::new();
    for found in &wire.ask(step).await? {
        let at = row::time(found, 4)?;
        let key = StoredIdempotencyKey {
            scope: get(found, 0)?,
            key: get(found, 1)?,
            body: row::number128(get(found, 2)?)?,
            answer: submitted::from_text(row::text(found, 3)?)?,
            at,
            forget_before: at,
        };
        stored.insert((key.scope.clone(), key.key.clone()), key);
    }
    let name = |key: &StoredIdempotencyKey| format!("the idempotency key {:?} of {}", key.key, key.scope);
    Ok(first(all.iter().map(|key| ((key.scope.clone(), key.key.clone()), key, name(key))), &stored))
}

async fn acts(wire: &Wire<'_>, all: &[AuditRow]) -> Result<Option<String>, PgError> {
    let numbers: Vec<i64> = all.iter().map(|row| row.n.cast_signed()).collect();
    let mut stored = HashMap::new();
    for found in &wire.ask(Step::new(include_str!("../sql/import_acts.sql")).with(numbers)).await? {
        let row = reads::act(found)?;
        stored.insert(row.n, row);
    }
    Ok(first(all.iter().map(|row| (row.n, row, format!("act {}", row.n))), &stored))
}

async fn stored_records(wire: &Wire<'_>, all: &[Record]) -> Result<Option<String>, PgError> {
    let rows = wire.ask(records::reading(all.iter().map(|record| (&record.kind, &record.key)))).await?;
    let mut stored = HashMap::new();
    for found in &rows {
        let record = records::record(found)?;
        stored.insert((record.kind.clone(), record.key.clone()), record);
    }
    let name = |record: &Record| format!("the record {:?} of {}", record.key.as_str(), record.kind);
    Ok(first(
        all.iter().map(|record| ((record.kind.clone(), record.key.clone()), record, name(record))),
        &stored,
    ))
}
