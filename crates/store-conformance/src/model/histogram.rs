//! Counts what a run has exercised: a model test that is always refused, or never, proves little.

use std::collections::BTreeMap;
use std::fmt;

use jobhall_store::{Conflict, Unit};

use super::call::{Answer, Call};
use super::operation::{Shape, Twist};
use super::reference::Turn;

/// From this number of operations on, a run must have covered everything.
const JUDGED_FROM: u64 = 20_000;

const SHAPES: [Shape; 35] = [
    Shape::Submit,
    Shape::SubmitMany,
    Shape::HandOver,
    Shape::Reuse,
    Shape::Behind,
    Shape::Supersede,
    Shape::Claim,
    Shape::ClaimMany,
    Shape::Accept,
    Shape::Progress,
    Shape::Pass,
    Shape::Fail,
    Shape::TakeBack,
    Shape::LeaseEnd,
    Shape::Cancel,
    Shape::Again,
    Shape::Release,
    Shape::After,
    Shape::Met,
    Shape::Cascaded,
    Shape::Wait,
    Shape::Resume,
    Shape::Start,
    Shape::Tell,
    Shape::TimeOut,
    Shape::Hold,
    Shape::Edit,
    Shape::Group,
    Shape::MoveGroup,
    Shape::Join,
    Shape::Link,
    Shape::Respec,
    Shape::Configure,
    Shape::Record,
    Shape::Bare,
];

const VERBS: [&str; 22] = [
    "commit",
    "take_block",
    "settle_blocks",
    "prune",
    "jobs",
    "attempts",
    "attempts_of_jobs",
    "successes",
    "open_jobs",
    "blocks",
    "completed",
    "count_completed",
    "list",
    "groups",
    "group_page",
    "members",
    "links",
    "settings",
    "records",
    "record_page",
    "feed",
    "feed_end",
];

const CONFLICTS: [&str; 14] = [
    "stale, change",
    "stale, insert",
    "stale, job gone",
    "not open",
    "not joinable",
    "group",
    "key held, insert",
    "key held, change",
    "reusable",
    "successor",
    "repeated",
    "idempotency key reused",
    "setting",
    "record",
];

/// A name, and a predicate on units.
type Extra = (&'static str, fn(Shape, &[Twist; 2], &Unit) -> bool);

/// Optional parts of a unit.
const EXTRAS: [Extra; 6] = [
    ("with a check", |_, twists, _| twists.contains(&Twist::Check)),
    ("with a follow-up", |shape, _, unit| {
        shape != Shape::Supersede && !unit.changes.is_empty() && !unit.inserts.is_empty()
    }),
    ("with a setting", |_, twists, _| twists.contains(&Twist::Setting)),
    ("with a record", |_, twists, _| twists.contains(&Twist::Record)),
    ("with a idempotency key", |_, twists, _| twists.contains(&Twist::StoredIdempotencyKey)),
    ("with its successor", |shape, _, unit| {
        !matches!(shape, Shape::Supersede | Shape::ClaimMany) && unit.changes.len() > 1
    }),
];

fn kind_of(conflict: &Conflict, unit: &Unit) -> &'static str {
    let inserted = |id| unit.inserts.iter().any(|insert| insert.job.id == id);
    match conflict {
        Conflict::Stale { id, job: Some(_) } if inserted(*id) => "stale, insert",
        Conflict::Stale { job: Some(_), .. } => "stale, change",
        Conflict::Stale { job: None, .. } => "stale, job gone",
        Conflict::NotOpen(_) => "not open",
        Conflict::NotJoinable(_) => "not joinable",
        Conflict::Group { .. } => "group",
        Conflict::KeyHeld { id, .. } if inserted(*id) => "key held, insert",
        Conflict::KeyHeld { .. } => "key held, change",
        Conflict::Reusable { .. } => "reusable",
        Conflict::Successor { .. } => "successor",
        Conflict::Repeated(_) => "repeated",
        Conflict::IdempotencyKeyReused => "idempotency key reused",
        Conflict::Setting { .. } => "setting",
        Conflict::Record { .. } => "record",
    }
}

/// The number of calls, and how many of them had an effect.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    calls: u64,
    successes: u64,
}

impl Count {
    fn add(&mut self, succeeded: bool) {
        self.calls += 1;
        self.successes += u64::from(succeeded);
    }
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    sequences: u64,
    operations: u64,
    verbs: BTreeMap<&'static str, Count>,
    units: BTreeMap<String, Count>,
    conflicts: BTreeMap<&'static str, u64>,
}

impl Histogram {
    /// Number of operations so far. An operation is one unit of a commit, or one call of another kind.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Counts the end of a sequence.
    pub(super) fn end_sequence(&mut self) {
        self.sequences += 1;
    }

    /// Counts the result of one operation.
    pub(super) fn add(&mut self, turn: &Turn) {
        self.verbs.entry(turn.call.verb()).or_default().add(turn.succeeded);
        let (Call::Commit(units), Answer::Committed(committed)) = (&turn.call, &turn.answer) else {
            self.operations += 1;
            return;
        };
        self.operations += units.len() as u64;
        for ((unit, result), (shape, twists)) in units.iter().zip(&committed.results).zip(&turn.units) {
            let extras = EXTRAS.iter().filter(|(_, has)| has(*shape, twists, unit)).map(|(name, _)| *name);
            for kind in extras.map(str::to_owned).chain([format!("{shape:?}")]) {
                self.units.entry(kind).or_default().add(result.is_ok());
            }
            for conflict in result.as_ref().err().into_iter().flatten() {
                *self.conflicts.entry(kind_of(conflict, unit)).or_default() += 1;
            }
        }
    }

    /// What a run of this size should have covered and has not: an operation or a kind of unit that succeeds in less
    /// than 5 % of its calls, or a conflict that never occurred.
    pub fn gaps(&self) -> Vec<String> {
        if self.operations < JUDGED_FROM {
            return Vec::new();
        }
        let rare = |count: Option<&Count>| count.is_none_or(|count| count.successes * 20 < count.calls);
        let verbs =
            VERBS.iter().filter(|verb| rare(self.verbs.get(*verb))).map(|verb| format!("verb {verb}"));
        let extras = EXTRAS.iter().map(|(name, _)| (*name).to_owned());
        let units = SHAPES.iter().map(|shape| format!("{shape:?}")).chain(extras);
        let units = units.filter(|unit| rare(self.units.get(unit))).map(|unit| format!("unit {unit}"));
        let conflicts = CONFLICTS.iter().filter(|kind| !self.conflicts.contains_key(*kind));
        verbs.chain(units).chain(conflicts.map(|kind| format!("conflict {kind}"))).collect()
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} operations in {} sequences", self.operations, self.sequences)?;
        let verbs = self.verbs.iter().map(|(name, count)| (*name, count));
        let units = self.units.iter().map(|(name, count)| (name.as_str(), count));
        for (title, counts) in [("verb", verbs.collect::<Vec<_>>()), ("unit", units.collect())] {
            writeln!(f, "{title:<24}{:>9}{:>11}", "calls", "successes")?;
            for (name, Count { calls, successes }) in counts {
                let percent = successes * 100 / (*calls).max(1);
                writeln!(f, "  {name:<22}{calls:>9}{successes:>11}{percent:>5} %")?;
            }
        }
        writeln!(f, "{:<24}{:>9}", "conflict", "times")?;
        self.conflicts.iter().try_for_each(|(name, times)| writeln!(f, "  {name:<22}{times:>9}"))
    }
}
