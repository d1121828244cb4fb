//! Measures the engine in process on the durable store. Each measurement prints one JSON object.
#![forbid(unsafe_code)]

mod classes;
mod large;
mod life;
mod limits;
mod market;
mod observed;
mod prefill;
mod relations;
mod retention;
mod setup;

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value;

use relations::Shape;

/// Any error ends the program.
pub type Failed = Box<dyn Error + Send + Sync>;

/// The allocator of the shipped binary.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const USAGE: &str = "usage: jobhall-bench-engine life|handover|large|retention|classes|market|limits|chain|fan|group --dir DIR
    [--database URL]
    [--seconds S] [--warmup S] [--submitters N] [--bulk N] [--workers N] [--queued N]
    [--completed N] [--alternations N]

  life        no-op lives: submitted, queued, claimed, completed
  handover    the same where a vacancy always waits: inserted already assigned
  large       life on an empty store and on one with --queued (1,000,000) and --completed (10,000,000) jobs, in turns
  retention   passes of retention over a store of --completed (10,000,000) jobs: rows read, time, memory
  limits      life and handover with limits (1,000 keys, a rate, weights) and without, in turns
  chain       10,000 jobs, each after the one before, beside as many with one in work at a time, in turns
  fan         10,000 jobs after one and before another, beside as many that are independent, in turns
  group       100,000 jobs of a group, beside as many of none, in turns
  classes     one vacancy against 10,000 classes, and against one class of 1,000 and of 100,000 jobs
  market      handover of 10,000 classes to 1,000 vacancies of 100 ability sets, and of one class to as many of one set,
              in turns";

/// The options of the measurements.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the stores.
    pub directory: PathBuf,
    /// The PostgreSQL database to use instead of files.
    pub database: Option<String>,
    /// Duration of one measurement.
    pub seconds: f64,
    /// Time before it that is not measured.
    pub warmup: f64,
    /// Number of clients that submit and wait for the response.
    pub submitters: usize,
    /// Number of jobs per submit.
    pub bulk: usize,
    pub workers: usize,
    /// Number of queued jobs in the large store.
    pub queued: u64,
    /// Number of completed jobs in the large store.
    pub completed: u64,
    /// Number of turns of empty and large store.
    pub alternations: usize,
}

fn main() -> Result<(), Failed> {
    let mut words = env::args().skip(1);
    let measure = words.next().ok_or(USAGE)?;
    let options = options(words)?;
    fs::create_dir_all(&options.directory)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let report: Value = match measure.as_str() {
        "life" => runtime.block_on(life::alone(&options, life::Way::Queued))?,
        "handover" => runtime.block_on(life::alone(&options, life::Way::HandedOver))?,
        "large" => runtime.block_on(large::measure(&options))?,
        "retention" => runtime.block_on(retention::measure(&options))?,
        "market" => runtime.block_on(market::measure(&options))?,
        "limits" => runtime.block_on(limits::measure(&options))?,
        "classes" => classes::measure()?,
        "chain" => runtime.block_on(relations::measure(&options, Shape::Chain, 10_000))?,
        "fan" => runtime.block_on(relations::measure(&options, Shape::Fan, 10_002))?,
        "group" => runtime.block_on(relations::measure(&options, Shape::Group, 100_000))?,
        other => return Err(format!("unknown measure {other}\n{USAGE}").into()),
    };
    println!("{report}");
    Ok(())
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, Failed> {
    let mut options = Options {
        directory: PathBuf::new(),
        database: None,
        seconds: 5.0,
        warmup: 0.5,
        submitters: 256,
        bulk: 1,
        workers: 4,
        queued: 1_000_000,
        completed: 10_000_000,
        alternations: 3,
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        match word.as_str() {
            "--dir" => options.directory = PathBuf::from(value),
            "--database" => options.database = Some(value),
            "--seconds" => options.seconds = number(&word, &value)?,
            "--warmup" => options.warmup = number(&word, &value)?,
            "--submitters" => options.submitters = number::<usize>(&word, &value)?.max(1),
            "--bulk" => options.bulk = number::<usize>(&word, &value)?.clamp(1, life::ROOM),
            "--workers" => options.workers = number::<usize>(&word, &value)?.max(1),
            "--queued" => options.queued = number(&word, &value)?,
            "--completed" => options.completed = number(&word, &value)?,
            "--alternations" => options.alternations = number(&word, &value)?,
            _ => return Err(format!("unknown word {word}\n{USAGE}").into()),
        }
    }
    if options.directory.as_os_str().is_empty() {
        return Err(format!("--dir is missing\n{USAGE}").into());
    }
    Ok(options)
}

fn number<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Failed> {
    text.parse().map_err(|error| format!("{name} of {text}: {error}").into())
}
