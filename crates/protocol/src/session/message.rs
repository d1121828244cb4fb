//! The messages of a session. A frame is a list of them; each is an object with one field, its kind.

use jobhall_core::{AttemptId, Indicator, LeaseId};
use serde::{Deserialize, Serialize};

use super::text;
use super::{AssignedJob, OutcomeReport};
use crate::format::timestamp::Timestamp;
use crate::job::sub_job::{Called, SubJobState};
use crate::job::submit::SubmitJob;
use crate::log_frame::LogStream;
use crate::problem::Code;

/// The version of the session protocol.
pub const SESSION_VERSION: u32 = 1;
/// The feature by which the server also answers accepts and progress, not only messages that a worker must wait for.
pub const FEATURE_MOVED: &str = "moved";
/// The feature by which the process of the worker exits when an operator drains the worker.
pub const FEATURE_FINISH: &str = "finish";
/// The feature by which a worker changes what it offers within a session.
pub const FEATURE_ABILITIES: &str = "abilities";
/// The features of this version.
pub const SESSION_FEATURES: [&str; 3] = [FEATURE_MOVED, FEATURE_FINISH, FEATURE_ABILITIES];

/// The first message of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The protocol version of the worker.
    pub version: u32,
    /// Requested features; features that the server does not know are missing in its welcome.
    #[serde(default)]
    pub features: Vec<String>,
    /// Abilities of the worker, such as `os=linux, gpu=2`.
    #[serde(default)]
    pub abilities: String,
    /// Filter of accepted jobs, such as `queue=mail`.
    #[serde(default)]
    pub accepts: String,
    /// The attempts that it still has from an earlier session.
    #[serde(default)]
    pub attempts: Vec<AttemptRef>,
    /// A name of this process, the same in every session of it. While it is connected, another process cannot connect
    /// as the same worker. Without it, that is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The name of the worker, if it is to be checked: the name of its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How long the session lives without a renewal, in milliseconds: 3 seconds to the server's lease, which is the
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Whether the worker's process began anew: its earlier sessions without a connection end at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

impl Default for Hello {
    fn default() -> Hello {
        let (abilities, accepts) = (String::new(), String::new());
        Hello {
            version: SESSION_VERSION,
            features: Vec::new(),
            abilities,
            accepts,
            attempts: Vec::new(),
            instance: None,
            worker: None,
            lease_ms: None,
            fresh: false,
        }
    }
}

/// One attempt with its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptRef {
    /// The attempt.
    #[serde(with = "text::attempt")]
    pub attempt: AttemptId,
    /// Its lease.
    #[serde(with = "text::lease")]
    pub lease: LeaseId,
}

/// The server's answer to a hello. Pending cancels of kept attempts follow as messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The protocol version of the session.
    pub version: u32,
    /// The features that both sides support.
    pub features: Vec<String>,
    /// The name of the worker on the server: the name of its token.
    #[serde(default)]
    pub worker: String,
    /// Lifetime of the session and of all its leases without a renewal.
    pub lease_ms: u64,
    /// Attempts that continue.
    #[serde(with = "text::attempts")]
    pub kept: Vec<AttemptId>,
    /// Lost attempts: stop them, and report nothing.
    #[serde(with = "text::attempts")]
    pub lost: Vec<AttemptId>,
}

