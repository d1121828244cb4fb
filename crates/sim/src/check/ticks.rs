//! Ticks: each has exactly one job, and none is skipped where all must be run.
//!
//! Schedules of a run have a fixed interval counted from 1970 and neither jitter nor windows, so a job's time is
//! its tick. Stored schedules are read as text: nothing here is shared with the engine.

use std::collections::BTreeSet;

use jobhall_core::{JobId, Time};
use jobhall_store::{SettingKind, SettingWrite, Unit};

use super::{Checker, Invariant};

/// Older ticks count as missed, and at most this many of them are made up; defined here a second time.
const LATE_MS: i64 = 60_000;
const CAUGHT_UP: i64 = 100;

/// A schedule as last stored.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    version: i64,
    seen: i64,
    made: BTreeSet<Time>,
}

impl Checker {
    /// Whether any schedule is stored.
    pub fn has_schedules(&self) -> bool {
        !self.schedules.is_empty()
    }

    /// A unit is stored: checks its schedules and their jobs.
    pub(super) fn ticks_stored(&mut self, unit: &Unit) {
        for write in unit.settings.iter().filter(|write| write.kind == SettingKind::Schedule) {
            match &write.value {
                Some(value) => self.schedule_stored(unit, write, value),
                None => drop(self.schedules.remove(&write.name)),
            }
        }
    }

    fn schedule_stored(&mut self, unit: &Unit, write: &SettingWrite, value: &str) {
        let name = &write.name;
        let (version, seen) = (number(value, "\"version\":"), number(value, "\"seen_ms\":"));
        let of_it = unit
            .inserts
            .iter()
            .map(|insert| &insert.job)
            .filter(|job| job.spec.schedule.as_ref().is_some_and(|schedule| schedule.as_str() == name));
        let made: Vec<(JobId, Time, Time)> =
            of_it.map(|job| (job.id, job.status.run_at, job.spec.created_at)).collect();
        let known = self.schedules.entry(name.clone()).or_default();
        let (before, same) = (known.seen, known.version == version);
        (known.version, known.seen) = (version, seen);
        let repeated: Vec<_> = made
            .iter()
            .filter(|(_, tick, _)| {
                let within = (before + 1..=seen).contains(&tick.as_ms());
                !known.made.insert(*tick) || !within
            })
            .map(|(id, ..)| *id)
            .collect();
        self.must(seen >= before && repeated.is_empty(), Invariant::Tick, &repeated, || {
            format!("schedule {name} went from {before} to {seen} and made {made:?}")
        });
        if same {
            self.seen.push(("ticks", if made.is_empty() { "passed or joined" } else { "made" }));
            self.none_left_out(name, value, (before, seen), &made);
        }
    }

    /// If every tick is required, each has a job.
    fn none_left_out(
        &mut self,
        name: &str,
        value: &str,
        (before, seen): (i64, i64),
        made: &[(JobId, Time, Time)],
    ) {
        let all = ["\"catch_up\":\"all\"", "\"overlap\":\"allow\"", "\"key\":null"];
        let every = number(value, "\"every\":{\"ms\":");
        let Some((_, _, now)) = made.first().filter(|_| all.iter().all(|part| value.contains(part))) else {
            return;
        };
        let late = (now.as_ms() - LATE_MS).max(before);
        let (missed, fresh) = (late / every - before / every, seen / every - late / every);
        let expected = missed.min(CAUGHT_UP) + fresh;
        let ids: Vec<_> = made.iter().map(|(id, ..)| *id).collect();
        self.must(i64::try_from(made.len()) == Ok(expected), Invariant::Tick, &ids, || {
            format!("schedule {name} went from {before} to {seen} with {} jobs, not {expected}", made.len())
        });
    }
}

/// The number after this text.
fn number(text: &str, behind: &str) -> i64 {
    let rest = text.split(behind).nth(1).unwrap_or_default();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or(0)
}
