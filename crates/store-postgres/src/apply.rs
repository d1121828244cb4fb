//! How units are applied.
//!
//! Almost no unit is refused, and only the leader writes. The writes of all units are therefore sent at once,
//! together with their COMMIT, and each statement states how many rows it must match. Only if a statement matches
//! another number is the transaction rolled back; the rows that the units touch are then read, and the units are
//! decided as in the reference store.
//!
//! ```text
//!   plain units ──▶ BEGIN · fence · changes · inserts · side rows · feed · COMMIT   in one round trip
//!                                      │ a row count differs: rolled back
//!   the others  ──▶ BEGIN · fence · read what they touch ──▶ Excerpt decides ──▶ writes · COMMIT
//! ```

pub(crate) mod records;
mod side_rows;
mod touched;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jobhall_core::JobId;
use jobhall_store::{Committed, Done, Excerpt, KeyPlace, News, Unit, key_place, pack};

use crate::connect::wire::{Step, Wire};
use crate::error::{PgError, damaged};
use crate::rows::lives::{Lives, key_of};
use crate::rows::row::number;
use crate::rows::spec::Specs;
use side_rows::SideRows;

pub(crate) use side_rows::{attempts, idempotency_keys, links};

/// Counters of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// The highest feed number used.
    pub(crate) feed: u64,
    /// The highest number of an audit entry used.
    pub(crate) act: u64,
}

/// The writes, and the replies to the callers once they are committed.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// One reply per call.
    pub(crate) answers: Vec<Committed>,
    /// The counters after these writes.
    pub(crate) numbers: Numbers,
}

/// The writes of units that are expected not to be refused; none if they must be checked first.
pub(crate) fn believed(calls: &[Vec<Unit>], numbers: Numbers) -> Result<Option<Plan>, PgError> {
    let units = || calls.iter().flatten();
    if !units().all(is_plain) || !distinct(units()) {
        return Ok(None);
    }
    let (mut changes, mut inserts) = (Lives::default(), Lives::default());
    let (mut specs, mut replaced) = (Specs::default(), Specs::default());
    for unit in units() {
        for change in &unit.changes {
            changes.push_change(change.id, change.expected, &change.status);
            if let Some(spec) = &change.spec {
                replaced.push(change.id, spec);
            }
        }
        for insert in &unit.inserts {
            inserts.push_job(&insert.job);
            specs.push(insert.job.id, &insert.job.spec);
        }
    }
    let mut steps = Vec::new();
    let early = keys_wanted_before_an_end(calls);
    if !early.is_empty() {
        steps.push(Step::new(include_str!("sql/free_keys.sql")).with(early));
    }
    if !changes.is_empty() {
        steps.extend(changes.changed()?);
    }
    push_inserts(&mut steps, &inserts, &specs, &replaced)?;
    let applied = units().collect::<Vec<_>>();
    let answers = calls.iter().map(|units| units.iter().map(|_| Ok(Done::default())).collect()).collect();
    finish(steps, calls, &applied, answers, numbers, true).map(Some)
}

/// Whether a unit consists of changes and inserts only, as nearly all do.
fn is_plain(unit: &Unit) -> bool {
    let Unit { checks, changes, inserts, settings, groups, records, .. } = unit;
    checks.is_empty()
        && settings.is_empty()
        && groups.is_empty()
        && records.is_empty()
        && changes.iter().all(|change| !change.want_spec && key_place(&change.status.state) != KeyPlace::Next)
        && inserts
            .iter()
            .all(|insert| insert.reuse.is_none() && key_place(&insert.job.status.state) != KeyPlace::Next)
}

/// Whether every job is changed at most once.
fn distinct<'a>(units: impl Iterator<Item = &'a Unit>) -> bool {
    let mut seen = HashSet::new();
    units.flat_map(touched_ids).all(|id| seen.insert(id))
}

fn touched_ids(unit: &Unit) -> impl Iterator<Item = JobId> {
    let changed = unit.changes.iter().map(|change| change.id);
    changed.chain(unit.inserts.iter().map(|insert| insert.job.id))
}

/// Keys of inserts that precede an end. All changes are written before all inserts, so such an insert would take a
/// place that was held at its turn. These keys must be free from the start.
fn keys_wanted_before_an_end(calls: &[Vec<Unit>]) -> Vec<String> {
    let units: Vec<&Unit> = calls.iter().flatten().collect();
    let ends = |unit: &&Unit| unit.changes.iter().any(|change| change.status.state.is_terminal());
    let last_end = units.iter().rposition(ends).unwrap_or(0);
    let inserts = units[..last_end].iter().flat_map(|unit| &unit.inserts);
    inserts.filter_map(|insert| key_of(&insert.job)).collect()
}

fn push_inserts<'a>(
    steps: &mut Vec<Step>,
    inserts: &Lives<'a>,
    specs: &Specs<'a>,
    replaced: &Specs<'a>,
) -> Result<(), PgError> {
    if !inserts.is_empty() {
        steps.extend(inserts.inserted()?);
        steps.extend(specs.inserted()?);
    }
    if !replaced.is_empty() {
        steps.push(replaced.step(include_str!("sql/replace_spec.sql"))?);
    }
    Ok(())
}

type Results = Vec<Result<Done, Vec<jobhall_store::Conflict>>>;

