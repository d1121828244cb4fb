//! Child processes of the worker: one command runs in one slot, and no process of it remains afterwards.
//!
//! A slot is a pair of long-lived processes that the worker starts from its own executable:
//!
//! ```text
//!   worker ──socket──┬─▶ monitor    waits; kills everything below when the worker or the supervisor is gone
//!   (Slots, Running) └──▶ supervisor   runs one command after another, reads its output, ends its whole tree
//!                           └─▶ command, and the processes it starts
//! ```
//!
//! Monitor and supervisor are child subreapers, so a daemon that forked twice and changed its session is still a
//! descendant and is found. Neither needs to run code between fork and exec, so a command costs one `posix_spawn`.
//! The worker's end of the socket controls the lifetime of the slot: closing it, deliberately or by `kill -9`, ends
//! the slot, and the worker reads end of file only after the last process of the slot has exited.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use jobhall_worker::{Command, Options, Slots};
//! # async fn example(cancelled: impl Future<Output = ()>) -> Result<(), jobhall_worker::RunError> {
//! let slots = Slots::new(Options { most: 4, ..Options::default() });
//! let command = Command::new(["make", "all"]).directory("/src").env("JOBHALL_JOB", "7");
//! let mut running = slots.acquire().await.run(command).await?;
//! let stopper = running.stopper();
//! let say = async {
//!     while let Some(chunk) = running.next().await {
//!         println!("{} {:?}: {} bytes", chunk.at_ms, chunk.stream, chunk.bytes.len());
//!     }
//!     running.wait().await
//! };
//! let cancel = async {
//!     cancelled.await;
//!     stopper.stop(Duration::from_secs(10)).await;
//! };
//! let (ended, ()) = tokio::join!(say, cancel);
//! println!("{}, {} processes left behind", ended.status, ended.survivors_killed);
//! # Ok(())
//! # }
//! ```
//!
//! A binary that uses this crate provides a hidden command that calls [`supervisor::main`], and names that command
//! in [`Options`].
#![forbid(unsafe_code)]

mod abilities;
mod attempt;
mod executor;
mod offers;
mod session_loop;
mod slots;
pub mod supervisor;
mod watch;
mod wire;
mod worker;
mod workspace;

pub use abilities::{abilities, cpus, host_name, types};
pub use attempt::files::{differing, machine};
pub use attempt::filters::Filters;
pub use attempt::here::{ASKED_FILE, OwnCommands, received};
pub use slots::command::{
    Command, DEFAULT_PATH, Environment, INHERITED, LEFTOVER_GRACE, MOST_STDIN, MOST_WORDS, OUTPUT_LIMIT,
    Refused, Stdin, Stdout,
};
pub use slots::ended::{Chunk, Ended, Status, Stream};
pub use slots::running::{Running, Said, Stopper};
pub use slots::setup::{Hidden, JobUser, Setup};
pub use slots::{Options, RunError, Slot, Slots};
pub use watch::Reread;
pub use worker::{Connected, Shutdown, Until, WorkerError, WorkerOptions, run};
