//! One seed, one run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::check::{Invariant, Violation};
use crate::plant::Plant;
use crate::script::Script;
use crate::simulation::Sim;
use crate::tally::Tally;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    /// The violated invariant, if any.
    pub violation: Option<Violation>,
    /// Counts of what occurred.
    pub tally: Tally,
    pub events: u64,
    /// Virtual duration in milliseconds.
    pub ms: u64,
    /// A hash over all events: equal for equal seeds.
    pub hash: u64,
    /// The trace, if requested: of the jobs involved in a violation, or of all jobs.
    pub story: Vec<String>,
}

pub fn run(seed: u64, plant: Option<Plant>, story: bool) -> Outcome {
    play(Script::new(seed), plant, story)
}

pub fn play(script: Script, plant: Option<Plant>, story: bool) -> Outcome {
    let seed = script.seed;
    let mut sim = Sim::new(script, plant, story);
    let violation = finish(&mut sim);
    if story && let Some(violation) = &violation {
        sim.explain(&violation.jobs);
    }
    let jobs = violation.as_ref().map(|violation| violation.jobs.clone()).unwrap_or_default();
    Outcome {
        seed,
        violation,
        tally: sim.tally,
        events: sim.trace.events,
        ms: sim.ms,
        hash: sim.trace.hash,
        story: sim.trace.about(&jobs),
    }
}

/// Runs to the end; returns the violation, if any.
pub(crate) fn finish(sim: &mut Sim) -> Option<Violation> {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| sim.run())) else {
        return sim.checker.violation.take();
    };
    let words = panic.downcast_ref::<String>().cloned();
    let words = words.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    let text = format!("panicked: {}", words.unwrap_or_default());
    Some(Violation { invariant: Invariant::Panic, jobs: Vec::new(), text })
}
