//! `jobhall up`: a hall and a supervised worker on this machine.

use clap::Args;

use crate::args::LogArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::hall::{ListenArgs, OpenHall, Signals};
use crate::local_worker::LocalWorker;

const EXAMPLES: &str = "\
Examples:
  jobhall up                       hall, worker and dashboard on 127.0.0.1:7450
  jobhall up --data ./hall --slots 4
  jobhall up --listen 127.0.0.1:0  any free port";

/// Arguments of `up`; the data directory is the global `--data`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UpArgs {
    /// Where to listen, and how.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Jobs at once [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub slots: Option<u32>,
    /// Logging.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Starts hall and worker, prints the link, and returns when both have stopped.
pub async fn start(context: &Context, args: &UpArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    let data = &context.settings.data.value;
    let hall = OpenHall::open(data, &args.listen.with(&context.settings)?).await?;
    context.output.line(&format!("jobhall is up: {}", hall.url))?;
    let link = format!("{}/?code={}", hall.url, hall.tokens.code());
    context.output.say(&format!("in a browser, once and within ten minutes: {link}"));
    context.output.say(&format!("data in {}; try: jobhall run -- echo hello", data.display()));
    let mut worker = LocalWorker::new(&hall, args.slots, &context.settings);
    tokio::select! {
        () = signals.next() => {}
        () = worker.keep() => {}
    }
    hall.drain();
    context.output.say("stopping: jobs at hand are finished first; a second signal stops at once");
    tokio::select! {
        () = worker.drain() => {}
        () = signals.next() => worker.kill().await,
    }
    hall.close().await;
    Ok(Exit::Ok)
}
