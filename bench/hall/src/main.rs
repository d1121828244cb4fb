//! Measures the shipped binary from outside, over loopback, in turns with servers that do nothing. Each measurement
//! prints one JSON object.
#![forbid(unsafe_code)]

mod cycle;
mod echo;
mod gate;
mod get;
mod http;
mod memory;
mod noop;
mod output;
mod polls;
mod process;
mod query;
mod start;
mod truth;
mod turn;
mod wake;

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value;

/// Any error ends the program.
pub type Failed = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: jobhall-bench-hall cycle|start|output|get|gate|query|true|polls|memory|wake|noop|echo --dir DIR --binary JOBHALL
    [--seconds S] [--rounds N] [--submitters N] [--bulk N] [--workers N] [--connections N] [--jobs N] [--polls N]
    [--database URL] [--nodes N] [--server URL] [--slots N] [--values N]

  cycle    lives of jobs per second: --submitters (8) of --bulk (500) jobs at a time, --workers (4) with sessions
  start    from a submit to its idle worker, --jobs (1,000) times; beside it a sync, a request, a message
  output   from the first write of a process, and from its submit, to the byte at a follower, --jobs (10,000) times;
           beside it echoes, a start and a process
  wake     from a submit at one node to its idle worker at another, against the same at the leader
  get      GET /jobs/{id} against an empty JSON route
  gate     CPU time of /livez with a token against an empty route of axum
  query    CPU time of a stored value in memory, 1,000 of --values (100,000), against an empty JSON route of axum
  polls    memory of --polls (5,000) parked long polls, and the wake of one against an echo
  memory   bytes per queued job of --jobs (10,000), the peak, and --rounds restarts on them
  true     --jobs (10,000) times /bin/true on a worker of two slots, against xargs -P2
  noop     --jobs (10,000) queued jobs through one session of --slots (1,024) at the server --server; no --dir
  echo     the server that does nothing; it tells its address on the first line";

/// The options of the measurements.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the stores.
    pub directory: PathBuf,
    pub binary: PathBuf,
    /// Duration of one turn.
    pub seconds: f64,
    pub rounds: usize,
    /// Number of clients that submit and wait for the response.
    pub submitters: usize,
    /// Number of jobs per submit.
    pub bulk: usize,
    /// Number of workers with a session.
    pub workers: usize,
    /// Number of concurrent connections.
    pub connections: usize,
    pub jobs: usize,
    pub polls: usize,
    /// The PostgreSQL database to use instead of a file.
    pub database: Option<String>,
    /// Number of nodes on it.
    pub nodes: usize,
    /// A running server.
    pub server: Option<String>,
    /// Number of jobs that a worker may have at once.
    pub slots: usize,
    /// Number of stored values.
    pub values: usize,
}

fn main() -> Result<(), Failed> {
    let mut words = env::args().skip(1);
    let measure = words.next().ok_or(USAGE)?;
    if measure == "speak" {
        return output::speak(number("speak", &words.next().ok_or(USAGE)?)?);
    }
    let options = options(words)?;
    let threads = if measure == "echo" { 2 } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    if measure == "echo" {
        return runtime.block_on(echo::serve());
    }
    if measure == "noop" {
        println!("{}", runtime.block_on(noop::measure(&options))?);
        return Ok(());
    }
    if options.directory.as_os_str().is_empty() || options.binary.as_os_str().is_empty() {
        return Err(format!("--dir and --binary are needed\n{USAGE}").into());
    }
    fs::create_dir_all(&options.directory)?;
    let report: Value = match measure.as_str() {
        "cycle" => runtime.block_on(cycle::measure(&options))?,
        "start" => runtime.block_on(start::measure(&options))?,
        "output" => runtime.block_on(output::measure(&options))?,
        "get" => runtime.block_on(get::measure(&options))?,
        "gate" => runtime.block_on(gate::measure(&options))?,
        "query" => runtime.block_on(query::measure(&options))?,
        "wake" => runtime.block_on(wake::measure(&options))?,
        "polls" => runtime.block_on(polls::measure(&options))?,
        "memory" => runtime.block_on(memory::measure(&options))?,
        "true" => runtime.block_on(truth::measure(&options))?,
        other => return Err(format!("unknown measure {other}\n{USAGE}").into()),
    };
    println!("{report}");
    Ok(())
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, Failed> {
    let mut options = Options {
        directory: PathBuf::new(),
        binary: PathBuf::new(),
        seconds: 2.0,
        rounds: 3,
        submitters: 8,
        bulk: 500,
        workers: 4,
        connections: 64,
        jobs: 10_000,
        polls: 5_000,
        database: None,
        nodes: 1,
        server: None,
        slots: 1_024,
        values: 100_000,
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        match word.as_str() {
            "--dir" => options.directory = PathBuf::from(value),
            "--binary" => options.binary = PathBuf::from(value),
            "--seconds" => options.seconds = number(&word, &value)?,
            "--rounds" => options.rounds = number::<usize>(&word, &value)?.max(1),
            "--submitters" => options.submitters = number::<usize>(&word, &value)?.max(1),
            "--bulk" => options.bulk = number::<usize>(&word, &value)?.clamp(1, cycle::ROOM),
            "--workers" => options.workers = number::<usize>(&word, &value)?.max(1),
            "--connections" => options.connections = number::<usize>(&word, &value)?.max(1),
            "--jobs" => options.jobs = number::<usize>(&word, &value)?.max(1),
            "--polls" => options.polls = number::<usize>(&word, &value)?.max(1),
            "--database" => options.database = Some(value),
            "--server" => options.server = Some(value),
            "--slots" => options.slots = number::<usize>(&word, &value)?.max(1),
            "--values" => options.values = number::<usize>(&word, &value)?.max(query::ASKED),
            "--nodes" => options.nodes = number::<usize>(&word, &value)?.clamp(1, 16),
            _ => return Err(format!("unknown word {word}\n{USAGE}").into()),
        }
    }
    Ok(options)
}

fn number<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Failed> {
    text.parse().map_err(|error| format!("{name} of {text}: {error}").into())
}
