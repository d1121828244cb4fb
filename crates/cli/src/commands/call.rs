//! `jobhall call`: sub-jobs, from inside a job.
//!
//! While the job waits, its slot is free for other jobs, including the sub-job. A call with the same name, even from a
//! later attempt, returns the same job unless that job has failed.

use clap::{Args, ValueEnum};
use jobhall_client::{Client, ClientError};
use jobhall_protocol::{Called, OnDuplicate, SubJob, SubJobState, SubmitJob, Wait};
use serde_json::value::RawValue;

use crate::commands::job::{Transfer, check, duplicate, params};
use crate::commands::progress::own_attempt;
use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human;
use crate::output::{Format, complain, print_bytes};

/// Maximum size of a result that is part of a JSON document.
const DOCUMENT_BYTES: usize = 64 << 20;
/// How long one request waits, in seconds, before it is repeated.
const WAIT_S: u64 = 30;

const CHOICES: &str = "supersede (it is cancelled, then yours runs), join (its params count), or reject";

const EXAMPLES: &str = "\
Examples, in the script of a job:
  sum=$(jobhall call sum --params '[1,2]')             the result as JSON, the outcome as exit code
  jobhall call resize --key a.png --no-wait             starts it without waiting
  jobhall call resize --key b.png --no-wait
  jobhall call report --key 2026-11 --on-duplicate supersede    instead of a pending one
  jobhall call --all                                   waits for both; one result per line";

/// How to handle a pending job with the same key. There is no `run-again`: the job that follows would be no sub-job, so
/// the parent could not wait for it. The variants have no doc comments, as in `job submit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CallDuplicate {
    Join,
    Reject,
    Supersede,
}

impl CallDuplicate {
    fn wire(self) -> OnDuplicate {
        match self {
            CallDuplicate::Join => OnDuplicate::Join,
            CallDuplicate::Reject => OnDuplicate::Reject,
            CallDuplicate::Supersede => OnDuplicate::Supersede,
        }
    }

    /// A call that joined another job has its name; the name of a call that must not join differs from it.
    fn suffix(self) -> Option<&'static str> {
        match self {
            CallDuplicate::Join => None,
            CallDuplicate::Reject => Some("reject"),
            CallDuplicate::Supersede => Some("supersede"),
        }
    }
}

/// Arguments of `call`. Variables set by the worker identify the job and authorize the request.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CallArgs {
    /// Job type
    #[arg(value_name = "TYPE", required_unless_present = "all")]
    pub job_type: Option<String>,
    /// Job key; at most one pending job per type and key
    #[arg(long)]
    pub key: Option<String>,
    /// Name of the call within this job [default: type and key, or type and params]
    #[arg(long, value_name = "NAME")]
    pub call: Option<String>,
    /// Parameters for the worker: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub params: Option<String>,
    /// Which workers match, such as 'os=linux, gpu>=1'
    #[arg(long, value_name = "SELECTOR")]
    pub needs: Option<String>,
    /// If a job with the same key is pending: return that job, reject this one, or cancel that one and run after it
    /// [default: join if the params are the same, else exit with 6]
    #[arg(long, value_name = "WHAT", requires = "key")]
    pub on_duplicate: Option<CallDuplicate>,
    /// Start the sub-job without waiting for it
    #[arg(long, alias = "begin")]
    pub no_wait: bool,
    /// Wait for all sub-jobs that were started
    #[arg(long, conflicts_with_all = ["job_type", "key", "call", "params", "needs", "on_duplicate", "no_wait"])]
    pub all: bool,
}

impl CallArgs {
    fn sub_job(&self) -> Outcome<SubJob> {
        let params = self.params.as_deref().map(params).transpose()?;
        let job = SubmitJob {
            key: self.key.clone(),
            needs: self.needs.clone(),
            params,
            on_duplicate: self.on_duplicate.map_or(OnDuplicate::Join, CallDuplicate::wire),
            ..SubmitJob::new(self.job_type.as_deref().unwrap_or(""))
        };
        check(&job)?;
        let call = self.call.clone().or_else(|| self.key.is_none().then(|| name(&job)));
        let mut sub_job = SubJob { call, job };
        if let Some(suffix) = self.on_duplicate.and_then(CallDuplicate::suffix) {
            sub_job.call = sub_job.name().ok().map(|name| format!("{name} {suffix}"));
        }
        Ok(sub_job)
    }

    /// Refuses a job with the same key and other params, unless joining was requested. Without a key only the name of
    /// the call identifies the job.
    fn check(&self, context: &Context, called: &Called) -> Outcome<()> {
        let id = called.id;
        if !called.params_differ || self.key.is_none() {
            return Ok(());
        }
        if self.on_duplicate == Some(CallDuplicate::Join) {
            context.output.say(&duplicate::note(id));
            return Ok(());
        }
        Err(duplicate::refusal(id, CHOICES))
    }
}

/// The default name: equal for equal work.
fn name(job: &SubmitJob) -> String {
    let params = job.params.as_ref().map_or("{}", |params| params.get());
    format!("{} {}", job.job_type, &blake3::hash(params.as_bytes()).to_hex()[..32])
}

