//! Errors shown to users: what happened, why, and how to fix it.

use std::fmt;

use jobhall_client::ClientError;
use jobhall_protocol::Code;

use crate::exit::Exit;

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    pub what: String,
    /// Why, if known.
    pub why: Option<String>,
    /// How to fix it.
    pub fix: Option<String>,
}

/// The result of a command.
pub type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    /// A failure without a reason.
    pub fn new(exit: Exit, what: impl Into<String>) -> Failure {
        Failure { exit, what: what.into(), why: None, fix: None }
    }

    /// An error on the command line or in a file.
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, what)
    }

    #[must_use]
    pub fn why(self, why: impl Into<String>) -> Failure {
        Failure { why: Some(why.into()), ..self }
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Failure {
        Failure { fix: Some(fix.into()), ..self }
    }

    /// Adds what was being done.
    #[must_use]
    pub fn while_doing(self, what: &str) -> Failure {
        Failure { what: format!("{what}: {}", self.what), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for (word, text) in [("why", &self.why), ("fix", &self.fix)] {
            if let Some(text) = text {
                write!(f, "\n  {word}: {text}")?;
            }
        }
        Ok(())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let exit = Exit::of_error(&error);
        match error {
            ClientError::Unreachable { url, why } => {
                Failure::new(exit, format!("no server answers at {url}"))
                    .why(why)
                    .fix("start one with `jobhall up`, or name another with --server URL or JOBHALL_SERVER")
            }
            ClientError::Untrusted { url, why } => {
                Failure::new(exit, format!("the certificate of {url} is not trusted")).why(why).fix(
                    "name the authority that signed it with --ca FILE or JOBHALL_CA, \
                     and use the host name of the certificate in --server URL",
                )
            }
            ClientError::Trust(what) => Failure::new(exit, what),
            ClientError::Protocol(why) => Failure::new(exit, "the reply did not come from a Jobhall server")
                .why(why)
                .fix("check the address with `jobhall config show --origin`"),
            ClientError::Problem(problem) => {
                let request = problem.request_id;
                let failure = Failure::new(exit, problem.detail);
                let failure = match fix_of(problem.code) {
                    Some(fix) => failure.fix(fix),
                    None => failure,
                };
                let broken = problem.code == Code::Internal && !request.is_empty();
                if broken {
                    failure.why(format!("see request {request} in the server's log"))
                } else {
                    failure
                }
            }
        }
    }
}

fn fix_of(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::Unauthorized => {
            "give a token with JOBHALL_TOKEN, JOBHALL_TOKEN_FILE or --token; \
             on the server's machine it is in <data>/admin.token (--data)"
        }
        Code::TooManyRequests => "wait a minute, or give the right token with JOBHALL_TOKEN",
        Code::Forbidden => "use a token whose role allows this",
        Code::KeyHeld => {
            "choose another --key, or select another behaviour with --on-duplicate join|supersede|run-again"
        }
        Code::IdempotencyKeyReused => "use a new --idempotency-key for a new request",
        Code::DependencyUnmet => {
            "name open or succeeded jobs with --after, or accept any outcome with --after-any"
        }
        Code::GroupClosed => "create another group with `jobhall group create`",
        Code::PreconditionFailed => "read the current version and try again",
        Code::Unavailable => "the server is busy or stopping: try again in a moment",
        Code::NoLeader => {
            "a node that reaches the database becomes leader within seconds; check the database connection in the nodes' logs"
        }
        Code::OutcomeUnknown => "check whether it was done before you try again",
        Code::StorageFull => "free disk space in the server's data directory",
        _ => return None,
    })
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        // The reader closed the output early: this is not a failure.
        let exit = if error.kind() == std::io::ErrorKind::BrokenPipe { Exit::Ok } else { Exit::Unexpected };
        Failure::new(exit, format!("failed to write the output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_why_and_how_to_fix_it() {
        let url = "http://127.0.0.1:7450".to_owned();
        let failure = Failure::from(ClientError::Unreachable { url, why: "connection refused".to_owned() });
        assert_eq!(
            failure.to_string(),
            "no server answers at http://127.0.0.1:7450\n  why: connection refused\n  fix: start one with \
             `jobhall up`, or name another with --server URL or JOBHALL_SERVER"
        );
        assert_eq!(failure.exit, Exit::Unreachable);
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::from(closed).exit, Exit::Ok);
    }
}
