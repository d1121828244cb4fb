//! `jobhall up`: a hall and a supervised worker on this machine.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::Args;
use jobhall_server::Role;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::hall::{OpenHall, Signals};

/// Pauses before a local worker that died is started again.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  jobhall up                       hall, worker and dashboard on 127.0.0.1:7450
  jobhall up --data ./hall --slots 4
  jobhall up --listen 127.0.0.1:0  any free port";

/// Arguments of `up`; the data directory is the global `--data`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UpArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7450")]
    pub listen: SocketAddr,
    /// Jobs at once [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub slots: Option<u32>,
}

/// Starts hall and worker, prints the link, and returns when both have stopped.
pub async fn start(context: &Context, args: &UpArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    let data = &context.settings.data.value;
    let hall = OpenHall::open(data, args.listen).await?;
    context.output.line(&format!("jobhall is up: {}", hall.url))?;
    context.output.say(&format!("data in {}; try: jobhall run -- echo hello", data.display()));
    let mut worker = LocalWorker::new(&hall, args.slots);
    tokio::select! {
        () = signals.next() => {}
        () = worker.keep() => {}
    }
    context.output.say("stopping: jobs at hand are finished first; a second signal stops at once");
    tokio::select! {
        () = worker.drain() => {}
        () = signals.next() => worker.kill().await,
    }
    hall.close().await;
    Ok(Exit::Ok)
}

/// The worker on this machine, in a process of its own that is started again when it dies.
struct LocalWorker {
    server: String,
    token: String,
    slots: Option<u32>,
    child: Option<Child>,
}

impl LocalWorker {
    fn new(hall: &OpenHall, slots: Option<u32>) -> LocalWorker {
        let token = hall.tokens.mint("local", Role::Worker);
        LocalWorker { server: hall.url.clone(), token, slots, child: None }
    }

    fn spawn(&mut self) -> std::io::Result<&mut Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", "--name", "local", "--allow-exec", "--server", &self.server]);
        if let Some(slots) = self.slots {
            command.args(["--slots", &slots.to_string()]);
        }
        // In a group of its own, so that the interrupt of a terminal reaches it only through us.
        command.env("JOBHALL_TOKEN", &self.token).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
        Ok(self.child.insert(command.spawn()?))
    }

    /// Keeps a worker running, with growing pauses between one that dies at once and the next.
    async fn keep(&mut self) {
        let mut pause = SHORTEST;
        loop {
            let began = Instant::now();
            let ended = match self.spawn() {
                Ok(child) => child.wait().await.map(|status| status.to_string()),
                Err(error) => Err(error),
            };
            let why = ended.unwrap_or_else(|error| error.to_string());
            tracing::warn!(why, "the local worker ended; it is started again");
            pause = if began.elapsed() > LONGEST { SHORTEST } else { (pause * 2).min(LONGEST) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Lets it finish the jobs at hand.
    async fn drain(&mut self) {
        let Some(child) = &mut self.child else { return };
        if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = child.wait().await;
    }

    async fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill().await;
        }
    }
}
