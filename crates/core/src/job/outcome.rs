//! How an attempt ended, and the worker's report about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::json::{Json, JsonError};
use crate::name::{NameError, WorkerName};

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The work was done.
    Succeeded,
    /// There was nothing to do; a success.
    Skipped,
    /// The work reported a failure.
    Failed,
    /// The environment failed.
    Crashed,
    /// It took longer than allowed.
    TimedOut,
    /// The worker was lost.
    Lost,
    /// It was stopped on request.
    Cancelled,
}

impl Outcome {
    /// All outcomes, in the order of their codes.
    pub const ALL: [Outcome; 7] = [
        Outcome::Succeeded,
        Outcome::Skipped,
        Outcome::Failed,
        Outcome::Crashed,
        Outcome::TimedOut,
        Outcome::Lost,
        Outcome::Cancelled,
    ];

    /// The name used everywhere from SQL to dashboard.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Skipped => "skipped",
            Outcome::Failed => "failed",
            Outcome::Crashed => "crashed",
            Outcome::TimedOut => "timed_out",
            Outcome::Lost => "lost",
            Outcome::Cancelled => "cancelled",
        }
    }

    /// Whether it counts as success.
    pub fn is_success(self) -> bool {
        matches!(self, Outcome::Succeeded | Outcome::Skipped)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why something did not succeed: a short reason to group by, an explanation to read, data to process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A short word or phrase.
    pub reason: String,
    /// A text for users; may be empty.
    pub explanation: String,
    /// Data for programs.
    pub data: Option<Json>,
}

impl Failure {
    /// A failure that the engine describes.
    pub fn new(reason: &str, explanation: impl Into<String>) -> Failure {
        Failure { reason: reason.to_owned(), explanation: explanation.into(), data: None }
    }

    /// The error of an attempt that ended because this worker was lost.
    pub fn lost(reason: &str, explanation: impl Into<String>, worker: &WorkerName) -> Failure {
        // A name has no character that JSON escapes.
        let data = Json::trusted(&format!("{{\"worker\":\"{worker}\"}}"));
        Failure { data: Some(data), ..Failure::new(reason, explanation) }
    }

    /// The worker in an error of [`Failure::lost`].
    pub fn lost_worker(&self) -> Option<WorkerName> {
        let name = self.data.as_ref()?.as_str().strip_prefix("{\"worker\":\"")?.strip_suffix("\"}")?;
        WorkerName::new(name).ok()
    }

    /// Validates a failure sent by a worker or client.
    pub fn checked(reason: &str, explanation: &str, data: Option<&str>) -> Result<Failure, FailureError> {
        bounded("reason", reason, bounds::REASON_BYTES)?;
        bounded("explanation", explanation, bounds::EXPLANATION_BYTES)?;
        if reason.is_empty() {
            return Err(FailureError::Text(NameError::Empty("reason")));
        }
        let data = data.map(|text| Json::parse("data", text, bounds::VALUE_BYTES)).transpose();
        let data = data.map_err(FailureError::Data)?;
        Ok(Failure { reason: reason.to_owned(), explanation: explanation.to_owned(), data })
    }
}

fn bounded(field: &'static str, text: &str, limit: usize) -> Result<(), FailureError> {
    if text.len() > limit {
        return Err(FailureError::Text(NameError::TooLong(field, text.len(), limit)));
    }
    match text.find('\0') {
        Some(at) => Err(FailureError::Text(NameError::Character(field, '\0', at))),
        None => Ok(()),
    }
}

/// Why a failure is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureError {
    /// Reason or explanation is empty, too long or has a NUL.
    Text(NameError),
    /// The data is not JSON or too large.
    Data(JsonError),
}

impl fmt::Display for FailureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureError::Text(error) => error.fmt(f),
            FailureError::Data(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FailureError {}

/// When the worker wants the job to be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Not at all.
    Never,
    /// Immediately, without backoff.
    Now,
    /// After this many milliseconds.
    In(u64),
    /// After this many milliseconds, and this attempt does not count against `max_attempts`.
    Snooze(u64),
}

/// The worker's explicit decision on a retry; it overrides the policy except for `max_attempts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// When to try again.
    pub when: When,
    /// Other params for the next attempt.
    pub params: Option<Json>,
}

/// The worker's report at the end of an attempt. A success carries a value, anything else a failure: never both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The work was done, with this result.
    Succeeded(Json),
    /// There was nothing to do.
    Skipped(Json),
    /// The work reported a failure.
    Failed(Failure, Option<Verdict>),
    /// The environment failed.
    Crashed(Failure, Option<Verdict>),
    /// It took longer than allowed.
    TimedOut(Failure, Option<Verdict>),
    /// It was stopped because a cancel was requested.
    Cancelled,
}