/// Adds the side rows of the applied units and the feed rows.
fn finish<'a>(
    mut steps: Vec<Step>,
    calls: &'a [Vec<Unit>],
    applied: &[&'a Unit],
    results: Vec<Results>,
    mut numbers: Numbers,
    believed: bool,
) -> Result<Plan, PgError> {
    let mut company = SideRows::default();
    for unit in applied {
        company.add(unit)?;
    }
    company.push_steps(&mut steps, &mut numbers.act, believed)?;
    let (mut n, mut at, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    let mut answers = Vec::with_capacity(calls.len());
    for (units, results) in calls.iter().zip(results) {
        let mut news = News::default();
        let done = units.iter().zip(&results).filter(|(_, result)| result.is_ok());
        done.for_each(|(unit, _)| news.add(unit));
        let feed = (!news.entries.is_empty()).then(|| {
            numbers.feed += 1;
            n.push(numbers.feed.cast_signed());
            at.push(news.at.as_ms());
            entries.push(pack(&news.entries));
            numbers.feed
        });
        answers.push(Committed { feed, results });
    }
    if !n.is_empty() {
        steps.push(Step::new(include_str!("sql/insert_feed.sql")).with(n).with(at).with(entries));
    }
    Ok(Plan { steps, answers, numbers })
}

/// The jobs after the decided units.
#[derive(Default)]
pub(crate) struct Decided {
    excerpt: Excerpt,
    /// The stored places on keys.
    places: BTreeMap<JobId, KeyPlace>,
    results: Vec<Results>,
    inserted: BTreeSet<JobId>,
    changed: BTreeSet<JobId>,
    respecified: BTreeSet<JobId>,
}

impl Decided {
    /// Reads the rows that the units touch inside the open transaction, and decides the units in order.
    pub(crate) async fn read(wire: &Wire<'_>, calls: &[Vec<Unit>]) -> Result<Decided, PgError> {
        let (excerpt, places) = touched::read(wire, calls).await?;
        let mut decided = Decided { excerpt, places, ..Decided::default() };
        for units in calls {
            let results = units.iter().map(|unit| decided.decide(unit)).collect();
            decided.results.push(results);
        }
        Ok(decided)
    }

    fn decide(&mut self, unit: &Unit) -> Result<Done, Vec<jobhall_store::Conflict>> {
        let done = self.excerpt.decide(unit)?;
        self.inserted.extend(unit.inserts.iter().map(|insert| insert.job.id));
        let stored = unit.changes.iter().filter(|change| !self.inserted.contains(&change.id));
        for change in stored.clone() {
            self.changed.insert(change.id);
        }
        self.respecified.extend(stored.filter(|change| change.spec.is_some()).map(|change| change.id));
        Ok(done)
    }

    /// The writes: every changed job once, in its final state.
    pub(crate) fn plan<'a>(&'a self, calls: &'a [Vec<Unit>], numbers: Numbers) -> Result<Plan, PgError> {
        let (mut puts, mut inserts) = (Lives::default(), Lives::default());
        let (mut specs, mut replaced) = (Specs::default(), Specs::default());
        let mut movers = Vec::new();
        for &id in &self.changed {
            let job = self.job(id)?;
            puts.push_job(job);
            if job.spec.key.is_some() && self.places.get(&id) != Some(&key_place(&job.status.state)) {
                movers.push(number(id));
            }
            if self.respecified.contains(&id) {
                replaced.push(id, &job.spec);
            }
        }
        for &id in &self.inserted {
            let job = self.job(id)?;
            inserts.push_job(job);
            specs.push(id, &job.spec);
        }
        let mut steps = Vec::new();
        if !movers.is_empty() {
            steps.push(Step::new(include_str!("sql/release_keys.sql")).with(movers));
        }
        if !puts.is_empty() {
            steps.push(puts.placed(include_str!("sql/put_job.sql"))?);
        }
        push_inserts(&mut steps, &inserts, &specs, &replaced)?;
        let pairs = calls.iter().flatten().zip(self.results.iter().flatten());
        let applied: Vec<&Unit> = pairs.filter(|(_, result)| result.is_ok()).map(|(unit, _)| unit).collect();
        self.push_records(&mut steps, &applied);
        finish(steps, calls, &applied, self.results.clone(), numbers, false)
    }

    /// The writes of records: each once, in its final state.
    fn push_records(&self, steps: &mut Vec<Step>, applied: &[&Unit]) {
        let written = applied.iter().flat_map(|unit| &unit.records);
        let written: BTreeSet<_> = written.map(|write| (&write.kind, &write.key)).collect();
        let (puts, gone): (Vec<_>, Vec<_>) = written
            .into_iter()
            .map(|name| (name, self.excerpt.record(name.0, name.1)))
            .partition(|(_, record)| record.is_some());
        if !gone.is_empty() {
            steps.push(records::removing(gone.into_iter().map(|(name, _)| name)));
        }
        if !puts.is_empty() {
            steps.push(records::writing(
                &puts.into_iter().filter_map(|(_, record)| record).collect::<Vec<_>>(),
            ));
        }
    }

    fn job(&self, id: JobId) -> Result<&jobhall_core::Job, PgError> {
        self.excerpt
            .job(id)
            .ok_or_else(|| damaged("job", format_args!("job {id} was decided on, but not read")))
    }
}
