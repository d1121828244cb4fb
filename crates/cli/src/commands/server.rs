//! `jobhall server`: a hall without a worker.

use std::net::SocketAddr;

use clap::Args;
use jobhall_protocol::Span;

use crate::args::LogArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::hall::{OpenHall, Signals, config, lease};

const EXAMPLES: &str = "\
Examples:
  jobhall server --data /var/lib/jobhall
  jobhall server --listen 127.0.0.1:8000";

/// Arguments of `server`; the data directory is the global `--data`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServerArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7450")]
    pub listen: SocketAddr,
    /// How long a worker may be silent before its jobs are given to others [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = lease)]
    pub lease: Option<Span>,
    /// Logging.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Starts the hall and returns when it has stopped.
pub async fn start(context: &Context, args: &ServerArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    let hall = OpenHall::open(&context.settings.data.value, args.listen, config(args.lease)).await?;
    context.output.line(&format!("jobhall is up: {}", hall.url))?;
    signals.next().await;
    context.output.say("stopping");
    hall.close().await;
    Ok(Exit::Ok)
}
