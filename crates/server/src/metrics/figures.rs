//! Wire form of the engine statistics.

use std::collections::BTreeMap;

use jobhall_core::{QueueName, Time, TypeName};
use jobhall_engine::{ByOutcome, Counts, Histogram, Rates, Tally};
use jobhall_protocol::{self as wire, Timestamp};

/// A queue with its open jobs.
pub(crate) fn queue(name: &QueueName, tally: &Tally, now: Time) -> wire::Queue {
    wire::Queue {
        name: name.to_string(),
        jobs: states(tally),
        ready: tally.ready,
        oldest_ready_at: tally.oldest_ready.map(Timestamp),
        oldest_ready_ms: tally.oldest_ready.map(|since| now.since(since)),
        paused: false,
        limits: Vec::new(),
        keep_ms: None,
        keep_count: None,
        workers: None,
        free_slots: None,
    }
}

/// Every non-final state with its number of jobs.
pub(crate) fn states(tally: &Tally) -> BTreeMap<String, u64> {
    tally.states().map(|(state, jobs)| (state.to_string(), jobs)).collect()
}

fn outcomes(by: &ByOutcome) -> BTreeMap<String, u64> {
    by.iter().map(|(outcome, n)| (outcome.to_string(), n)).collect()
}

/// The completed jobs that are stored, and the rule for them.
pub(crate) fn kept(counts: &Counts, retention: wire::Retention) -> wire::Kept {
    let (jobs, types) = match &counts.kept {
        Some((jobs, types)) => (Some(*jobs), types.as_slice()),
        None => (None, &[][..]),
    };
    let of_type = |(name, jobs): &(TypeName, u64)| wire::KeptType { job_type: name.to_string(), jobs: *jobs };
    wire::Kept { jobs, types: types.iter().map(of_type).collect(), retention }
}

/// Totals since the start.
pub(crate) fn totals(counts: &Counts) -> wire::Totals {
    wire::Totals {
        submitted: counts.submitted,
        completed: outcomes(&counts.completed),
        attempts: outcomes(&counts.attempts),
    }
}

/// The numbers of workers and slots.
pub(crate) fn workforce(counts: &Counts) -> wire::Workforce {
    let jobhall_engine::Workforce { idle, busy, awaited, free_slots, busy_slots } = counts.workforce;
    wire::Workforce { idle, busy, awaited, free_slots, busy_slots }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn real(number: u64) -> f64 {
    number as f64
}

/// Rates per second.
pub(crate) fn rates(lately: Rates) -> wire::Rates {
    wire::Rates { per_s_1m: real(lately.minute) / 60.0, per_s_5m: real(lately.five_minutes) / 300.0 }
}

/// Converts durations; `units` is the number of units in a millisecond.
pub(crate) fn durations(histogram: &Histogram, units_per_ms: u64) -> wire::Durations {
    let ms = |per_mille| histogram.quantile(per_mille).map(|units| real(units) / real(units_per_ms));
    wire::Durations { count: histogram.count, p50_ms: ms(500), p95_ms: ms(950) }
}

/// Converts units to seconds.
pub(crate) fn seconds(units: u64, units_per_s: u64) -> f64 {
    real(units) / real(units_per_s)
}
