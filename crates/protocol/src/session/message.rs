//! The messages of a session. A frame is a list of them; each is an object with one field, its kind.

use jobhall_core::{AttemptId, LeaseId};
use serde::{Deserialize, Serialize};

use super::text;
use super::{AssignedJob, OutcomeReport};
use crate::job::Indicator;
use crate::log_frame::LogStream;
use crate::problem::Code;
use crate::sub_job::{Called, SubJobState};
use crate::submit::SubmitJob;
use crate::timestamp::Timestamp;

/// The version of the session that this build speaks.
pub const SESSION_VERSION: u32 = 1;
/// The feature by which the hall answers accepts and progress too, not only what a worker must wait for.
pub const FEATURE_MOVED: &str = "moved";
/// The features that this build knows.
pub const SESSION_FEATURES: [&str; 1] = [FEATURE_MOVED];

/// The first message of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The version it speaks.
    pub version: u32,
    /// What it would like beyond that version; what the hall does not know is left out of its welcome.
    #[serde(default)]
    pub features: Vec<String>,
    /// What it can do, such as `os=linux, gpu=2`.
    #[serde(default)]
    pub abilities: String,
    /// Which jobs it takes, such as `queue=mail`.
    #[serde(default)]
    pub accepts: String,
    /// What it still has from an earlier session.
    #[serde(default)]
    pub attempts: Vec<AttemptRef>,
}

impl Default for Hello {
    fn default() -> Hello {
        let (abilities, accepts) = (String::new(), String::new());
        Hello { version: SESSION_VERSION, features: Vec::new(), abilities, accepts, attempts: Vec::new() }
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

/// The hall's answer to a hello. Cancels that wait for kept attempts follow as messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that both speak.
    pub version: u32,
    /// The features that both know.
    pub features: Vec<String>,
    /// The name under which the hall knows the worker: that of its token.
    #[serde(default)]
    pub worker: String,
    /// How long the session and all its leases live without a renewal.
    pub lease_ms: u64,
    /// These attempts go on.
    #[serde(with = "text::attempts")]
    pub kept: Vec<AttemptId>,
    /// These are lost: stop them, and report nothing.
    #[serde(with = "text::attempts")]
    pub lost: Vec<AttemptId>,
}

/// What a worker says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToServer {
    /// It is there. Comes first, and once.
    Hello(Hello),
    /// So many jobs in all may be assigned to it, counted from the beginning of the session: those it was given, and
    /// those it has room for now. Said twice it means the same; a lower number withdraws what was not used.
    Credit {
        /// Jobs since the session began. Below zero where a worker has come back with more attempts than it has slots,
        /// because some of them wait: those are counted as if they did not.
        total: i64,
    },
    /// It has the job.
    Accept {
        /// Which attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
    },
    /// How far it is.
    Progress {
        /// Which attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// The measures that moved.
        #[serde(default)]
        indicators: Vec<Indicator>,
    },
    /// A piece of the attempt's log. Answered by `logged`.
    Log {
        /// Which attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// Where in the log it begins. A piece that is there already is answered as at first.
        offset: u64,
        /// Which output it came from.
        stream: LogStream,
        /// The bytes: base64 in JSON, binary in MessagePack.
        #[serde(with = "text::bytes")]
        bytes: Vec<u8>,
    },
    /// How it ended. Answered by `moved`, once its log and the outcome are durable.
    Outcome {
        /// Which attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// The outcome with its value, or its reason and verdict.
        report: OutcomeReport,
    },
    /// The attempt asks for a job. Answered by `sub_job`.
    SubJob {
        /// Which attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// What it calls the job.
        call: String,
        /// The job; in the queue of the one that asks, if it names none.
        job: Box<SubmitJob>,
    },
    /// The attempt waits for jobs that it has asked for; its slot is free meanwhile. Answered by `resumed` when they are
    /// over and there is room for it again. To be said again on a new connection.
    Wait {
        /// Which attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Its lease.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// Which jobs; all that it has asked for if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        jobs: Option<Vec<u64>>,
    },
    /// It is still there: the session and all its leases live on. Answered by `renewed`.
    Renew {},
    /// Answered by `pong` with the same number.
    Ping {
        /// Any number.
        n: u64,
    },
    /// It leaves for good: what it still has is lost at once.
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
    /// `log`.
    Log,
    /// `outcome`.
    Outcome,
    /// `sub_job`.
    SubJob,
    /// `wait`.
    Wait,
    /// `renew`.
    Renew,
    /// `leave`.
    Leave,
}

/// What the hall says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// The session has begun. Comes first.
    Welcome(Welcome),
    /// Here is a job; it is durably this worker's.
    Assign {
        /// Names the attempt in every later word about it.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// The secret to show with every later word.
        #[serde(with = "text::lease")]
        lease: LeaseId,
        /// What the job's own process may show to the hall; it dies with the lease.
        token: String,
        /// The job.
        job: AssignedJob,
    },
    /// Stop this attempt and report `cancelled`.
    Cancel {
        /// Which.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// Whether nobody asked for it, but its time is over.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        timed_out: bool,
    },
    /// The job that answers a call.
    SubJob {
        /// Which attempt called.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// What it called the job.
        call: String,
        /// The job.
        job: Called,
    },
    /// The jobs that this attempt waited for are over, and it goes on.
    Resumed {
        /// Which attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// The jobs.
        jobs: Vec<SubJobState>,
    },
    /// This attempt is no longer this worker's: stop it, and report nothing.
    Revoke {
        /// Which.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
    },
    /// The job's state after a word on its attempt.
    Moved {
        /// Which attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// After which word.
        to: Word,
        /// The state.
        state: String,
    },
    /// A piece of log was taken.
    Logged {
        /// Which attempt.
        #[serde(with = "text::attempt")]
        attempt: AttemptId,
        /// The log's length now.
        len: u64,
        /// Whether it has reached its limit, so that further bytes are dropped.
        truncated: bool,
    },
    /// The session lives for another term.
    Renewed {},
    /// Something was refused; nothing of it was stored.
    Refused {
        /// What.
        to: Word,
        /// About which attempt, if it was about one.
        #[serde(default, with = "text::maybe_attempt", skip_serializing_if = "Option::is_none")]
        attempt: Option<AttemptId>,
        /// Why, as a word for programs.
        code: Code,
        /// Why, in words.
        detail: String,
    },
    /// The answer to a ping.
    Pong {
        /// Its number.
        n: u64,
        /// The hall's clock.
        at: Timestamp,
    },
    /// The hall is stopping: nothing more is assigned, the connection ends, the leases live on. Come back.
    Drain {},
}
