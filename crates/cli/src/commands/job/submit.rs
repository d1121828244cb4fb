//! `jobhall job submit`.

use clap::Args;
use jobhall_client::Client;
use jobhall_core::NewJob;
use jobhall_protocol::{After, Retry, Reuse, Span, SubmitJob, Submitted, Timeouts, Timestamp};
use serde_json::value::RawValue;

use crate::commands::job::duplicate::{self, Duplicate};
use crate::commands::job::{batches, wait};
use crate::commands::{text_of, until_interrupted};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human;

const EXAMPLES: &str = "\
Examples:
  jobhall job submit thumbnail --params '{\"file\":\"a.png\"}'
  jobhall job submit report --key 2026-11 --reuse 1h --wait
  jobhall job submit train --needs 'gpu>=1, os=linux' --priority 10 --in 10m
  jobhall job submit train --uses 'gpu=1, mem_gb=8' --avoid --max-attempts 3
  jobhall job submit exec --params @command.json --max-attempts 3
  jobhall job submit import --timeout 2h --silence 5m
  jobhall job submit publish --after 17,18    once both have succeeded
  jobhall job submit --from jobs.jsonl        one job per line: {\"type\":\"t\",\"params\":{}};
                                              {\"type\":\"u\",\"after\":[\"#0\"]} runs after the first";

/// Arguments of `job submit`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SubmitArgs {
    /// Job type
    #[arg(value_name = "TYPE", required_unless_present = "from")]
    pub job_type: Option<String>,
    /// Job key; at most one pending job per type and key
    #[arg(long)]
    pub key: Option<String>,
    /// Queue name [default: default]
    #[arg(long)]
    pub queue: Option<String>,
    /// Parameters for the worker: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub params: Option<String>,
    /// Which workers match, such as 'os=linux, gpu>=1'
    #[arg(long, value_name = "SELECTOR")]
    pub needs: Option<String>,
    /// Amounts that it uses of its worker while it runs, such as 'gpu=1, mem_gb=8'
    #[arg(long, value_name = "AMOUNTS")]
    pub uses: Option<String>,
    /// Prefer another worker for retries
    #[arg(long)]
    pub avoid: bool,
    /// Times of day at which it may start, such as '22:00-06:00 Europe/Berlin' (comma-separated or repeated)
    #[arg(long = "window", value_name = "WINDOW")]
    pub windows: Vec<String>,
    /// Priority; lower runs first [default: 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Earliest start time, such as 2026-11-15T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub run_at: Option<Timestamp>,
    /// Earliest start as a delay from now, such as 10m
    #[arg(long = "in", value_name = "SPAN", conflicts_with = "run_at")]
    pub delay: Option<Span>,
    /// Maximum attempts [default: the type's]
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<u16>,
    /// Never start it a second time: if its worker is lost after accepting it, the job ends as crashed
    #[arg(long)]
    pub at_most_once: bool,
    /// Stop an attempt that takes longer, such as 10m [default: the type's, or one day]
    #[arg(long, value_name = "SPAN")]
    pub timeout: Option<Span>,
    /// Stop an attempt that is silent for longer [default: the type's]
    #[arg(long, value_name = "SPAN")]
    pub silence: Option<Span>,
    /// Weight against limits; 0 exempts it from them [default: 1]
    #[arg(long, value_name = "N")]
    pub throttle_factor: Option<u32>,
    /// Owner
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// Tag for filtering (repeatable)
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// If a job with the same key is pending: return that job, reject this one, cancel that one and run after it, or
    /// run once more with these params [default: join if the params are the same, else exit with 6]
    #[arg(long, value_name = "WHAT")]
    pub on_duplicate: Option<Duplicate>,
    /// Return an earlier success of at most this age instead, such as 1h
    #[arg(long, value_name = "SPAN", requires = "key")]
    pub reuse: Option<Span>,
    /// Return an earlier success with a higher id than this job instead
    #[arg(long, value_name = "ID", requires = "key", conflicts_with = "reuse")]
    pub reuse_above: Option<u64>,
    /// Run after these jobs have succeeded; may be repeated
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub after: Vec<u64>,
    /// Run after those jobs have ended, with any outcome
    #[arg(long, requires = "after")]
    pub after_any: bool,
    /// Group of the job
    #[arg(long, value_name = "ID")]
    pub group: Option<u64>,
    /// Wait until it has ended; the exit code reports its outcome
    #[arg(long)]
    pub wait: bool,
    /// Makes it safe to submit again after a lost reply [default: a random one]
    #[arg(long, value_name = "TEXT")]
    pub idempotency_key: Option<String>,
    /// Submit many: a file with one job per line, or - for standard input
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = [
        "job_type", "key", "queue", "params", "needs", "uses", "avoid", "windows", "priority", "run_at", "delay",
        "max_attempts", "at_most_once", "timeout", "silence", "reuse", "reuse_above", "throttle_factor", "after", "group", "owner", "tags",
    ])]
    pub from: Option<String>,
}

