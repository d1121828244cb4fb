//! One seed, one run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::check::{Invariant, Violation};
use crate::plant::Plant;
use crate::script::Script;
use crate::simulation::Sim;
use crate::tally::Tally;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What went wrong, if anything did.
    pub violation: Option<Violation>,
    /// What occurred.
    pub tally: Tally,
    /// Events that happened.
    pub events: u64,
    /// Virtual milliseconds that passed.
    pub ms: u64,
    /// A hash over all events: the same seed gives the same.
    pub hash: u64,
    /// The story, if it was asked for: of the jobs involved in a violation, or of all.
    pub story: Vec<String>,
}

/// Runs a seed.
pub fn run(seed: u64, plant: Option<Plant>, story: bool) -> Outcome {
    play(Script::new(seed), plant, story)
}

/// Runs a script.
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

/// Lets a run happen to its end; gives what went wrong.
pub(crate) fn finish(sim: &mut Sim) -> Option<Violation> {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| sim.run())) else {
        return sim.checker.violation.take();
    };
    let words = panic.downcast_ref::<String>().cloned();
    let words = words.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    let text = format!("panicked: {}", words.unwrap_or_default());
    Some(Violation { invariant: Invariant::Panic, jobs: Vec::new(), text })
}
