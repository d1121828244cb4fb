//! `jobhall up`: a server and a supervised worker on this machine.

use clap::Args;

use crate::args::LogArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::listen::ListenArgs;
use crate::local_worker::LocalWorker;
use crate::server::Signals;
use crate::serving::Serving;

const EXAMPLES: &str = "\
Examples:
  jobhall up                       server and worker on 127.0.0.1:7450
  jobhall up --data ./hall --slots 4
  jobhall up --listen 127.0.0.1:0  any free port";

/// Arguments of `up`; the data directory is the global `--data`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UpArgs {
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Maximum number of concurrent jobs [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub slots: Option<u32>,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Starts server and worker, prints the link, and returns when both have stopped.
pub async fn start(context: &Context, args: &UpArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    let data = &context.settings.data.value;
    let listen = args.listen.with(&context.settings)?;
    let hall = Serving::open(data, &listen, &context.settings).await?;
    context.output.line(&format!("jobhall is up: {}", hall.url()))?;
    if let Some(link) = hall.link() {
        context.output.say(&format!("open in a browser (valid once, for ten minutes): {link}"));
    }
    context.output.say(&format!("data in {}; try: jobhall run -- echo hello", data.display()));
    let at = (hall.url(), listen.tls_cert.as_deref());
    let mut worker = LocalWorker::new(at, hall.worker_token(), args.slots, &context.settings);
    tokio::select! {
        () = signals.next() => {}
        () = worker.keep() => {}
    }
    hall.drain();
    context.output.say("stopping: running jobs finish first; a second signal stops immediately");
    tokio::select! {
        () = worker.drain() => {}
        () = signals.next() => worker.kill().await,
    }
    hall.close().await;
    Ok(Exit::Ok)
}
