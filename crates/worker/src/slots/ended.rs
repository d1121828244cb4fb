//! How a command ended, and the chunks of its output.

use std::time::Duration;

/// The source of a chunk of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
    /// The slot itself: the line that says that the rest is dropped.
    Notice,
}

/// A chunk of output, byte for byte as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// When it was read, in milliseconds since 1970; never decreases within one command.
    pub at_ms: u64,
    pub stream: Stream,
    /// At most 64 KiB, not split at lines.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Status {
    /// The command exited with this code.
    #[error("exit code {0}")]
    Exit(i32),
    #[error("ended by signal {0}")]
    Signal(i32),
    /// The program was not found.
    #[error("no program {program:?} in {searched}")]
    NotFound {
        program: String,
        /// The `PATH` that was searched, or the directory that a relative path starts from.
        searched: String,
    },
    /// The file was found, and cannot be run.
    #[error("{program:?} cannot be run: {reason}")]
    NotExecutable {
        /// The file that was found.
        program: String,
        /// The error of the system.
        reason: String,
    },
    /// The directory to run in does not exist.
    #[error("no directory {directory:?}: {reason}")]
    NoDirectory {
        directory: String,
        /// The error of the system.
        reason: String,
    },
    /// A file for the standard input or output cannot be opened.
    #[error("no file {file:?}: {reason}")]
    NoFile {
        file: String,
        /// The error of the system.
        reason: String,
    },
    /// Arguments and environment exceed the limit of this system.
    #[error("{bytes} bytes of arguments and environment are more than this system takes")]
    TooBig { bytes: u64 },
    /// The system refused for a reason not related to the command: no memory, too many processes.
    #[error("not started: {reason}")]
    NotStarted {
        /// The error of the system.
        reason: String,
    },
    /// The command was killed and did not end in time: it is stuck in the kernel, or this worker may not kill it.
    #[error("it could not be killed")]
    Stuck,
    /// The supervisor of the slot died, and the command was killed with it.
    #[error("the slot was lost while it ran")]
    LeaderLost,
}

/// The result of a command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: Status,
    /// From the start to the end of the command itself.
    pub duration: Duration,
    /// CPU time of the command and of the children it waited for.
    pub processor: Duration,
    /// Bytes of output that were returned.
    pub output_bytes: u64,
    /// Bytes of output beyond the limit.
    pub dropped_bytes: u64,
    /// Processes besides the command that remained after it or outlived the grace period, and that were killed.
    pub survivors_killed: u64,
    /// Processes that could not be killed in time, for example because they are stuck in the kernel.
    pub survivors_left: u64,
}

impl Ended {
    /// A result with only a status.
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
