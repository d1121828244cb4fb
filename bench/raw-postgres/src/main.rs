//! Writes the rows of the engine's PostgreSQL store with PostgreSQL only, and prints the job life cycles per second.
//! The tables are those of the store: its migrations are run.
#![forbid(unsafe_code)]

mod rows;

use std::env;
use std::fmt::Display;
use std::str::FromStr;
use std::time::{Duration, Instant};

use jobhall_bench_raw_store::machine::{Failed, Sample};
use rows::{Mode, Writer};

const USAGE: &str = "usage: jobhall-bench-raw-postgres --database URL [--mode mixed|fused-mixed] [--batch N]
    [--seconds S] [--warmup S] [--connections N]";

struct Options {
    database: String,
    mode: Mode,
    batch: usize,
    seconds: f64,
    warmup: f64,
    connections: usize,
}

fn main() -> Result<(), Failed> {
    let options = options(env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{}", runtime.block_on(measure(&options))?);
    Ok(())
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, Failed> {
    let mut options = Options {
        database: String::new(),
        mode: Mode::Mixed,
        batch: 100,
        seconds: 5.0,
        warmup: 0.5,
        connections: 1,
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        match word.as_str() {
            "--database" => options.database = value,
            "--mode" if value == "mixed" => options.mode = Mode::Mixed,
            "--mode" if value == "fused-mixed" => options.mode = Mode::FusedMixed,
            "--batch" => options.batch = number::<usize>(&word, &value)?.max(1),
            "--seconds" => options.seconds = number(&word, &value)?,
            "--warmup" => options.warmup = number(&word, &value)?,
            "--connections" => options.connections = number::<usize>(&word, &value)?.clamp(1, 64),
            _ => return Err(format!("unknown word {word} {value}\n{USAGE}").into()),
        }
    }
    if options.database.is_empty() {
        return Err(format!("--database is missing\n{USAGE}").into());
    }
    Ok(options)
}

fn number<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Failed> {
    text.parse().map_err(|error| format!("{name} of {text}: {error}").into())
}

/// Every connection in a separate closed loop; life cycles that ended within the time are counted.
async fn measure(options: &Options) -> Result<String, Failed> {
    rows::make_tables(&options.database).await?;
    let begin = Instant::now() + Duration::from_secs_f64(options.warmup);
    let end = begin + Duration::from_secs_f64(options.seconds);
    let mut tasks = Vec::new();
    for number in 0..options.connections {
        let writer = Writer::connect(&options.database, options.mode, options.batch, number).await?;
        tasks.push(tokio::spawn(turns(writer, begin, end)));
    }
    tokio::time::sleep_until(begin.into()).await;
    let before = Sample::now()?;
    tokio::time::sleep_until(end.into()).await;
    let used = Sample::now()?.since(&before);
    let (mut lives, mut all) = (0, 0);
    for task in tasks {
        let (counted, ended) = task.await??;
        lives += counted;
        all += ended;
    }
    rows::assert_ended(&options.database, all).await?;
    Ok(format!(
        "{{\"lives\":{lives},\"seconds\":{:.3},\"lives_per_second\":{:.0},\"cpu_us_per_life\":{:.2},\
         \"steal_percent\":{:.1},\"connections\":{},\"batch\":{}}}",
        used.seconds,
        lives as f64 / used.seconds,
        used.cpu_seconds * 1e6 / lives.max(1) as f64,
        used.steal_percent,
        options.connections,
        options.batch,
    ))
}

/// The number of life cycles that ended between the two times, and in total.
async fn turns(mut writer: Writer, begin: Instant, end: Instant) -> Result<(u64, u64), Failed> {
    let (mut counted, mut all) = (0, 0);
    while Instant::now() < end {
        let ended = writer.round().await?;
        all += ended;
        let now = Instant::now();
        if now >= begin && now < end {
            counted += ended;
        }
    }
    all += writer.drain().await?;
    Ok((counted, all))
}