/// Messages of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToServer {
    /// The worker connects. Must be the first message, and is sent once.
    Hello(Hello),
    /// The total number of jobs that may be assigned, counted from the beginning of the session: those already
    /// assigned plus those that fit now. Idempotent; a lower number withdraws unused credit.
    Credit {
        /// Number of jobs since the session began. Negative if a worker reconnects with more attempts than slots
        /// because some of them wait: those count as not waiting.
        total: i64,
    },
    /// The worker accepts the job.
    Accept {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// Whether it is answered by `moved`. A worker waits for that answer before it starts a job that runs at most
        /// once: the accept of such a job is durable when it is answered.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answer: bool,
    },
    /// Progress of an attempt.
    Progress {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// The indicators that changed.
        #[serde(default)]
        indicators: Vec<Indicator>,
    },
    /// A chunk of the attempt's log, or a note. Answered by `logged`.
    Log {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// Offset of its first byte in the log. A repeated chunk is answered like the first time. Notes have offsets
        /// of their own.
        offset: u64,
        /// Stream of the chunk. A note is one line of JSON of at most 16 KiB that ends with a line feed.
        stream: LogStream,
        /// The bytes: base64 in JSON, binary in MessagePack.
        #[serde(with = "text::bytes")]
        bytes: Vec<u8>,
    },
    /// The outcome of an attempt. Answered by `moved`, once its log and the outcome are durable.
    Outcome {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// The outcome with its value, or with its error and retry.
        report: OutcomeReport,
    },
    /// The attempt requests a sub-job. Answered by `sub_job`.
    SubJob {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// The name of the sub-job.
        call: String,
        /// The job. Its queue is the queue of its parent; another one is refused.
        job: Box<SubmitJob>,
    },
    /// The attempt waits for sub-jobs; its slot is free meanwhile. Answered by `resumed` when they have ended and a
    /// slot is free. Must be repeated on a new connection.
    Wait {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// The jobs; all its sub-jobs if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        jobs: Option<Vec<u64>>,
    },
    /// The worker offers something else from now on. Its attempts go on. Answered by `abilities_set`, after which all
    /// assignments were decided on what it offers now, except those that were being stored.
    Abilities {
        /// Abilities of the worker, as in the hello.
        abilities: String,
        /// Filter of accepted jobs, as in the hello.
        accepts: String,
    },
    /// Renews the session and all its leases. Answered by `renewed`.
    Renew {},
    /// Answered by `pong` with the same number.
    Ping {
        /// Any number.
        n: u64,
    },
    /// The worker leaves permanently: the attempts it still has are lost immediately.
    Leave {},
}

/// A kind of message that can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// `hello`.
    Hello,
    /// `credit`.
    Credit,
    /// `accept`.
    Accept,
    /// `progress`.
    Progress,
    /// `log` with output.
    Log,
    /// `log` with a note.
    Note,
    /// `outcome`.
    Outcome,
    /// `sub_job`.
    SubJob,
    /// `wait`.
    Wait,
    /// `abilities`.
    Abilities,
    /// `renew`.
    Renew,
    /// `leave`.
    Leave,
}

impl Word {
    /// The kind of a `log` message with this stream.
    #[must_use]
    pub fn of_log(stream: LogStream) -> Word {
        match stream {
            LogStream::Stdout | LogStream::Stderr => Word::Log,
            LogStream::Note => Word::Note,
        }
    }
}

/// Messages of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// The session has begun. Always the first message.
    Welcome(Welcome),
    /// A job is assigned to the worker, durably.
    Assign {
        /// The attempt, for later messages about it.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// The lease, a secret that later messages must include.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// A token for the process of the job; valid as long as the lease.
        token: String,
        /// The job.
        job: AssignedJob,
    },
    /// Stop this attempt and report `cancelled`.
    Cancel {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Whether the cause is a timeout and not a request.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        timed_out: bool,
    },
    /// The sub-job that was requested.
    SubJob {
        /// The attempt that requested it.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// The name of the sub-job.
        call: String,
        /// The job.
        job: Called,
    },
    /// The jobs that the attempt waited for have ended, and it continues.
    Resumed {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// The sub-jobs.
        jobs: Vec<SubJobState>,
    },
    /// The attempt no longer belongs to this worker: stop it, and report nothing.
    Revoke {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
    },
    /// The state of the job after a message about its attempt.
    Moved {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// The kind of message.
        to: Word,
        /// The state.
        state: String,
    },
    /// A log chunk was accepted.
    Logged {
        /// The attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// The length of the log.
        len: u64,
        /// Whether the log has reached its limit, so that further bytes are dropped.
        truncated: bool,
        /// Whether it was a note. Its length is that of the notes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        note: bool,
    },
    /// What the worker offers was replaced.
    AbilitiesSet {},
    /// The session was renewed for another term.
    Renewed {},
    /// A message was refused; none of it was stored.
    Refused {
        /// The kind of message.
        to: Word,
        /// The attempt, if the message was about one.
        #[serde(default, with = "text::maybe_attempt", skip_serializing_if = "Option::is_none")]
        attempt: Option<AttemptId>,
        /// Code for programs.
        code: Code,
        /// Explanation for people.
        detail: String,
    },
    /// The answer to a ping.
    Pong {
        /// Its number.
        n: u64,
        /// The server's clock.
        at: Timestamp,
    },
    /// An operator drains this worker: take no more jobs, finish the current ones, leave and exit. Only sent to workers
    /// that requested the feature `finish`; may be repeated.
    Finish {},
    /// The server is stopping: nothing more is assigned, the connection ends, the leases remain. Reconnect.
    Drain {},
}
