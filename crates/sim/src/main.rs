//! `jobhall-sim --seeds N [--from S] [--seed S] [--trace] [--all]`: runs seeds and tells what occurred.

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jobhall_sim::{Outcome, Tally, run, shrink};

/// How long a failure may be shrunk.
const SHRINK: Duration = Duration::from_secs(20);

struct Options {
    from: u64,
    seeds: u64,
    trace: bool,
    /// Go on after a failure, and tell each in one line.
    all: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options { from: 0, seeds: 1_000, trace: false, all: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let text = words.next().ok_or(format!("{word} needs a number"))?;
            text.parse::<u64>().map_err(|error| format!("{word} {text}: {error}"))
        };
        match word.as_str() {
            "--seeds" => options.seeds = number()?,
            "--from" => options.from = number()?,
            "--seed" => (options.from, options.seeds) = (number()?, 1),
            "--trace" => options.trace = true,
            "--all" => options.all = true,
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\nusage: jobhall-sim [--seeds N] [--from S] [--seed S] [--trace] [--all]");
            return ExitCode::from(2);
        }
    };
    let started = Instant::now();
    let (mut tally, mut events, mut failures) = (Tally::default(), 0, 0);
    for seed in options.from..options.from + options.seeds {
        let outcome = run(seed, None, options.trace);
        if options.trace {
            outcome.story.iter().for_each(|line| println!("{line}"));
        }
        if let Some(violation) = &outcome.violation {
            failures += 1;
            if options.all {
                println!("seed {seed}: {}: {}", violation.invariant, violation.text);
            } else {
                progress_over();
                report(&outcome);
                return ExitCode::FAILURE;
            }
        }
        tally.merge(&outcome.tally);
        events += outcome.events;
        progress(seed - options.from + 1, options.seeds);
    }
    progress_over();
    println!("{tally}");
    println!(
        "{} seeds, {events} events, {} jobs sent, {} commits, {} faults in {:.1} s",
        options.seeds,
        tally.total("jobs"),
        tally.total("commits"),
        tally.total("faults"),
        started.elapsed().as_secs_f64()
    );
    if failures > 0 {
        println!("{failures} seeds failed");
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

fn report(outcome: &Outcome) {
    let Some(violation) = &outcome.violation else { return };
    let seed = outcome.seed;
    let (events, ms) = (outcome.events, outcome.ms);
    println!("seed {seed}: {} (event {events}, at {ms} ms)\n  {}", violation.invariant, violation.text);
    println!("again: make sim SEED={seed}, or cargo run -p jobhall-sim -- --seed {seed} --trace");
    std::panic::set_hook(Box::new(|_| {}));
    if let Some((small, actions)) = shrink(seed, None, SHRINK) {
        let text = small.violation.map(|violation| violation.text).unwrap_or_default();
        println!("with {actions} actions left: {text}");
        small.story.iter().for_each(|line| println!("{line}"));
    }
}
