//! `jobhall server`: a hall without a worker.

use clap::Args;

use crate::args::LogArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::hall::{ListenArgs, OpenHall, Signals};

const EXAMPLES: &str = "\
Examples:
  jobhall server --data /var/lib/jobhall
  jobhall server --listen 0.0.0.0:7450 --tls-cert hall.crt --tls-key hall.key
  jobhall server --host hall.example   behind a proxy that passes this name on";

/// Arguments of `server`; the data directory is the global `--data`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServerArgs {
    /// Where to listen, and how.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Logging.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Starts the hall and returns when it has stopped.
pub async fn start(context: &Context, args: &ServerArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    let hall = OpenHall::open(&context.settings.data.value, &args.listen.with(&context.settings)?).await?;
    context.output.line(&format!("jobhall is up: {}", hall.url))?;
    signals.next().await;
    context.output.say("stopping");
    hall.close().await;
    Ok(Exit::Ok)
}