/// Parses a time.
pub fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse()
}

/// Submits one or many jobs, and waits if requested.
pub async fn run(context: &Context, args: &SubmitArgs) -> Outcome {
    let client = context.client()?;
    let key = args.idempotency_key.clone().unwrap_or_else(random_key);
    let (jobs, submitted) = match &args.from {
        Some(from) => {
            let lines = batches::read(from, args.on_duplicate)?;
            let submitted = batches::submit(context, &client, lines.jobs.clone(), &key).await?;
            if let Err(refused) = duplicate::check_many(context, &lines.implicit, &submitted) {
                print(context, &submitted, true)?;
                return Err(refused);
            }
            (lines.jobs, submitted)
        }
        None => {
            let job = args.job(human::now_ms())?;
            let submitted = client.submit(&job, Some(&key)).await?;
            duplicate::check(context, args.on_duplicate, &submitted)?;
            (vec![job], vec![submitted])
        }
    };
    if args.wait {
        submitted.iter().for_each(|one| context.output.say(&told(one)));
        let ids = until_interrupted(running(context, &client, &jobs, &submitted)).await?;
        return wait::until_ended(context, &client, ids, None).await;
    }
    print(context, &submitted, args.from.is_some())?;
    Ok(Exit::Ok)
}

/// The jobs that run for these requests: after `run-again`, the one that follows the job that has the key.
async fn running(
    context: &Context,
    client: &Client,
    jobs: &[SubmitJob],
    submitted: &[Submitted],
) -> Outcome<Vec<u64>> {
    let mut ids = Vec::with_capacity(submitted.len());
    for (job, one) in jobs.iter().zip(submitted) {
        ids.push(match one.disposition.as_str() {
            "again" => {
                context.output.say(&format!("waiting for job {}, which has the key", one.id));
                duplicate::follow_up(client, one.id, job).await?
            }
            _ => one.id,
        });
    }
    Ok(ids)
}

impl SubmitArgs {
    fn job(&self, now_ms: i64) -> Outcome<SubmitJob> {
        let params = self.params.as_deref().map(params).transpose()?;
        let retry = self.max_attempts.map(|most| Retry { max_attempts: Some(most), ..Retry::default() });
        let job = SubmitJob {
            key: self.key.clone(),
            queue: self.queue.clone(),
            params,
            needs: self.needs.clone(),
            uses: self.uses.clone(),
            avoid: self.avoid,
            windows: (!self.windows.is_empty()).then(|| self.windows.join(", ")),
            priority: self.priority,
            run_at: self.run_at.or(self.delay.map(|delay| later(now_ms, delay)).transpose()?),
            retry,
            at_most_once: self.at_most_once,
            throttle_factor: self.throttle_factor,
            timeouts: (self.timeout.is_some() || self.silence.is_some())
                .then_some(Timeouts { total: self.timeout, silence: self.silence }),
            on_duplicate: duplicate::wire(self.on_duplicate),
            reuse: self.reuse.map(Reuse::MaxAge).or(self.reuse_above.map(Reuse::Above)),
            after: self.after.iter().map(|&id| After::Job(id)).collect(),
            after_any: self.after_any,
            group: self.group,
            owner: self.owner.clone(),
            tags: self.tags.clone(),
            ..SubmitJob::new(self.job_type.as_deref().unwrap_or(""))
        };
        check(&job)?;
        Ok(job)
    }
}

/// Rejects what the server would reject, before a request is sent.
pub fn check(job: &SubmitJob) -> Outcome<()> {
    NewJob::try_from(job).map(drop).map_err(|error| Failure::usage(error.to_string()))
}

/// Reads params given as JSON, `@FILE` or `-`.
pub fn params(value: &str) -> Outcome<Box<RawValue>> {
    let text = text_of(value, "params")?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage("params are not JSON")
            .why(error.to_string())
            .fix("write --params '{\"name\":\"value\"}', or --params @FILE")
    })
}

pub(super) fn later(now_ms: i64, delay: Span) -> Outcome<Timestamp> {
    let at = i64::try_from(delay.0).ok().and_then(|delay| now_ms.checked_add(delay));
    let at = at.and_then(|at| jobhall_core::Time::from_ms(at).ok());
    at.map(Timestamp).ok_or_else(|| Failure::usage(format!("{delay} is too far in the future")))
}

