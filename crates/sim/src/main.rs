//! Runs seeds or a script and prints a summary or the failure; records and compares histories.

mod args;

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jobhall_sim::{
    Comparison, Mode, Outcome, Renames, Script, Shrunk, Tally, compare, play, record, run, shrink,
};

use crate::args::Args;

const USAGE: &str = "usage:
  jobhall-sim [--seeds N] [--from S] [--all] [--trace]   run N seeds from S; without S, from a fresh one
  jobhall-sim --seed S [--trace] [--save FILE]           run one seed; save its script, shrunk if it fails
  jobhall-sim --script FILE [--trace]                    run a saved script
  jobhall-sim record [--seeds N] [--from S] --out FILE   write the complete histories of N seeds from S, or 0
  jobhall-sim compare --mode words|agenda|requests [--rename TABLE] A B
                                                         compare two such files";

/// Time limit for shrinking a failure to print it.
const SHRINK: Duration = Duration::from_secs(20);
/// Time limit for shrinking a failure to save it.
const SHRINK_TO_SAVE: Duration = Duration::from_secs(300);

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

/// Executes the command line; returns whether all runs passed.
fn dispatch(mut args: Args) -> Result<bool, String> {
    let usage = |error: String| format!("{error}\n{USAGE}");
    if args.command("record") {
        return record_seeds(args);
    }
    if args.command("compare") {
        return compare_files(args);
    }
    let trace = args.flag("--trace");
    if let Some(path) = args.value::<String>("--script").map_err(usage)? {
        args.end().map_err(usage)?;
        return run_script(&path, trace);
    }
    if let Some(seed) = args.value("--seed").map_err(usage)? {
        let save = args.value::<String>("--save").map_err(usage)?;
        args.end().map_err(usage)?;
        return run_one(seed, trace, save.as_deref());
    }
    let seeds = args.value("--seeds").map_err(usage)?.unwrap_or(1_000);
    let from = args.value("--from").map_err(usage)?.unwrap_or_else(fresh_seed);
    let all = args.flag("--all");
    args.end().map_err(usage)?;
    Ok(run_many(&Seeds { from, seeds, trace, all }))
}

/// A seed from the clock.
fn fresh_seed() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(0)
}

fn run_script(path: &str, trace: bool) -> Result<bool, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let script = Script::from_json(&text).map_err(|error| format!("{path}: {error}"))?;
    let outcome = play(script, None, trace);
    print_story(&outcome);
    match &outcome.violation {
        Some(violation) => println!("{path}: {}\n  {}", violation.invariant, violation.text),
        None => println!("{path}: passes, {} events", outcome.events),
    }
    Ok(outcome.violation.is_none())
}

fn run_one(seed: u64, trace: bool, save: Option<&str>) -> Result<bool, String> {
    let outcome = run(seed, None, trace);
    print_story(&outcome);
    let failed = outcome.violation.is_some();
    if failed {
        print_violation(&outcome);
    } else {
        println!("{}\nseed {seed} passes, {} events", outcome.tally, outcome.events);
    }
    let limit = if save.is_some() { SHRINK_TO_SAVE } else { SHRINK };
    let small = failed.then(|| shrink_quietly(seed, limit)).flatten();
    if let Some(small) = &small {
        print_shrunk(small);
    }
    if let Some(path) = save {
        let script = small.map_or_else(|| Script::new(seed), |small| small.script);
        fs::write(path, script.to_json()).map_err(|error| format!("{path}: {error}"))?;
        println!("{path}: {} actions", script.actions());
    }
    Ok(!failed)
}

struct Seeds {
    from: u64,
    seeds: u64,
    trace: bool,
    /// Continue after a failure, and print each in one line.
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

/// Prints a failure among many seeds: in one line if the other seeds are run too.
fn print_failure(outcome: &Outcome, seeds: &Seeds) {
    let Some(violation) = &outcome.violation else { return };
    let (seed, from) = (outcome.seed, seeds.from);
    if seeds.all {
        return println!("seed {seed} (seeds from {from}): {}: {}", violation.invariant, violation.text);
    }
    progress_over();
    println!("failed among the seeds from {from}:");
    print_violation(outcome);
    if let Some(small) = shrink_quietly(seed, SHRINK) {
        print_shrunk(&small);
    }
}

fn print_violation(outcome: &Outcome) {
    let Some(violation) = &outcome.violation else { return };
    let (seed, events, ms) = (outcome.seed, outcome.events, outcome.ms);
    println!("seed {seed}: {} (event {events}, at {ms} ms)\n  {}", violation.invariant, violation.text);
    println!("again: make sim SEED={seed}, or cargo run -p jobhall-sim -- --seed {seed} --trace");
    println!("keep: cargo run -p jobhall-sim -- --seed {seed} --save crates/sim/tests/scripts/NAME.json");
}

/// Shrinks without printing the panics that are part of the failure.
fn shrink_quietly(seed: u64, limit: Duration) -> Option<Shrunk> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let small = shrink(seed, None, limit);
    std::panic::set_hook(hook);
    small
}

fn print_shrunk(small: &Shrunk) {
    let text = small.outcome.violation.as_ref().map_or("", |violation| &violation.text);
    println!("with {} actions left: {text}", small.script.actions());
    print_story(&small.outcome);
}

fn record_seeds(mut args: Args) -> Result<bool, String> {
    let seeds: u64 = args.value("--seeds")?.unwrap_or(1_000);
    let from: u64 = args.value("--from")?.unwrap_or(0);
    let path: String = args.value("--out")?.ok_or("--out is missing")?;
    args.end()?;
    let failed = |error| format!("{path}: {error}");
    let mut out = BufWriter::new(File::create(&path).map_err(failed)?);
    for seed in from..from.saturating_add(seeds) {
        out.write_all(record(seed).as_bytes()).map_err(failed)?;
        progress(seed - from + 1, seeds);
    }
    out.flush().map_err(failed)?;
    progress_over();
    println!("{path}: {seeds} seeds from {from}");
    Ok(true)
}

fn compare_files(mut args: Args) -> Result<bool, String> {
    let mode: Mode = args.value("--mode")?.ok_or("--mode is missing")?;
    let renames =
        args.value::<String>("--rename")?.map_or(Ok(Renames::default()), |path| read_renames(&path))?;
    let (left, right) = (args.word()?, args.word()?);
    args.end()?;
    let open = |path: &str| File::open(path).map(BufReader::new).map_err(|error| format!("{path}: {error}"));
    let result = compare(open(&left)?, open(&right)?, mode, renames);
    let result = result.map_err(|error| format!("{left}, {right}: {error}"))?;
    if result == Comparison::default() {
        return Err(format!("{left}, {right}: no seeds"));
    }
    println!("{} of {} seeds are equal", result.equal, result.seeds);
    if let Some(difference) = &result.first {
        println!("first difference: {difference}");
    }
    Ok(result.first.is_none())
}

fn read_renames(path: &str) -> Result<Renames, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    text.parse().map_err(|error| format!("{path}: {error}"))
}