impl Report {
    /// The reported outcome.
    pub fn outcome(&self) -> Outcome {
        match self {
            Report::Succeeded(_) => Outcome::Succeeded,
            Report::Skipped(_) => Outcome::Skipped,
            Report::Failed(..) => Outcome::Failed,
            Report::Crashed(..) => Outcome::Crashed,
            Report::TimedOut(..) => Outcome::TimedOut,
            Report::Cancelled => Outcome::Cancelled,
        }
    }

    /// The failure it carries, if any.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Report::Failed(failure, _) | Report::Crashed(failure, _) | Report::TimedOut(failure, _) => {
                Some(failure)
            }
            Report::Succeeded(_) | Report::Skipped(_) | Report::Cancelled => None,
        }
    }

    /// Rejects delays beyond the limit before anything is decided.
    pub fn check(&self) -> Result<(), DelayError> {
        let verdict = match self {
            Report::Failed(_, v) | Report::Crashed(_, v) | Report::TimedOut(_, v) => v.as_ref(),
            Report::Succeeded(_) | Report::Skipped(_) | Report::Cancelled => None,
        };
        match verdict.map(|v| v.when) {
            Some(When::In(ms) | When::Snooze(ms)) if ms > bounds::DELAY_MS => Err(DelayError(ms)),
            _ => Ok(()),
        }
    }
}

/// A delay beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayError(pub u64);

impl fmt::Display for DelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "retry delay of {} ms is longer than the limit of {} ms", self.0, bounds::DELAY_MS)
    }
}

impl std::error::Error for DelayError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_one_name_and_two_are_successes() {
        let names: Vec<_> = Outcome::ALL.iter().map(|o| o.to_string()).collect();
        assert_eq!(names, ["succeeded", "skipped", "failed", "crashed", "timed_out", "lost", "cancelled"]);
        let good: Vec<_> = Outcome::ALL.into_iter().filter(|o| o.is_success()).collect();
        assert_eq!(good, [Outcome::Succeeded, Outcome::Skipped]);
    }

    #[test]
    fn l18_a_failure_has_a_reason_and_an_explanation_within_bounds() {
        let failure = Failure::checked("boom", "it broke", Some("{\"line\":7}")).unwrap();
        assert_eq!((failure.reason.as_str(), failure.explanation.as_str()), ("boom", "it broke"));
        assert_eq!(failure.data.unwrap().as_str(), "{\"line\":7}");
        let text = |r: &str, e: &str, d| Failure::checked(r, e, d).unwrap_err().to_string();
        assert_eq!(text("", "x", None), "reason is empty");
        assert_eq!(text(&"r".repeat(257), "", None), "reason has 257 bytes, the limit is 256");
        assert_eq!(text("r", &"e".repeat(16_385), None), "explanation has 16385 bytes, the limit is 16384");
        let nul = "reason has the character '\\0' at byte 1, which is not allowed there";
        assert_eq!(text("r\0", "", None), nul);
        assert!(text("r", "", Some("{")).starts_with("data is not JSON"));
        assert!(Failure::checked(&"r".repeat(256), &"e".repeat(16_384), None).is_ok());
    }

    #[test]
    fn reports_know_their_outcome_and_failure() {
        let failure = Failure::new("x", "y");
        let reports = [
            (Report::Succeeded(Json::null()), Outcome::Succeeded, false),
            (Report::Skipped(Json::null()), Outcome::Skipped, false),
            (Report::Failed(failure.clone(), None), Outcome::Failed, true),
            (Report::Crashed(failure.clone(), None), Outcome::Crashed, true),
            (Report::TimedOut(failure.clone(), None), Outcome::TimedOut, true),
            (Report::Cancelled, Outcome::Cancelled, false),
        ];
        for (report, outcome, fails) in reports {
            assert_eq!(report.outcome(), outcome);
            assert_eq!(report.failure(), fails.then_some(&failure));
        }
    }

    #[test]
    fn delays_are_bounded() {
        let report = |when| Report::Failed(Failure::new("x", ""), Some(Verdict { when, params: None }));
        assert_eq!(report(When::In(bounds::DELAY_MS)).check(), Ok(()));
        assert_eq!(report(When::Snooze(bounds::DELAY_MS)).check(), Ok(()));
        let over = bounds::DELAY_MS + 1;
        assert_eq!(report(When::In(over)).check(), Err(DelayError(over)));
        assert_eq!(report(When::Snooze(over)).check(), Err(DelayError(over)));
        assert_eq!(Report::Cancelled.check(), Ok(()));
        assert_eq!(
            DelayError(over).to_string(),
            "retry delay of 31536000001 ms is longer than the limit of 31536000000 ms"
        );
    }
}
