//! Writes the rows of the engine's store with SQLite only, and prints the job life cycles per second.
#![forbid(unsafe_code)]

use std::env;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use jobhall_bench_raw_store::limit;
use jobhall_bench_raw_store::machine::{self, Failed, Sample, Used};
use jobhall_bench_raw_store::rows::{self, Mode, Writer};

const USAGE: &str =
    "usage: jobhall-bench-raw-store --dir DIR [--mode sep|mixed|fused|fused-mixed] [--batch N]
    [--seconds S | --jobs N] [--warmup S] [--prefill-queued N] [--prefill-completed N] [--json]";

struct Options {
    directory: PathBuf,
    mode: Mode,
    batch: u64,
    seconds: f64,
    jobs: Option<u64>,
    warmup: f64,
    queued: u64,
    completed: u64,
    json: bool,
}

/// One line of the report.
struct Line {
    name: &'static str,
    /// As JSON.
    value: String,
}

fn main() -> Result<(), Failed> {
    let options = options(env::args().skip(1))?;
    fs::create_dir_all(&options.directory)?;
    let report = measure(&options)?;
    if options.json {
        let pairs: Vec<_> = report.iter().map(|line| format!("\"{}\": {}", line.name, line.value)).collect();
        println!("{{{}}}", pairs.join(", "));
    } else {
        for Line { name, value } in report {
            println!("{name:22} {value}");
        }
    }
    Ok(())
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, Failed> {
    let mut directory = None;
    let mut options = Options {
        directory: PathBuf::new(),
        mode: Mode::Mixed,
        batch: 100,
        seconds: 5.0,
        jobs: None,
        warmup: 0.5,
        queued: 0,
        completed: 0,
        json: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
        match word.as_str() {
            "--dir" => directory = Some(PathBuf::from(value()?)),
            "--mode" => options.mode = mode(&value()?)?,
            "--batch" => options.batch = number::<u64>(&word, &value()?)?.max(1),
            "--seconds" => options.seconds = number(&word, &value()?)?,
            "--jobs" => options.jobs = Some(number(&word, &value()?)?),
            "--warmup" => options.warmup = number(&word, &value()?)?,
            "--prefill-queued" => options.queued = number(&word, &value()?)?,
            "--prefill-completed" => options.completed = number(&word, &value()?)?,
            "--json" => options.json = true,
            _ => return Err(format!("unknown word {word}\n{USAGE}").into()),
        }
    }
    options.directory = directory.ok_or_else(|| format!("--dir is missing\n{USAGE}"))?;
    Ok(options)
}

fn mode(name: &str) -> Result<Mode, Failed> {
    let found = Mode::ALL.into_iter().find(|mode| mode.as_str() == name);
    Ok(found.ok_or_else(|| format!("unknown mode {name}\n{USAGE}"))?)
}

fn number<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Failed> {
    text.parse().map_err(|error| format!("{name} of {text}: {error}").into())
}

fn measure(options: &Options) -> Result<Vec<Line>, Failed> {
    let conn = rows::open(&options.directory.join("raw.db"))?;
    let mut writer = Writer::new(&conn)?;
    writer.prefill(options.queued, options.completed)?;
    let sync_before = machine::fdatasync_us(&options.directory)?;
    let warmup = Instant::now();
    while warmup.elapsed() < Duration::from_secs_f64(options.warmup) {
        writer.round(options.mode, options.batch)?;
    }
    let (lives_before, commits_before) = (writer.lives, writer.commits.len());
    let before = Sample::now()?;
    let begun = Instant::now();
    loop {
        writer.round(options.mode, options.batch)?;
        let enough = match options.jobs {
            Some(jobs) => writer.lives - lives_before >= jobs,
            None => begun.elapsed() >= Duration::from_secs_f64(options.seconds),
        };
        if enough {
            break;
        }
    }
    let used = Sample::now()?.since(&before);
    let lives = writer.lives - lives_before;
    let commits = writer.commits[commits_before..].to_vec();
    let sync_after = machine::fdatasync_us(&options.directory)?;
    writer.drain()?;
    rows::assert_rows(&conn, options.queued, options.completed + writer.lives, writer.feed)?;
    Ok(report(options, lives, &commits, used, [sync_before, sync_after]))
}

fn report(options: &Options, lives: u64, commits: &[Duration], used: Used, syncs: [f64; 2]) -> Vec<Line> {
    let per_second = lives as f64 / used.seconds;
    let sync = (syncs[0] + syncs[1]) / 2.0;
    let limit = limit::lives_per_second(options.mode, options.batch as f64, sync);
    let share = per_second / limit;
    let per_life = |total: f64| total / lives.max(1) as f64;
    let ms = |percent| machine::percentile(commits.to_vec(), percent).as_secs_f64() * 1e3;
    let line = |name, value: String| Line { name, value };
    vec![
        line("mode", format!("\"{}\"", options.mode.as_str())),
        line("batch", options.batch.to_string()),
        line("lives", lives.to_string()),
        line("seconds", format!("{:.3}", used.seconds)),
        line("lives_per_second", format!("{per_second:.0}")),
        line("commits", commits.len().to_string()),
        line("commit_ms_p50", format!("{:.3}", ms(50))),
        line("commit_ms_p99", format!("{:.3}", ms(99))),
        line("cpu_seconds", format!("{:.2}", used.cpu_seconds)),
        line("cpu_us_per_life", format!("{:.2}", per_life(used.cpu_seconds * 1e6))),
        line("bytes", used.bytes.to_string()),
        line("bytes_per_life", format!("{:.0}", per_life(used.bytes as f64))),
        line("steal_percent", format!("{:.1}", used.steal_percent)),
        line("fdatasync_us_before", format!("{:.0}", syncs[0])),
        line("fdatasync_us_after", format!("{:.0}", syncs[1])),
        line("limit_cpu_us", format!("{:.2}", limit::cpu_us(options.mode, options.batch as f64))),
        line("limit_per_second", format!("{limit:.0}")),
        line("share_of_limit", format!("{share:.3}")),
        line("valid", (share >= limit::VALID_SHARE).to_string()),
    ]
}
