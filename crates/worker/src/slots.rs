//! The slots of a worker: a limited number of concurrent commands, each in a pair of processes that the next
//! command reuses.

pub(crate) mod command;
pub(crate) mod ended;
pub(crate) mod running;
pub(crate) mod setup;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{getpid, set_child_subreaper};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command as Program};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use self::command::{Command, Environment, Refused};
use self::running::Running;
use self::setup::{Covered, Hidden, JobUser, Setup};
use crate::supervisor::{FAILED, MONITOR, PROBE, group, tree};
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
    /// Variables of a slot's processes besides those of a job. They must make it a process with one thread.
    pub variables: Vec<(OsString, OsString)>,
    /// Whether this process adopts what a slot leaves if a job kills both of its processes, and ends it. It must have
    /// no children but those of these slots.
    pub adopts: bool,
    pub setup: Setup,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            most: 1,
            program: "/proc/self/exe".into(),
            arguments: vec!["__slot".into()],
            variables: Vec::new(),
            adopts: false,
            setup: Setup::default(),
        }
    }
}

impl Options {
    /// Whether slots can be set up like this; if not, why.
    ///
    /// # Errors
    /// The first thing that this machine refuses.
    pub async fn probe(&self) -> Result<(), String> {
        let program = program(self, PROBE).map(|mut program| {
            program.stdin(Stdio::null()).stderr(Stdio::piped());
            program
        });
        let ended = match program {
            Ok(mut program) => program.output().await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(ended) if ended.status.success() => Ok(()),
            Ok(ended) => {
                let said = String::from_utf8_lossy(&ended.stderr);
                let said = said.trim();
                Err(said.strip_prefix(FAILED).unwrap_or(said).to_owned())
            }
            Err(error) => Err(error.to_string()),
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
    monitors: Arc<Monitors>,
}

/// The process ids of the monitors that are in use. It is locked while one is started.
type Monitors = Mutex<HashSet<i32>>;

/// A monitor, known until this is dropped.
#[derive(Debug)]
struct Known {
    monitors: Arc<Monitors>,
    pid: i32,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.monitors.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid);
    }
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
    known: Known,
    covered: Option<Covered>,
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
        if options.adopts
            && let Err(error) = set_child_subreaper(Some(getpid()))
        {
            tracing::warn!("a job that kills the processes of its slot can outlive itself: {error}");
        }
        Self(Arc::new(Pool { options, free, idle: Mutex::default(), monitors: Arc::default() }))
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
    fn idle(&self) -> MutexGuard<'_, Vec<Supervisor>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most recently used supervisor whose processes are alive.
    fn take_idle(&self) -> Option<Supervisor> {
        let mut idle = self.idle();
        let covered = self.options.setup.hidden.as_ref().map(Hidden::covered);
        while let Some(mut supervisor) = idle.pop() {
            if matches!(supervisor.monitor.try_wait(), Ok(None)) && supervisor.covered == covered {
                return Some(supervisor);
            }
        }
        None
    }
}

impl Slot {
    /// Whom commands run as, if not as the worker.
    pub(crate) fn user(&self) -> Option<JobUser> {
        self.pool.options.setup.user.clone()
    }

    /// The same slot for one of several commands that run one after the other; the place stays taken by this one.
    pub(crate) fn part(&self) -> Slot {
        Slot { pool: self.pool.clone(), _place: None }
    }

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
        let mut supervisor = Supervisor::start(&self.pool)?;
        supervisor.order(&command, &mut order).await?;
        Ok(Running::new(self, supervisor))
    }

    /// Ends what is left of a slot whose processes have ended. They do this themselves unless both were killed.
    pub(crate) fn clean_up(&self, supervisor: Supervisor) -> JoinHandle<()> {
        let (pool, monitor) = (Arc::clone(&self.pool), supervisor.known.pid);
        tokio::task::spawn_blocking(move || {
            if let Some(place) = &pool.options.setup.control_group {
                group::end(place, monitor.unsigned_abs());
            }
            // It was a known child until now, so that its process id was not given to another one.
            drop(supervisor);
            if pool.options.adopts {
                tree::end_orphans(&pool.monitors);
            }
        })
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
    fn start(pool: &Pool) -> io::Result<Self> {
        let options = &pool.options;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(ours)?.into_split();
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        // Before the slot covers them: if one is replaced in between, the slot is not used a second time.
        let covered = options.setup.hidden.as_ref().map(Hidden::covered);
        let mut program = program(options, MONITOR)?;
        let mut known = pool.monitors.lock().unwrap_or_else(PoisonError::into_inner);
        let monitor = program.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        let pid = monitor.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        known.insert(pid);
        let known = Known { monitors: Arc::clone(&pool.monitors), pid };
        Ok(Self { reader, writer, frames: Frames::default(), run: 0, monitor, known, covered })
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

/// A process of a slot. A job can read the environment of its ancestors, so it gets the same variables as a job.
fn program(options: &Options, role: &str) -> io::Result<Program> {
    let mut program = Program::new(&options.program);
    program
        .arg0("hall-monitor")
        .args(&options.arguments)
        .arg(role)
        .arg(serde_json::to_string(&options.setup)?)
        .env_clear()
        .envs(Environment::base().iter())
        .envs(options.variables.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    Ok(program)
}
