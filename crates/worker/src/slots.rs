//! The slots of a worker: a limited number of concurrent commands, each in a pair of processes that the next
//! command reuses.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command as Program};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::command::{Command, Environment, Refused};
use crate::running::Running;
use crate::supervisor::{CONTROL_GROUP, MONITOR, NO_NEW_PRIVILEGES};
use crate::wire::{Frames, Order};

#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum number of concurrent commands.
    pub most: usize,
    /// The executable of a slot's processes. By default the current one, through `/proc`, so that replacing the file
    /// of a running worker does not mix two versions.
    pub program: PathBuf,
    /// The arguments with which that executable calls [`crate::supervisor::main`].
    pub arguments: Vec<OsString>,
    /// Whether setuid programs, such as `sudo`, have no effect in a slot. A worker that is not root can kill every
    /// process of a command only if this is set.
    pub no_new_privileges: bool,
    /// A cgroup v2 directory in which this worker may create a group for each slot; see
    /// [`crate::supervisor::own_group`]. An optional additional safeguard.
    pub control_group: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            most: 1,
            program: "/proc/self/exe".into(),
            arguments: vec!["__slot".into()],
            no_new_privileges: false,
            control_group: None,
        }
    }
}

/// All slots of a worker. Dropping it ends the idle ones.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    options: Options,
    free: Arc<Semaphore>,
    idle: Mutex<Vec<Supervisor>>,
}

/// Permission to run one command.
#[derive(Debug)]
pub struct Slot {
    pool: Arc<Pool>,
    _place: Option<OwnedSemaphorePermit>,
}

/// The worker's end of one pair of processes. Dropping it ends them and everything they run, immediately.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) reader: OwnedReadHalf,
    pub(crate) writer: Arc<tokio::sync::Mutex<OwnedWriteHalf>>,
    pub(crate) frames: Frames,
    pub(crate) run: u64,
    monitor: Child,
}

/// Why a command was not sent to a slot.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The command is invalid.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The processes of the slot could not be started.
    #[error("failed to start a slot: {0}")]
    Slot(#[from] io::Error),
}

impl Slots {
    /// Creates slots; processes are started on demand.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let free = Arc::new(Semaphore::new(options.most.min(Semaphore::MAX_PERMITS)));
        Self(Arc::new(Pool { options, free, idle: Mutex::default() }))
    }

    /// Waits for a free slot.
    pub async fn acquire(&self) -> Slot {
        let place = Arc::clone(&self.0.free).acquire_owned().await.expect("the semaphore is never closed");
        Slot { pool: Arc::clone(&self.0), _place: Some(place) }
    }

    /// A slot for an assigned command: a free one, or an additional one if commands wait for others. The server
    /// counts those as not running.
    #[must_use]
    pub fn take(&self) -> Slot {
        let place = Arc::clone(&self.0.free).try_acquire_owned().ok();
        Slot { pool: Arc::clone(&self.0), _place: place }
    }

    /// A free slot, if there is one now.
    #[must_use]
    pub fn try_acquire(&self) -> Option<Slot> {
        let place = Arc::clone(&self.0.free).try_acquire_owned().ok()?;
        Some(Slot { pool: Arc::clone(&self.0), _place: Some(place) })
    }

    /// Ends all idle slots and waits until their processes have ended.
    pub async fn close_idle(&self) {
        let idle = std::mem::take(&mut *self.0.idle());
        for supervisor in idle {
            supervisor.close().await;
        }
    }
}

impl Pool {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Supervisor>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most recently used supervisor whose processes are alive.
    fn take_idle(&self) -> Option<Supervisor> {
        let mut idle = self.idle();
        while let Some(mut supervisor) = idle.pop() {
            if matches!(supervisor.monitor.try_wait(), Ok(None)) {
                return Some(supervisor);
            }
        }
        None
    }
}

impl Slot {
    /// Sends a command to the slot. Its end reports whether it could be started.
    ///
    /// # Errors
    /// The command is invalid, or the processes of the slot cannot be started.
    pub async fn run(self, command: Command) -> Result<Running, RunError> {
        command.check()?;
        let mut order = Vec::new();
        // A supervisor that does not accept the order has not started it, so another one may.
        while let Some(mut supervisor) = self.pool.take_idle() {
            if supervisor.order(&command, &mut order).await.is_ok() {
                return Ok(Running::new(self, supervisor));
            }
        }
        let mut supervisor = Supervisor::start(&self.pool.options)?;
        supervisor.order(&command, &mut order).await?;
        Ok(Running::new(self, supervisor))
    }

    /// Keeps a supervisor whose command has ended for the next one, at most as many as there are slots.
    pub(crate) fn give_back(&self, supervisor: Supervisor) {
        let mut idle = self.pool.idle();
        if idle.len() < self.pool.options.most {
            idle.push(supervisor);
        }
    }
}

impl Supervisor {
    fn start(options: &Options) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(ours)?.into_split();
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        let monitor = monitor(options, theirs.into())?;
        Ok(Self { reader, writer, frames: Frames::default(), run: 0, monitor })
    }

    async fn order(&mut self, command: &Command, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.run += 1;
        bytes.clear();
        Order::encode_run(bytes, self.run, command);
        self.writer.lock().await.write_all(bytes).await
    }

    async fn close(self) {
        let Self { reader, writer, mut monitor, .. } = self;
        drop((reader, writer));
        let _status = monitor.wait().await;
    }
}

/// A job can read the environment of its ancestors, so the slot's processes get the same variables as a job.
fn monitor(options: &Options, socket: OwnedFd) -> io::Result<Child> {
    let mut program = Program::new(&options.program);
    program
        .arg0("hall-monitor")
        .args(&options.arguments)
        .arg(MONITOR)
        .args(options.no_new_privileges.then_some(NO_NEW_PRIVILEGES))
        .args(options.control_group.as_ref().map(|_| CONTROL_GROUP))
        .args(&options.control_group)
        .env_clear()
        .envs(Environment::base().iter())
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    program.spawn()
}
