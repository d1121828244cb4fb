//! Reads all rows that a set of units touches, in two steps: the keys of stored jobs are known only after the jobs
//! are read.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{GroupId, Job, JobId, Key, RecordKind};
use jobhall_store::{Check, Excerpt, KeyPlace, Unit, key_place};
use tokio_postgres::Row;

use super::records;
use super::touched_ids;
use crate::connect::wire::{Step, Wire};
use crate::error::PgError;
use crate::rows::lives::key_of;
use crate::rows::row::{self, get};
use crate::rows::submitted;
use crate::{groups, reads};

/// The rows read, and the stored places on keys.
pub(super) async fn read(
    wire: &Wire<'_>,
    calls: &[Vec<Unit>],
) -> Result<(Excerpt, BTreeMap<JobId, KeyPlace>), PgError> {
    let units: Vec<&Unit> = calls.iter().flatten().collect();
    let mut excerpt = Excerpt::default();
    let named: BTreeSet<JobId> = units.iter().flat_map(|unit| named_jobs(unit)).collect();
    let rows = wire
        .send(&[
            reads::reading(named.iter().copied()),
            groups::reading(units.iter().flat_map(|unit| named_groups(unit)).collect::<BTreeSet<_>>()),
            settings(&units),
            idempotency_keys(&units),
            successes(&units),
            records::reading(units.iter().flat_map(|unit| named_records(unit)).collect::<BTreeSet<_>>()),
        ])
        .await?;
    let jobs = rows[0].iter().map(row::job).collect::<Result<Vec<_>, _>>()?;
    for group in &rows[1] {
        excerpt.know_group(groups::group(group)?);
    }
    for setting in &rows[2] {
        excerpt.know_setting(reads::setting(setting)?);
    }
    for key in &rows[3] {
        know_idempotency_key(&mut excerpt, key)?;
    }
    for record in &rows[5] {
        excerpt.know_record(records::record(record)?);
    }
    let mut more = row::ids(rows[4].iter().map(|found| get(found, 0)).collect::<Result<Vec<i64>, _>>()?)?;
    more.extend(holders(wire, &units, &jobs).await?);
    more.retain(|id| !named.contains(id));
    let places = jobs.iter().map(|job| (job.id, key_place(&job.status.state))).collect();
    if !more.is_empty() {
        for found in &wire.ask(reads::reading(more)).await? {
            excerpt.know_job(row::job(found)?);
        }
    }
    jobs.into_iter().for_each(|job| excerpt.know_job(job));
    Ok((excerpt, places))
}

fn named_jobs(unit: &Unit) -> impl Iterator<Item = JobId> {
    let checked = unit.checks.iter().filter_map(|check| match check {
        Check::Open(id) => Some(*id),
        Check::Joinable(_) | Check::GroupOpen(_) => None,
    });
    touched_ids(unit).chain(checked)
}

fn named_groups(unit: &Unit) -> impl Iterator<Item = GroupId> {
    let checked = unit.checks.iter().filter_map(|check| match check {
        Check::Joinable(id) | Check::GroupOpen(id) => Some(*id),
        Check::Open(_) => None,
    });
    unit.groups.iter().map(|write| write.group.id).chain(checked)
}

fn named_records(unit: &Unit) -> impl Iterator<Item = (&RecordKind, &Key)> {
    unit.records.iter().map(|write| (&write.kind, &write.key))
}

fn settings(units: &[&Unit]) -> Step {
    let named = units.iter().flat_map(|unit| &unit.settings);
    let named: BTreeSet<_> = named.map(|write| (write.kind.as_str(), write.name.as_str())).collect();
    let (kinds, names): (Vec<&str>, Vec<&str>) = named.into_iter().unzip();
    Step::new(include_str!("../sql/setting.sql")).with(kinds).with(names)
}

fn idempotency_keys(units: &[&Unit]) -> Step {
    let named = units.iter().filter_map(|unit| unit.idempotency_key.as_ref());
    let named: BTreeSet<_> = named.map(|key| (key.scope.as_str(), key.key.as_str())).collect();
    let (scopes, keys): (Vec<&str>, Vec<&str>) = named.into_iter().unzip();
    Step::new(include_str!("../sql/idempotency_key.sql")).with(scopes).with(keys)
}

fn know_idempotency_key(excerpt: &mut Excerpt, found: &Row) -> Result<(), PgError> {
    let body = row::number128(get(found, 2)?)?;
    let answer = submitted::from_text(row::text(found, 3)?)?;
    excerpt.know_idempotency_key(get(found, 0)?, get(found, 1)?, body, answer, row::time(found, 4)?);
    Ok(())
}

fn successes(units: &[&Unit]) -> Step {
    let inserts = units.iter().flat_map(|unit| &unit.inserts);
    reads::successes(inserts.filter_map(|insert| {
        let spec = &insert.job.spec;
        Some((&spec.job_type, spec.key.as_ref()?, insert.reuse?))
    }))
}

/// The jobs that hold or wait for a key that a unit may take or release.
async fn holders(wire: &Wire<'_>, units: &[&Unit], jobs: &[Job]) -> Result<Vec<JobId>, PgError> {
    let wanted = units.iter().flat_map(|unit| &unit.inserts).filter_map(|insert| key_of(&insert.job));
    let keys: BTreeSet<String> = wanted.chain(jobs.iter().filter_map(key_of)).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let step = Step::new(include_str!("../sql/holders.sql")).with(keys.into_iter().collect::<Vec<_>>());
    row::ids(wire.ask(step).await?.iter().map(|found| get(found, 0)).collect::<Result<Vec<i64>, _>>()?)
}
