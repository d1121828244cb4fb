//! `jobhall job log`: the output of a job, byte for byte.

use clap::Args;
use jobhall_client::{Client, LogQuery, LogRange};
use jobhall_protocol::{Job, LogFrame, LogStream};

use crate::commands::job::about;
use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::{Format, Output};

const EXAMPLES: &str = "\
Examples:
  jobhall job log 17
  jobhall job log -f 17                follow the log until the job has ended
  jobhall job log 17 --stream stderr --timestamps
  jobhall job log 17 --jsonl           one line of JSON per chunk, with time and stream
  jobhall job log 17 --attempt 1 --tail 4096
  jobhall job log 17 --notes           what the worker noted about the job, one line of JSON each";

/// Arguments of `job log`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LogArgs {
    /// The job
    pub id: u64,
    /// Follow the log until the job has ended
    #[arg(short, long, conflicts_with = "tail")]
    pub follow: bool,
    /// Number or id of the attempt, such as 17-2 [default: the last]
    #[arg(long, value_name = "N")]
    pub attempt: Option<String>,
    /// Only this stream: stdout or stderr
    #[arg(long, value_parser = stream)]
    pub stream: Option<LogStream>,
    /// Print the notes of the worker instead of the output
    #[arg(long, conflicts_with_all = ["stream", "tail"])]
    pub notes: bool,
    /// Prefix each line with its time
    #[arg(long)]
    pub timestamps: bool,
    /// Only this many bytes from the end
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with_all = ["stream", "timestamps", "json", "jsonl"])]
    pub tail: Option<u64>,
}

fn stream(text: &str) -> Result<LogStream, String> {
    match text {
        "stdout" => Ok(LogStream::Stdout),
        "stderr" => Ok(LogStream::Stderr),
        _ => Err("a stream is stdout or stderr".to_owned()),
    }
}

/// How chunks are printed.
#[derive(Debug)]
pub struct Printer<'a> {
    output: &'a Output,
    stream: Option<LogStream>,
    timestamps: bool,
    /// Whether standard error of the job is printed on standard error.
    apart: bool,
    /// Whether the next byte begins a line.
    fresh: bool,
}

