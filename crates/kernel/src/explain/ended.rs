//! Why a completed job did not succeed.

use std::fmt;

use jobhall_core::{Dependency, Failure, Job, JobId, Outcome, State, StateName};

/// Characters of an error that are part of a text; the data has all of them.
const ERROR_CHARS: usize = 300;

/// How a job ended without success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndWhy {
    /// Its state.
    pub state: StateName,
    /// The outcome of its last attempt, or of the job if there was none.
    pub outcome: Outcome,
    /// Its error.
    pub error: Failure,
    /// Attempts that count against `max_attempts`.
    pub tries: u32,
    /// Its `max_attempts`.
    pub max_attempts: u16,
    /// Attempts that ended because their worker was lost; they do not count.
    pub lost: u16,
    /// Whether a worker accepted it at least once, so that there may be a log.
    pub ran: bool,
    /// The dependency that ended it.
    pub dependency: Option<JobId>,
}

impl EndWhy {
    /// None for a job that is open or has succeeded.
    #[must_use]
    pub fn of(job: &Job) -> Option<EndWhy> {
        let status = &job.status;
        let (State::Failed(end) | State::Crashed(end) | State::Cancelled(end)) = &status.state else {
            return None;
        };
        let dependency = Dependency::cause(&end.failure).filter(|id| job.spec.after.contains(id));
        Some(EndWhy {
            state: status.state.name(),
            outcome: end.outcome,
            error: end.failure.clone(),
            tries: status.tries(),
            max_attempts: job.spec.retry.max_attempts,
            lost: status.lost,
            ran: status.attempt > 0,
            dependency,
        })
    }

    /// Attempts that failed and attempts that were lost are counted apart.
    fn attempt(&self, ended: &str) -> String {
        let EndWhy { tries, max_attempts, .. } = self;
        let last = if *tries < u32::from(*max_attempts) { ", and it is not retried" } else { "" };
        let lost = match self.lost {
            0 => String::new(),
            1 => " (1 more attempt was lost)".to_owned(),
            n => format!(" ({n} more attempts were lost)"),
        };
        format!("attempt {tries} of {max_attempts} {ended}{lost}{last}")
    }
}

impl fmt::Display for EndWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = error_text(&self.error);
        if self.dependency.is_some() {
            return f.write_str(&self.error.explanation);
        }
        if self.state == StateName::Cancelled {
            return write!(f, "it was cancelled: {error}");
        }
        match (self.outcome, self.ran) {
            (Outcome::Lost, true) => {
                let attempts = if self.lost == 1 { "attempt was" } else { "attempts were" };
                write!(f, "{} {attempts} lost: {error}", self.lost)
            }
            (_, false) => write!(f, "it has {}: {error}", self.state),
            (Outcome::TimedOut, true) => write!(f, "{}: {error}", self.attempt("timed out")),
            (Outcome::Crashed, true) => write!(f, "{}: {error}", self.attempt("crashed")),
            (_, true) => write!(f, "{}: {error}", self.attempt("failed")),
        }
    }
}

/// The reason and the first line of the explanation.
fn error_text(error: &Failure) -> String {
    let line = error.explanation.lines().next().unwrap_or_default();
    let mut text = match (error.reason.as_str(), line) {
        (reason, "") => reason.to_owned(),
        ("cancelled", line) => line.to_owned(),
        (reason, line) => format!("{reason}: {line}"),
    };
    if let Some((at, _)) = text.char_indices().nth(ERROR_CHARS) {
        text.truncate(at);
        text.push('…');
    }
    text
}
