//! `jobhall server`: a server without a worker.

use clap::Args;

use crate::args::LogArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::listen::ListenArgs;
use crate::server::Signals;
use crate::serving::Serving;

const EXAMPLES: &str = "\
Examples:
  jobhall server --data /var/lib/jobhall
  jobhall server --listen 0.0.0.0:7450 --tls-cert hall.crt --tls-key hall.key
  jobhall server --database postgres://hall@db/hall --listen 10.0.0.5:7450 --insecure
  jobhall server --host hall.example   behind a proxy that forwards this name";

/// Arguments of `server`; the data directory is the global `--data`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServerArgs {
    #[command(flatten)]
    pub listen: ListenArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Starts the server and returns when it has stopped.
pub async fn start(context: &Context, args: &ServerArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    let data = &context.settings.data.value;
    let listen = args.listen.with(&context.settings)?;
    let hall = Serving::open(data, &listen, &context.settings).await?;
    let _registration = hall.register(data, &listen, &context.settings);
    context.output.line(&format!("jobhall is up: {}", hall.url()))?;
    if let Some(first) = hall.first_start() {
        context.output.say(&first);
    }
    if let Some(hint) = hall.token_hint(data) {
        context.output.say(&hint);
    }
    let failed = tokio::select! {
        () = signals.next() => None,
        failure = hall.failed() => Some(failure),
    };
    if failed.is_none() {
        context.output.say("stopping");
    }
    hall.close().await;
    failed.map_or(Ok(Exit::Ok), Err)
}
