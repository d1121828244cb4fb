//! `jobhall run`: runs a command as a job, with its output and exit code here.

use std::convert::Infallible;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jobhall_client::Client;
use jobhall_protocol::{Cancel, Code, EXEC, Exec, Job, Retry, SubmitJob};
use jobhall_server::Role;

use crate::commands::job::{Duplicate, Printer, duplicate, follow_job, wait};
use crate::commands::{embedded, interrupted};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::listen::ListenArgs;
use crate::local_worker::LocalWorker;
use crate::output::human;
use crate::output::table::clean;
use crate::server::OpenServer;
use crate::settings::is_loopback;

/// How long a job may wait before the command says why.
const MOMENT: Duration = Duration::from_secs(2);

/// The states of a job that no worker has.
const WAITING: [&str; 4] = ["queued", "scheduled", "blocked", "retrying"];

const EXAMPLES: &str = "\
Examples:
  jobhall run -- make test
  jobhall run --needs 'os=linux' --env LANG=C -- ./build.sh --fast
  jobhall run --key deploy --on-duplicate run-again -- ./deploy.sh v2    after a pending deploy

Exit codes: 0 succeeded, 100 failed, 101 cancelled, 102 timed out, 103 lost or crashed.
Ctrl-C cancels the job; a second Ctrl-C exits immediately.";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub argv: Vec<String>,
    /// Job key; a key has at most one pending job (see --on-duplicate)
    #[arg(long)]
    pub key: Option<String>,
    /// If a job with the same key is pending: follow that job, reject this one, cancel that one and run after it, or
    /// run after it [default: join if the command is the same, else exit with 6]
    #[arg(long, value_name = "WHAT", requires = "key")]
    pub on_duplicate: Option<Duplicate>,
    /// Queue name [default: default]
    #[arg(long)]
    pub queue: Option<String>,
    /// Which workers match, such as 'os=linux, gpu>=1'
    #[arg(long, value_name = "SELECTOR")]
    pub needs: Option<String>,
    /// Amounts that it uses of its worker while it runs, such as 'gpu=1, mem_gb=8'
    #[arg(long, value_name = "AMOUNTS")]
    pub uses: Option<String>,
    /// Environment variable for the command
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Working directory [default: the current one, if the server is on this machine]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Maximum attempts
    #[arg(long, value_name = "N", default_value = "1")]
    pub max_attempts: u16,
    /// Never start it a second time: if its worker is lost after accepting it, the job ends as crashed
    #[arg(long)]
    pub at_most_once: bool,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a variable must be NAME=VALUE".to_owned()),
    }
}

impl RunArgs {
    fn job(&self, here: Option<String>) -> Outcome<SubmitJob> {
        let env = self.env.iter().cloned().collect();
        let exec =
            Exec { argv: Some(self.argv.clone()), env, cwd: self.cwd.clone().or(here), ..Exec::default() };
        let params = serde_json::value::to_raw_value(&exec).map_err(|error| {
            Failure::new(Exit::Unexpected, format!("failed to write the params: {error}"))
        })?;
        let job = SubmitJob {
            key: self.key.clone(),
            queue: self.queue.clone(),
            needs: self.needs.clone(),
            uses: self.uses.clone(),
            params: Some(params),
            on_duplicate: duplicate::wire(self.on_duplicate),
            retry: Some(Retry { max_attempts: Some(self.max_attempts), ..Retry::default() }),
            at_most_once: self.at_most_once,
            ..SubmitJob::new(EXEC)
        };
        crate::commands::job::check(&job)?;
        Ok(job)
    }
}

/// Runs the command on the server that was named or is running; on an embedded one if there is none.
pub async fn run(context: &Context, args: &RunArgs) -> Outcome {
    let here = std::env::current_dir().ok().and_then(|here| Some(here.to_str()?.to_owned()));
    if embedded::is_alone(context).await? {
        return on_embedded(context, args, here).await;
    }
    let client = context.client()?;
    let here = here.filter(|_| is_loopback(client.base_url()));
    on_server(context, &client, args, here).await
}

/// Runs one command on an embedded server, whose data is removed afterwards.
async fn on_embedded(context: &Context, args: &RunArgs, here: Option<String>) -> Outcome {
    let folder = Folder::new().map_err(|error| embedded::failed(error.to_string()))?;
    let hall = OpenServer::open(&folder.0, &ListenArgs::anywhere()).await?;
    context.output.say("no server of yours is running: the command runs on an embedded one");
    let token = hall.tokens.mint("run", Role::Client);
    let worker = hall.tokens.mint("local", Role::Worker);
    let client = Client::new(&hall.url, Some(&token))?;
    let mut worker = LocalWorker::new((&hall.url, None), Box::new(move || worker.clone()), &context.settings)
        .slots(Some(1))
        .hide(vec![folder.0.clone()]);
    let ended = tokio::select! {
        ended = on_server(context, &client, args, here) => ended,
        () = worker.keep() => Err(embedded::failed("its worker ended")),
    };
    worker.drain().await;
    hall.close().await;
    ended
}

