//! The exit codes. This table is a public contract: `jobhall help exit-codes` prints it.

use jobhall_client::ClientError;
use jobhall_protocol::{Code, Job};

/// The exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    Ok = 0,
    Unexpected = 1,
    /// The command line or the configuration is invalid.
    Usage = 2,
    /// The server could not be reached.
    Unreachable = 3,
    /// The token is missing or does not permit the request.
    Auth = 4,
    NotFound = 5,
    /// The current state does not permit the request.
    Conflict = 6,
    /// The job ran and failed.
    Failed = 100,
    Cancelled = 101,
    TimedOut = 102,
    /// The job was lost or crashed.
    Crashed = 103,
    /// Nothing matched.
    Nothing = 104,
    /// Interrupted from the keyboard.
    Interrupted = 130,
}

impl Exit {
    /// All codes with their meanings, in order.
    pub const ALL: [(Exit, &'static str); 13] = [
        (Exit::Ok, "success"),
        (Exit::Unexpected, "unexpected error"),
        (Exit::Usage, "wrong command line, file or configuration"),
        (Exit::Unreachable, "the server could not be reached"),
        (Exit::Auth, "no token, or the token does not permit this"),
        (Exit::NotFound, "there is no such job, type or attempt"),
        (Exit::Conflict, "conflict: key held, already ended, or changed by another client"),
        (Exit::Failed, "the job ran and failed"),
        (Exit::Cancelled, "the job was cancelled"),
        (Exit::TimedOut, "the job timed out"),
        (Exit::Crashed, "the job was lost or crashed"),
        (Exit::Nothing, "nothing matched"),
        (Exit::Interrupted, "interrupted by Ctrl-C"),
    ];

    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The exit code for a job; none while it is pending.
    #[must_use]
    pub fn of_job(job: &Job) -> Option<Exit> {
        Exit::of_end(&job.state, job.attempts.last().and_then(|attempt| attempt.outcome.as_deref()))
    }

    /// The exit code for a job in this state with this outcome of its last attempt; none while it is pending.
    #[must_use]
    pub fn of_end(state: &str, last: Option<&str>) -> Option<Exit> {
        Some(match (state, last) {
            ("succeeded", _) => Exit::Ok,
            ("cancelled", _) => Exit::Cancelled,
            ("failed" | "crashed", Some("timed_out")) => Exit::TimedOut,
            ("failed", _) => Exit::Failed,
            ("crashed", _) => Exit::Crashed,
            _ => return None,
        })
    }

    /// The exit code for several jobs: the most severe one.
    #[must_use]
    pub fn gravest(exits: impl IntoIterator<Item = Exit>) -> Exit {
        let weight = |exit: &Exit| match exit {
            Exit::Ok => 0,
            Exit::Cancelled => 1,
            Exit::TimedOut => 2,
            Exit::Crashed => 3,
            Exit::Failed => 4,
            _ => 5,
        };
        exits.into_iter().max_by_key(weight).unwrap_or(Exit::Ok)
    }

    /// The exit code for an error of the client.
    #[must_use]
    pub fn of_error(error: &ClientError) -> Exit {
        match error {
            ClientError::Unreachable { .. } | ClientError::Untrusted { .. } => Exit::Unreachable,
            ClientError::Trust(_) => Exit::Usage,
            ClientError::Protocol(_) => Exit::Unexpected,
            ClientError::Problem(problem) => match problem.code {
                Code::BadRequest | Code::TooLarge | Code::MethodNotAllowed | Code::RangeNotSatisfiable => {
                    Exit::Usage
                }
                Code::QuerySyntax
                | Code::QueryTooLong
                | Code::QueryTooLarge
                | Code::UnknownCommand
                | Code::WrongArgument
                | Code::WrongPlace
                | Code::RecipeCycle
                | Code::UnknownSource
                | Code::FormatNotOffered
                | Code::NotSerialisable => Exit::Usage,
                Code::StepFailed | Code::QueryCycle => Exit::Failed,
                Code::StepCrashed => Exit::Crashed,
                Code::StepCancelled => Exit::Cancelled,
                Code::Unauthorized | Code::Forbidden | Code::TooManyRequests => Exit::Auth,
                Code::NotFound => Exit::NotFound,
                Code::KeyHeld
                | Code::IdempotencyKeyReused
                | Code::LeaseLost
                | Code::DependencyUnmet
                | Code::GroupClosed
                | Code::NotComputed
                | Code::VersionChanged
                | Code::Conflict
                | Code::PreconditionFailed => Exit::Conflict,
                Code::Timeout | Code::Misdirected | Code::NoLeader | Code::OutcomeUnknown => {
                    Exit::Unreachable
                }
                Code::Unavailable | Code::StorageFull | Code::Internal => Exit::Unexpected,
            },
        }
    }

    /// The table as `jobhall help exit-codes` prints it.
    #[must_use]
    pub fn table() -> String {
        let lines = Exit::ALL.iter().map(|(exit, meaning)| format!("{:>5}  {meaning}\n", exit.code()));
        format!("Exit codes\n\n{}", lines.collect::<String>())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use jobhall_protocol::Problem;

    /// A job in a state, whose attempts ended with these outcomes.
    pub fn job(state: &str, outcomes: &[&str]) -> Job {
        let at = "2026-11-15T09:43:00.250Z";
        let attempts: Vec<_> = outcomes
            .iter()
            .map(|outcome| {
                serde_json::json!({"id": "7-1", "worker": "w", "assigned_at": at, "accepted_at": at,
                    "started_at": at, "ended_at": at, "outcome": outcome})
            })
            .collect();
        let job = serde_json::json!({"id": 7, "type": "exec", "key": null, "queue": "default", "params": {},
            "needs": "", "priority": 100, "state": state, "attempt": outcomes.len(), "max_attempts": 1,
            "run_at": at, "created_at": at, "updated_at": at, "started_at": null, "completed_at": null,
            "worker": null, "error": null, "retry_of": null, "attempts": attempts});
        serde_json::from_str(&job.to_string()).unwrap()
    }

    #[test]
    fn the_codes_are_those_of_the_contract() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 100, 101, 102, 103, 104, 130]);
    }

    #[test]
    fn a_verdict_is_told_from_state_and_last_outcome() {
        let of = |state: &str, outcomes: &[&str]| Exit::of_job(&job(state, outcomes));
        assert_eq!(of("succeeded", &["succeeded"]), Some(Exit::Ok));
        assert_eq!(of("failed", &["failed"]), Some(Exit::Failed));
        assert_eq!(of("failed", &["failed", "timed_out"]), Some(Exit::TimedOut));
        assert_eq!(of("crashed", &["timed_out", "lost"]), Some(Exit::Crashed));
        assert_eq!(of("crashed", &[]), Some(Exit::Crashed));
        assert_eq!(of("cancelled", &[]), Some(Exit::Cancelled));
        for pending in ["queued", "running", "retrying", "a_state_to_come"] {
            assert_eq!(of(pending, &["failed"]), None);
        }
    }

    #[test]
    fn the_gravest_verdict_counts() {
        assert_eq!(Exit::gravest([]), Exit::Ok);
        assert_eq!(Exit::gravest([Exit::Ok, Exit::Cancelled, Exit::Ok]), Exit::Cancelled);
        assert_eq!(Exit::gravest([Exit::Crashed, Exit::Failed, Exit::Cancelled]), Exit::Failed);
    }

    #[test]
    fn errors_have_the_codes_of_the_contract() {
        let problem = |code| {
            let (kind, title, detail) = (String::new(), String::new(), String::new());
            ClientError::Problem(Problem {
                kind,
                title,
                status: 400,
                detail,
                code,
                request_id: String::new(),
                query: None,
            })
        };
        for (code, exit) in [
            (Code::BadRequest, 2),
            (Code::Unauthorized, 4),
            (Code::Forbidden, 4),
            (Code::NotFound, 5),
            (Code::KeyHeld, 6),
            (Code::Conflict, 6),
            (Code::NotComputed, 6),
            (Code::UnknownCommand, 2),
            (Code::StepFailed, 100),
            (Code::StepCancelled, 101),
            (Code::StepCrashed, 103),
            (Code::Internal, 1),
        ] {
            assert_eq!(Exit::of_error(&problem(code)).code(), exit, "{code:?}");
        }
        let nobody = ClientError::Unreachable { url: String::new(), why: String::new() };
        assert_eq!(Exit::of_error(&nobody).code(), 3);
    }
}
