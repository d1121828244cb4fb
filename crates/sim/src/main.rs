//! Runs seeds and prints what occurred or what failed.

mod args;

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jobhall_sim::{Outcome, Tally, run, shrink};

use crate::args::Args;

const USAGE: &str = "usage:
  jobhall-sim [--seeds N] [--from S] [--all] [--trace]   run N seeds from S; without S, from a fresh one
  jobhall-sim --seed S [--trace]                         run one seed";

/// How long a failure may be shrunk.
const SHRINK: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    match dispatch(Args::new()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Does what the command line says; whether all was well.
fn dispatch(mut args: Args) -> Result<bool, String> {
    let usage = |error: String| format!("{error}\n{USAGE}");
    let trace = args.flag("--trace");
    if let Some(seed) = args.value("--seed").map_err(usage)? {
        args.end().map_err(usage)?;
        return Ok(run_one(seed, trace));
    }
    let seeds = args.value("--seeds").map_err(usage)?.unwrap_or(1_000);
    let from = args.value("--from").map_err(usage)?.unwrap_or_else(fresh_seed);
    let all = args.flag("--all");
    args.end().map_err(usage)?;
    Ok(run_many(&Seeds { from, seeds, trace, all }))
}

/// A seed that no run had before: the milliseconds of the clock.
fn fresh_seed() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(0)
}

fn run_one(seed: u64, trace: bool) -> bool {
    let outcome = run(seed, None, trace);
    print_story(&outcome);
    let failed = outcome.violation.is_some();
    if failed {
        print_violation(&outcome);
        print_shrunk(seed);
    } else {
        println!("{}\nseed {seed} passes, {} events", outcome.tally, outcome.events);
    }
    !failed
}

struct Seeds {
    from: u64,
    seeds: u64,
    trace: bool,
    /// Go on after a failure, and print each in one line.
    all: bool,
}

fn run_many(seeds: &Seeds) -> bool {
    println!("seeds from {}", seeds.from);
    let started = Instant::now();
    let (mut tally, mut events, mut failures) = (Tally::default(), 0, 0);
    for seed in seeds.from..seeds.from.saturating_add(seeds.seeds) {
        let outcome = run(seed, None, seeds.trace);
        print_story(&outcome);
        if outcome.violation.is_some() {
            failures += 1;
            print_failure(&outcome, seeds);
            if !seeds.all {
                return false;
            }
        }
        tally.merge(&outcome.tally);
        events += outcome.events;
        progress(seed - seeds.from + 1, seeds.seeds);
    }
    progress_over();
    println!("{tally}");
    println!(
        "{} seeds from {}, {events} events, {} jobs sent, {} commits, {} faults in {:.1} s",
        seeds.seeds,
        seeds.from,
        tally.total("jobs"),
        tally.total("commits"),
        tally.total("faults"),
        started.elapsed().as_secs_f64()
    );
    if failures > 0 {
        println!("{failures} seeds failed");
    }
    failures == 0
}

fn progress(done: u64, of: u64) {
    if stderr().is_terminal() && (done.is_multiple_of(50) || done == of) {
        eprint!("\r{done} of {of} seeds");
        let _ = stderr().flush();
    }
}

fn progress_over() {
    if stderr().is_terminal() {
        eprintln!();
    }
}

fn print_story(outcome: &Outcome) {
    outcome.story.iter().for_each(|line| println!("{line}"));
}

/// A failure among many seeds: in one line if the others are to be run too.
fn print_failure(outcome: &Outcome, seeds: &Seeds) {
    let Some(violation) = &outcome.violation else { return };
    let (seed, from) = (outcome.seed, seeds.from);
    if seeds.all {
        return println!("seed {seed} (seeds from {from}): {}: {}", violation.invariant, violation.text);
    }
    progress_over();
    println!("failed among the seeds from {from}:");
    print_violation(outcome);
    print_shrunk(seed);
}

fn print_violation(outcome: &Outcome) {
    let Some(violation) = &outcome.violation else { return };
    let (seed, events, ms) = (outcome.seed, outcome.events, outcome.ms);
    println!("seed {seed}: {} (event {events}, at {ms} ms)\n  {}", violation.invariant, violation.text);
    println!("again: make sim SEED={seed}, or cargo run -p jobhall-sim -- --seed {seed} --trace");
}

/// Shrinks without the messages of panics that are part of the failure.
fn print_shrunk(seed: u64) {
    std::panic::set_hook(Box::new(|_| {}));
    if let Some((small, actions)) = shrink(seed, None, SHRINK) {
        let text = small.violation.as_ref().map_or("", |violation| &violation.text);
        println!("with {actions} actions left: {text}");
        print_story(&small);
    }
}