/// A private directory; removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        let name = format!("jobhall-run-{}-{:016x}", std::process::id(), rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Submits the job, follows its log, and returns its exit code.
pub async fn on_server(context: &Context, client: &Client, args: &RunArgs, here: Option<String>) -> Outcome {
    let key = crate::commands::job::random_key();
    let job = args.job(here)?;
    let submitted = client.submit(&job, Some(&key)).await?;
    duplicate::check(context, args.on_duplicate, &submitted)?;
    let id = if submitted.disposition == "again" {
        match after(context, client, submitted.id, &job).await? {
            Some(id) => id,
            None => return Ok(Exit::Interrupted),
        }
    } else {
        context.output.say(&format!("job {} {}", submitted.id, submitted.disposition));
        submitted.id
    };
    // Standard error of the command is printed on standard error.
    let mut printer = Printer::apart(&context.output);
    let job = tokio::select! {
        job = follow_job(client, id, None, &mut printer) => job.map_err(|failure| lost(id, failure))?,
        never = say_why_it_waits(context, client, id) => match never {},
        () = interrupted() => return stop(context, client, id).await,
    };
    Ok(verdict(context, &job))
}

/// After a moment without a start, says once why the job waits. Does not return.
async fn say_why_it_waits(context: &Context, client: &Client, id: u64) -> Infallible {
    tokio::time::sleep(MOMENT).await;
    // Without an answer there is nothing to say: following the job tells what is wrong.
    if let Ok(explanation) = client.explain(id).await
        && let Some(reason) = explanation.reasons.first()
        && WAITING.contains(&explanation.state.as_str())
    {
        let fix = reason.fix.as_ref().map(|fix| format!("\n  fix: {}", clean(fix))).unwrap_or_default();
        context.output.say(&format!("job {id} waits: {}{fix}", clean(&reason.text)));
    }
    std::future::pending().await
}

/// Waits for the job that runs the command after the job that has the key; none after Ctrl-C.
async fn after(context: &Context, client: &Client, holder: u64, job: &SubmitJob) -> Outcome<Option<u64>> {
    context.output.say(&format!("job {holder} has the key; the command runs after it"));
    tokio::select! {
        id = duplicate::follow_up(client, holder, job) => {
            let id = id?;
            context.output.say(&format!("job {id} created"));
            Ok(Some(id))
        }
        () = interrupted() => {
            context.output.say(&format!("not waiting; the command still runs after job {holder}"));
            Ok(None)
        }
    }
}

/// The first Ctrl-C cancels the job and waits for its end; the second one exits immediately.
async fn stop(context: &Context, client: &Client, id: u64) -> Outcome {
    context.output.say(&format!("cancelling job {id}; press Ctrl-C again to exit without waiting"));
    let end = async {
        match client.cancel(id, &Cancel::default()).await {
            Err(error) if error.code() != Some(Code::Conflict) => Err(Failure::from(error)),
            _ => wait::one(client, id).await,
        }
    };
    tokio::select! {
        ended = end => context.output.say(&format!("job {id} is {}", ended?.state)),
        () = interrupted() => context.output.say(&format!("not waiting; see `jobhall job show {id}`")),
    }
    Ok(Exit::Interrupted)
}

fn verdict(context: &Context, job: &Job) -> Exit {
    let exit = Exit::of_job(job).unwrap_or(Exit::Unexpected);
    if let Some(error) = job.error.as_ref().filter(|_| exit != Exit::Ok) {
        context.output.say(&format!("job {} {}: {}", job.id, job.state, human::why(error)));
    }
    exit
}

fn lost(id: u64, failure: Failure) -> Failure {
    let unreachable = failure.exit == Exit::Unreachable;
    let fix = format!("the job continues: follow it with `jobhall job wait {id}`");
    if unreachable { failure.while_doing("lost the connection to the server").fix(fix) } else { failure }
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    #[test]
    fn a_command_becomes_an_exec_job() {
        let words = ["jobhall", "run", "--env", "A=b=c", "--", "make", "-j", "--json"];
        let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else { panic!("not run") };
        let job = serde_json::to_value(args.job(Some("/here".to_owned())).unwrap()).unwrap();
        let params =
            serde_json::json!({"argv": ["make", "-j", "--json"], "env": {"A": "b=c"}, "cwd": "/here"});
        assert_eq!(job["params"], params);
        assert_eq!(job["retry"]["max_attempts"], 1);
        assert!(Cli::try_parse_from(["jobhall", "run"]).is_err());
        assert!(Cli::try_parse_from(["jobhall", "run", "--env", "=x", "--", "a"]).is_err());
    }
}