pub fn random_key() -> String {
    format!("{:032x}", rand::random::<u128>())
}

fn told(one: &Submitted) -> String {
    format!("job {} {}", one.id, one.disposition)
}

/// Prints one job as text, several as their ids, so that the output can be piped.
fn print(context: &Context, submitted: &[Submitted], many: bool) -> Outcome<()> {
    match submitted {
        [one] if !many => context.output.one(one, || told(one)),
        _ => context.output.list(submitted, || {
            let mut table = crate::output::table::Table::new(&["ID", "DISPOSITION"]);
            submitted
                .iter()
                .for_each(|one| table.row([one.id.to_string().into(), (&one.disposition).into()]));
            table
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::commands::job::JobCommand;
    use clap::Parser as _;

    fn parse(words: &[&str]) -> Result<SubmitArgs, clap::Error> {
        let words = ["jobhall", "job", "submit"].into_iter().chain(words.iter().copied());
        match Cli::try_parse_from(words)?.command {
            Command::Job(JobCommand::Submit(args)) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    fn json(words: &[&str]) -> serde_json::Value {
        serde_json::to_value(parse(words).unwrap().job(0).unwrap()).unwrap()
    }

    #[test]
    fn flags_become_a_request() {
        assert_eq!(json(&["t"]), serde_json::json!({"type": "t", "on_duplicate": "join"}));
        let words = "t --key k --queue q --needs gpu>=1 --uses gpu=1 --avoid --window 22:00-06:00 --window 12:00-13:00 --priority -5 --in 10m \
                     --max-attempts 3 --timeout 2h --silence 5m --on-duplicate run-again --reuse 1h --throttle-factor 3 --after 3,4 --after 5 \
                     --after-any --group 9 --owner me --tag a --tag b";
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.extend(["--params", r#"{"n":1.50}"#]);
        let expected = serde_json::json!({"type": "t", "key": "k", "queue": "q", "needs": "gpu>=1", "uses": "gpu=1", "avoid": true,
            "windows": "22:00-06:00, 12:00-13:00", "priority": -5,
            "run_at": "1970-01-01T00:10:00.000Z", "retry": {"max_attempts": 3},
            "timeouts": {"total": "2h", "silence": "5m"}, "on_duplicate": "run_again",
            "reuse": {"max_age": "1h"}, "throttle_factor": 3, "params": {"n": 1.5}, "after": [3, 4, 5], "after_any": true,
            "group": 9, "owner": "me", "tags": ["a", "b"]});
        assert_eq!(json(&words), expected);
    }

    #[test]
    fn a_job_that_runs_at_most_once_has_no_other_number_of_attempts() {
        let expected = serde_json::json!({"type": "t", "on_duplicate": "join", "at_most_once": true});
        assert_eq!(json(&["t", "--at-most-once"]), expected);
        let failure = parse(&["t", "--at-most-once", "--max-attempts", "3"]).unwrap().job(0).unwrap_err();
        assert_eq!(failure.what, "max_attempts of 3 contradicts at_most_once, which allows only 1");
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[test]
    fn what_cannot_work_is_refused_before_anything_travels() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["t", "--in", "10"]).is_err());
        assert!(parse(&["t", "--in", "1m", "--run-at", "2026-11-15T09:00:00Z"]).is_err());
        assert!(parse(&["t", "--from", "f"]).is_err());
        assert!(parse(&["t", "--reuse", "1h"]).is_err(), "reuse needs a key");
        assert!(parse(&["t", "--reuse-above", "17"]).is_err(), "so does this");
        assert!(parse(&["t", "--key", "k", "--reuse", "1h", "--reuse-above", "17"]).is_err(), "one of them");
        for (words, said) in [
            (["t", "--params", "{"], "params are not JSON"),
            (["t", "--needs", "gpu >"], "needs:"),
            (["t", "--window", "9-17"], "windows: \"9\" is not a time of day at column 1"),
            (["t", "--uses", "gpu>=1"], "uses: expected \"=\" and an amount after \"gpu\" at column 4"),
            (["t", "--queue", "a b"], "queue has the character"),
            (["t", "--timeout", "400d"], "total_ms of 34560000000 is outside"),
            (["t", "--params", "@/does/not/exist"], "failed to read params"),
        ] {
            let failure = parse(&words).unwrap().job(0).unwrap_err();
            assert!(failure.what.starts_with(said), "{failure}");
            assert_eq!(failure.exit, Exit::Usage);
        }
    }
}
