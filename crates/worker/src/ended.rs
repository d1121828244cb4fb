//! How a command ended, and the chunks of its output.

use std::time::Duration;

/// Where a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The command's standard output.
    Stdout,
    /// The command's standard error.
    Stderr,
    /// The slot itself: the one line that says that the rest is dropped.
    Notice,
}

/// A piece of output, byte for byte as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// When it was read, in milliseconds since 1970; never steps back within one command.
    pub at_ms: u64,
    /// Where it came from.
    pub stream: Stream,
    /// At most 64 KiB, not cut at lines.
    pub bytes: Vec<u8>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Status {
    /// It ended by itself with this code.
    #[error("exit code {0}")]
    Exit(i32),
    /// A signal ended it.
    #[error("ended by signal {0}")]
    Signal(i32),
    /// There is no such program.
    #[error("no program {program:?} in {searched}")]
    NotFound {
        /// The first argument of the command.
        program: String,
        /// The `PATH` that was searched, or the directory that a relative path starts from.
        searched: String,
    },
    /// There is such a file, and it cannot be run.
    #[error("{program:?} cannot be run: {reason}")]
    NotExecutable {
        /// The file that was found.
        program: String,
        /// What the system says.
        reason: String,
    },
    /// The directory to run in is not there.
    #[error("no directory {directory:?}: {reason}")]
    NoDirectory {
        /// The directory.
        directory: String,
        /// What the system says.
        reason: String,
    },
    /// Arguments and environment are more than this system gives a process.
    #[error("{bytes} bytes of arguments and environment are more than this system takes")]
    TooBig {
        /// Their size.
        bytes: u64,
    },
    /// The system refused for a reason that is not the command's: no memory, no more processes.
    #[error("not started: {reason}")]
    NotStarted {
        /// What the system says.
        reason: String,
    },
    /// It was killed and did not end in the time for it: it is stuck in the kernel, or not this worker's to kill.
    #[error("it could not be killed")]
    Stuck,
    /// The process that led the slot died, and the command was killed with it.
    #[error("the slot was lost while it ran")]
    LeaderLost,
}

/// Everything about a command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub status: Status,
    /// From the start to the end of the command itself.
    pub duration: Duration,
    /// Processor time of the command and of the children it waited for.
    pub processor: Duration,
    /// Bytes of output that were handed over.
    pub output_bytes: u64,
    /// Bytes of output past the limit.
    pub dropped_bytes: u64,
    /// Processes other than the command that it left behind or that outlived the grace, and that were ended.
    pub survivors_killed: u64,
    /// Processes that could not be ended in the time for it, such as ones stuck in the kernel.
    pub survivors_left: u64,
}

impl Ended {
    /// An end at which nothing else is known.
    pub(crate) fn bare(status: Status) -> Self {
        Self {
            status,
            duration: Duration::ZERO,
            processor: Duration::ZERO,
            output_bytes: 0,
            dropped_bytes: 0,
            survivors_killed: 0,
            survivors_left: 0,
        }
    }
}
