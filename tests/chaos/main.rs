//! Chaos: the server is killed without warning repeatedly, at random times under load, and the result is checked by
//! the simulator's checkers. A hall of three nodes is also suspended, stopped, and loses its database.
//!
//! `JOBHALL_KILLS`, `JOBHALL_ROUNDS` and `JOBHALL_SEED` set the number of faults and the seed; `make chaos` and `make
//! chaos-nodes` set them. A seed determines the actions of clients, workers and faults. The timing of their messages
//! depends on the machine, so a seed reproduces the kind of run and not every detail.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clients;
mod ground;
mod judge;
mod nodes;
mod plants;
mod record;
mod stored;
mod storm;
mod work;
mod workers;

use std::time::SystemTime;

use ground::One;
use nodes::{Three, WEATHER};
use storm::{Aftermath, storm};

const KILLS: u64 = 100;
/// How often each fault happens to a hall of three nodes.
const ROUNDS: u64 = 1;

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name} is {text:?}: {error}")))
}

/// The seed of a run: random unless given. A failing test shows its output, so the seed is printed first.
fn seed() -> u64 {
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let seed = number("JOBHALL_SEED").unwrap_or_else(clock);
    println!("seed {seed} (JOBHALL_SEED={seed} repeats it)");
    seed
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Prints what happened, and checks all rules.
fn judged(seed: u64, aftermath: &Aftermath) {
    println!("{} jobs", aftermath.stored.jobs.len());
    for (what, count) in &aftermath.book.tally {
        println!("{count:>8}  {what}");
    }
    for (rule, why) in judge::NOT_JUDGED {
        println!("not judged: {rule}: {why}");
    }
    if let Some(violation) = judge::violation(aftermath) {
        panic!("seed {seed}: {}: {:?}: {}", violation.invariant, violation.jobs, violation.text);
    }
    judge::beyond(aftermath);
    for what in ["submits acknowledged", "cancels acknowledged", "outcomes acknowledged", "outcomes repeated"]
    {
        assert!(aftermath.book.tally.contains_key(what), "no {what}");
    }
}

#[test]
fn g1_g2_g3_g4_g7_h6_h7_h11_l14_a_hall_that_is_killed_a_hundred_times_keeps_its_word() {
    let (seed, kills) = (seed(), number("JOBHALL_KILLS").unwrap_or(KILLS));
    let aftermath = runtime().block_on(storm(One::new(), seed, kills));
    judged(seed, &aftermath);
    for what in ["submits acknowledged", "cancels acknowledged", "outcomes acknowledged", "outcomes repeated"]
    {
        assert!(aftermath.book.tally.get(what).is_some_and(|count| *count * 4 > kills), "too few {what}");
    }
}

#[test]
fn g1_g2_g3_g4_g7_h6_h7_h11_l14_a_hall_of_three_nodes_in_a_storm_keeps_its_word_and_its_attempts() {
    let (seed, rounds) = (seed(), number("JOBHALL_ROUNDS").unwrap_or(ROUNDS));
    let gusts = rounds * WEATHER.len() as u64;
    let aftermath = runtime().block_on(storm(Three::new(&WEATHER), seed, gusts));
    judged(seed, &aftermath);
    let kept = judge::kept(&aftermath);
    println!("{kept:>8}  attempts that outlived the node that gave them");
    assert!(kept > 0, "seed {seed}: no attempt continued at another node");
}
