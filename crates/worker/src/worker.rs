//! A worker that runs commands: its options, and why it ends.

use std::sync::Arc;
use std::time::Duration;

use jobhall_client::{Client, ClientError};
use jobhall_core::needs::SelectorError;
use jobhall_protocol::{FEATURE_ABILITIES, FEATURE_FINISH, Hello, WorkerFile};
use thiserror::Error;
use tokio::sync::watch;

use crate::abilities::cpus;
use crate::attempt::CommandExecutor;
use crate::attempt::filters::Filters;
use crate::offers::{Offer, Offers};
use crate::session_loop::link::instance;
use crate::session_loop::{LoopOptions, SessionLoop};
use crate::slots::Slots;
use crate::watch::{Reread, Watcher};
use crate::workspace;

/// The requested kind of shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shutdown {
    None,
    /// Take no further jobs, finish the running ones.
    Drain,
    /// Stop everything now.
    Now,
}

pub struct WorkerOptions {
    /// The client, with the worker's token.
    pub client: Client,
    /// The configuration of the worker.
    pub file: WorkerFile,
    /// Reads its types and commands again when the file has changed.
    pub reread: Option<Reread>,
    pub slots: Slots,
    pub shutdown: watch::Receiver<Shutdown>,
    /// When the worker ends without a shutdown.
    pub until: Until,
    /// Called once, when the first session begins, with the name of the worker on the server.
    pub connected: Connected,
}

/// Gets the name of the worker on the server.
pub type Connected = Box<dyn FnOnce(&str) + Send>;

/// When a worker ends without a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// It takes one job and ends after it.
    pub once: bool,
    /// It ends when it has had no job for this time.
    pub idle: Option<Duration>,
    /// It finishes its jobs and ends when an operator drains it.
    pub drained: bool,
}

/// Why a worker ended with an error.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The abilities in the worker's file are invalid.
    #[error(transparent)]
    Abilities(#[from] SelectorError),
    /// The server refused the worker's token.
    #[error(transparent)]
    Refused(ClientError),
    /// The commands in the worker's file are invalid.
    #[error("{0}")]
    Commands(String),
}

/// Works until shutdown, or until the server refuses the worker's token.
pub async fn run(options: WorkerOptions) -> Result<(), WorkerError> {
    let WorkerOptions { client, file, reread, slots, shutdown, until, connected } = options;
    let instance = Some(instance());
    let filters = Filters::read(&file).map_err(WorkerError::Commands)?;
    let finishes = until.drained.then_some(FEATURE_FINISH);
    let features = [FEATURE_ABILITIES].into_iter().chain(finishes).map(str::to_owned).collect();
    let hello = Hello { features, instance, ..Hello::default() };
    let named = file.name.clone();
    let count = u64::from(file.slots.unwrap_or_else(cpus).max(1));
    // Beside the work: much may be left.
    tokio::task::spawn_blocking(|| workspace::sweep(&std::env::temp_dir()));
    let offers = Offers::new(Offer::new(1, Arc::new(file), filters)?);
    let watching = Watcher { client: client.clone(), offers: offers.clone(), reread }.run();
    let executor = CommandExecutor::new(client.clone(), offers.clone());
    let options = LoopOptions { client, executor, slots, count, hello, offers, named, until, connected };
    let working = SessionLoop::new(options).run(shutdown);
    let (mut working, mut watching) = (std::pin::pin!(working), std::pin::pin!(watching));
    let ended = tokio::select! {
        ended = &mut working => ended,
        () = &mut watching => working.await,
    };
    ended.map_err(WorkerError::Refused)
}