/// Starts sub-jobs and waits for them.
pub async fn run(context: &Context, args: &CallArgs) -> Outcome {
    let (client, attempt) = (context.client()?, own_attempt()?);
    if args.all {
        let mut jobs = wait(&client, &attempt, None).await?;
        for job in jobs.iter_mut().filter(|job| job.left_out) {
            // The response would have been too large: each of these jobs is requested alone.
            if let Some(whole) = wait(&client, &attempt, Some(vec![job.id])).await?.pop() {
                *job = whole;
            }
        }
        return tell(context, &client, &attempt, jobs).await;
    }
    let called = client.call(&attempt, &args.sub_job()?).await?;
    args.check(context, &called)?;
    if args.no_wait {
        context.output.one(&called, || called.id.to_string())?;
        return Ok(Exit::Ok);
    }
    let jobs = wait(&client, &attempt, Some(vec![called.id])).await?;
    tell(context, &client, &attempt, jobs).await
}

/// Waits for these sub-jobs, or for all.
pub(super) async fn wait(
    client: &Client,
    attempt: &str,
    jobs: Option<Vec<u64>>,
) -> Outcome<Vec<SubJobState>> {
    let wait = Wait { jobs, wait_s: Some(WAIT_S) };
    loop {
        if let Some(waited) = client.wait_for(attempt, &wait).await? {
            return Ok(waited.jobs);
        }
    }
}

/// Prints one result per line; errors go to standard error.
async fn tell(context: &Context, client: &Client, attempt: &str, mut jobs: Vec<SubJobState>) -> Outcome {
    let is_plain = context.output.format == Format::Human && context.output.fields.is_empty();
    for job in &mut jobs {
        if job.left_out && job.state == "succeeded" {
            let reader = client.read_sub_job_result(attempt, job.id);
            let transfer = Transfer::new(context, reader, &<Failure as From<ClientError>>::from);
            if is_plain {
                print_result(transfer).await?;
                continue;
            }
            job.result = result_document(transfer, job.id).await?;
            job.left_out = job.result.is_none();
        }
        let value = job.result.as_ref().map_or("null", |value| value.get());
        context.output.one(job, || value.to_owned())?;
        if let Some(error) = &job.error {
            complain(
                &Failure::new(Exit::Failed, format!("job {} {}", job.id, job.state)).why(human::why(error)),
            );
        }
    }
    Ok(Exit::gravest(jobs.iter().filter_map(|job| Exit::of_end(&job.state, job.outcome.as_deref()))))
}

/// Prints a result that is an artifact, as it is.
async fn print_result(mut transfer: Transfer<'_>) -> Outcome<()> {
    let mut last = b' ';
    let mut show = |bytes: &[u8]| {
        last = bytes.last().copied().unwrap_or(last);
        print_bytes(bytes)
    };
    until_interrupted(transfer.copy(&mut show)).await?;
    if last == b'\n' { Ok(()) } else { print_bytes(b"\n") }
}

/// A result that is an artifact, as JSON: a text that is no JSON is a string. None if it is no text.
async fn result_document(mut transfer: Transfer<'_>, id: u64) -> Outcome<Option<Box<RawValue>>> {
    let mut all = Vec::new();
    let mut add = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        if all.len() > DOCUMENT_BYTES {
            let what = format!("the result of job {id} has more than {DOCUMENT_BYTES} bytes");
            return Err(
                Failure::new(Exit::Unexpected, what).fix("print it without --json, --jsonl and --fields")
            );
        }
        Ok(())
    };
    until_interrupted(transfer.copy(&mut add)).await?;
    let Ok(text) = String::from_utf8(all) else { return Ok(None) };
    let document = serde_json::from_str(&text).or_else(|_| serde_json::value::to_raw_value(&text));
    document.map(Some).map_err(|error| Failure::new(Exit::Unexpected, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    fn call(words: &[&str]) -> SubJob {
        let words = ["jobhall", "call"].into_iter().chain(words.iter().copied());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Call(args) => args.sub_job().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same_work_has_the_same_name() {
        let one = call(&["sum", "--params", "[1,2]"]);
        assert_eq!(one.call, call(&["sum", "--params", "[1,2]"]).call);
        assert_ne!(one.call, call(&["sum", "--params", "[1,3]"]).call);
        assert_ne!(one.call, call(&["add", "--params", "[1,2]"]).call);
        assert_eq!(call(&["sum", "--key", "k"]).name().unwrap(), "sum/k");
        assert_eq!(call(&["sum", "--call", "a", "--key", "k"]).call.as_deref(), Some("a"));
        for bad in [
            &["jobhall", "call"][..],
            &["jobhall", "call", "sum", "--all"],
            &["jobhall", "call", "sum", "--on-duplicate", "reject"],
            &["jobhall", "call", "sum", "--key", "k", "--on-duplicate", "run-again"],
        ] {
            assert!(Cli::try_parse_from(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_call_that_must_not_join_has_another_name_than_one_that_joined() {
        let named = |words: &[&str]| call(words).name().unwrap();
        let [join, reject, supersede] =
            ["join", "reject", "supersede"].map(|what| named(&["sum", "--key", "k", "--on-duplicate", what]));
        assert_eq!([join, reject, supersede], ["sum/k", "sum/k reject", "sum/k supersede"]);
        let given = ["sum", "--key", "k", "--call", "a", "--on-duplicate", "supersede"];
        assert_eq!(named(&given), "a supersede");
        assert_eq!(call(&given).job.on_duplicate, OnDuplicate::Supersede);
    }
}