impl<'a> Printer<'a> {
    fn new(output: &'a Output, args: &LogArgs) -> Printer<'a> {
        let stream = if args.notes { Some(LogStream::Note) } else { args.stream };
        Printer { output, stream, timestamps: args.timestamps, apart: false, fresh: true }
    }

    /// Prints each stream of the job on the same stream.
    pub fn apart(output: &'a Output) -> Printer<'a> {
        Printer { output, stream: None, timestamps: false, apart: true, fresh: true }
    }

    fn print(&mut self, frame: &LogFrame, bytes: &[u8]) -> Outcome<()> {
        match self.output.format {
            _ if self.apart && frame.stream == LogStream::Stderr => self.output.raw_error(bytes),
            _ if self.apart => self.output.raw(bytes),
            Format::Json | Format::Jsonl => self.output.each(frame),
            Format::Human if self.timestamps => {
                let stamped = stamped(bytes, &frame.at.to_string(), &mut self.fresh);
                self.output.raw(&stamped)
            }
            Format::Human => self.output.raw(bytes),
        }
    }

    /// Whether neither time nor stream is needed.
    fn is_plain(&self) -> bool {
        self.stream.is_none() && !self.timestamps && self.output.format == Format::Human
    }
}

/// The bytes with a time before each new line.
fn stamped(bytes: &[u8], at: &str, fresh: &mut bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + at.len() + 1);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if *fresh {
            out.extend_from_slice(at.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(line);
        *fresh = line.ends_with(b"\n");
    }
    out
}

pub async fn run(context: &Context, args: &LogArgs) -> Outcome {
    until_interrupted(print(context, args)).await?;
    Ok(Exit::Ok)
}

async fn print(context: &Context, args: &LogArgs) -> Outcome<()> {
    let client = context.client()?;
    let mut printer = Printer::new(&context.output, args);
    match &args.attempt {
        None if args.follow => {
            let last = client.job(args.id).await.map_err(|error| about(args.id, error))?;
            let before = last.attempts.iter().rev().nth(1).map(|attempt| attempt.id.clone());
            follow_job(&client, args.id, before, &mut printer).await.map(drop)
        }
        attempt if args.follow || !printer.is_plain() => {
            let query = LogQuery { attempt: attempt.clone(), follow: args.follow, ..LogQuery::default() };
            print_frames(&client, args.id, query, &mut printer).await.map(drop)
        }
        attempt => {
            let range = args.tail.map_or(LogRange::All, LogRange::Last);
            print_range(context, &client, args.id, attempt.as_deref(), range).await
        }
    }
}

async fn print_range(
    context: &Context,
    client: &Client,
    id: u64,
    attempt: Option<&str>,
    range: LogRange,
) -> Outcome<()> {
    let mut log = client.read_log(id, attempt, range);
    while let Some(bytes) = log.next().await.map_err(|error| about(id, error))? {
        context.output.raw(&bytes)?;
    }
    Ok(())
}

/// Prints the requested frames; returns the offset after them.
async fn print_frames(client: &Client, id: u64, query: LogQuery, printer: &mut Printer<'_>) -> Outcome<u64> {
    let mut log = client.log_frames(id, LogQuery { stream: printer.stream, ..query });
    while let Some((frame, bytes)) = log.next().await.map_err(|error| about(id, error))? {
        printer.print(&frame, &bytes)?;
    }
    Ok(log.offset())
}

/// Prints the logs of the attempts after this one, in order, until the job has ended.
pub async fn follow_job(
    client: &Client,
    id: u64,
    behind: Option<String>,
    printer: &mut Printer<'_>,
) -> Outcome<Job> {
    let mut printed = behind.as_deref().map_or(0, claim);
    let (mut here, mut from) = (0, 0);
    // Opened before the first read, so that no attempt is missed between two reads.
    let mut events = client.events(Some(id), None);
    events.open().await.map_err(|error| about(id, error))?;
    loop {
        let job = client.job(id).await.map_err(|error| about(id, error))?;
        let Some(attempt) = job.attempts.iter().find(|attempt| claim(&attempt.id) > printed) else {
            if Exit::of_job(&job).is_some() {
                return Ok(job);
            }
            events.next().await.map_err(|error| about(id, error))?;
            continue;
        };
        if here != claim(&attempt.id) {
            (here, from) = (claim(&attempt.id), 0);
            printer.output.detail(&format!("attempt {} on {}", attempt.id, attempt.worker));
        }
        // A server that stops ends the stream too: only the log of an attempt that has ended is complete.
        let ended = attempt.ended_at.is_some();
        let query = LogQuery { attempt: Some(attempt.id.clone()), from, follow: !ended, stream: None };
        match print_frames(client, id, query, printer).await {
            Ok(offset) => from = offset,
            // The attempt was taken back before it was accepted.
            Err(failure) if failure.exit == Exit::NotFound && !ended => {}
            Err(failure) => return Err(failure),
        }
        if ended {
            printed = here;
        }
    }
}

/// The claim number in an attempt id; it increases with each attempt.
fn claim(id: &str) -> u64 {
    id.rsplit('-').next().and_then(|claim| claim.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::stamped;

    #[test]
    fn each_line_has_a_time_once_however_it_is_cut() {
        let mut fresh = true;
        let said: Vec<_> = [&b"one\ntw"[..], b"o\n", b"", b"three\n"]
            .iter()
            .zip(["1", "2", "3", "4"])
            .map(|(bytes, at)| String::from_utf8(stamped(bytes, at, &mut fresh)).unwrap())
            .collect();
        assert_eq!(said, ["1 one\n1 tw", "o\n", "", "4 three\n"]);
    }
}
