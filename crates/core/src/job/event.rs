//! The events of a job.

use std::fmt;

use crate::id::LeaseId;
use crate::job::outcome::{Failure, Report};
use crate::job::retry::{Dice, RetryPolicy};
use crate::json::Json;
use crate::name::WorkerName;
use crate::time::Time;

/// An event of a job. Events of a worker carry its claim and lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A vacancy claims the job.
    Claim {
        /// Fresh random bits.
        lease: LeaseId,
        /// The worker that has the vacancy.
        worker: WorkerName,
    },
    /// The worker accepts the job.
    Accept {
        /// The claim it was given.
        claim: u32,
        /// The lease it was given.
        lease: LeaseId,
    },
    /// The worker reports that the work has begun, or its progress.
    Progress {
        /// The claim it was given.
        claim: u32,
        /// The lease it was given.
        lease: LeaseId,
    },
    /// The worker reports the end of its attempt.
    Report {
        /// The claim it was given.
        claim: u32,
        /// The lease it was given.
        lease: LeaseId,
        /// The report.
        report: &'a Report,
        /// The job's retry policy.
        retry: &'a RetryPolicy,
        /// Random bits for the backoff.
        dice: Dice,
    },
    /// The accept deadline passed, or the worker left before it accepted.
    TakeBack,
    /// The worker's session ended.
    LeaseEnd {
        /// The job's retry policy.
        retry: &'a RetryPolicy,
    },
    /// A cancel was requested.
    Cancel(&'a Failure),
    /// The previous job in line for the key has ended.
    KeyFreed,
    /// A follow-up with these params was requested.
    Again(&'a Json),
    /// The job is held: it is not claimed.
    Hold,
    /// The hold is removed.
    Release,
    /// The request of the job is changed.
    Edit {
        /// The new start time, if it changes; the other changes are in the spec.
        run_at: Option<Time>,
    },
    /// All dependencies have ended in an acceptable state.
    DependenciesMet,
    /// A dependency did not succeed.
    DependencyFailed {
        /// Which dependency, and how it ended.
        failure: &'a Failure,
        /// Whether it was cancelled.
        cancelled: bool,
    },
    /// The worker's attempt waits for its sub-jobs.
    Wait {
        /// The claim it was given.
        claim: u32,
        /// The lease it was given.
        lease: LeaseId,
    },
    /// The sub-jobs have ended, and the worker has room again.
    Resume,
    /// The worker has started work that continues outside.
    StartedExternal {
        /// The claim it was given.
        claim: u32,
        /// The lease it was given.
        lease: LeaseId,
        /// When the external work times out.
        until: Time,
        /// The job's retry policy.
        retry: &'a RetryPolicy,
        /// Random bits for the backoff.
        dice: Dice,
    },
    /// The outcome is reported from outside.
    Complete {
        /// The attempt; none: the current one.
        attempt: Option<u32>,
        /// The report.
        report: &'a Report,
        /// The job's retry policy.
        retry: &'a RetryPolicy,
        /// Random bits for the backoff.
        dice: Dice,
    },
    /// The attempt has exceeded its time limit, or has not reported progress for too long.
    TimeOut {
        /// Which limit; it becomes the job's error.
        failure: &'a Failure,
        /// The job's retry policy.
        retry: &'a RetryPolicy,
        /// Random bits for the backoff.
        dice: Dice,
        /// Whether the worker's grace period has passed, so that the attempt is given up.
        forced: bool,
    },
}

/// The names of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventName {
    /// [`Event::Claim`]
    Claim,
    /// [`Event::Accept`]
    Accept,
    /// [`Event::Progress`]
    Progress,
    /// [`Event::Report`]
    Report,
    /// [`Event::TakeBack`]
    TakeBack,
    /// [`Event::LeaseEnd`]
    LeaseEnd,
    /// [`Event::Cancel`]
    Cancel,
    /// [`Event::KeyFreed`]
    KeyFreed,
    /// [`Event::Again`]
    Again,
    /// [`Event::Hold`]
    Hold,
    /// [`Event::Release`]
    Release,
    /// [`Event::Edit`]
    Edit,
    /// [`Event::DependenciesMet`]
    DependenciesMet,
    /// [`Event::DependencyFailed`]
    DependencyFailed,
    /// [`Event::Wait`]
    Wait,
    /// [`Event::Resume`]
    Resume,
    /// [`Event::StartedExternal`]
    StartedExternal,
    /// [`Event::Complete`]
    Complete,
    /// [`Event::TimeOut`]
    TimeOut,
}

impl EventName {
    /// The name shown to users.
    pub fn as_str(self) -> &'static str {
        match self {
            EventName::Claim => "claim",
            EventName::Accept => "accept",
            EventName::Progress => "progress",
            EventName::Report => "report",
            EventName::TakeBack => "take back",
            EventName::LeaseEnd => "lease end",
            EventName::Cancel => "cancel",
            EventName::KeyFreed => "key freed",
            EventName::Again => "again",
            EventName::Hold => "hold",
            EventName::Release => "release",
            EventName::Edit => "edit",
            EventName::DependenciesMet => "dependencies met",
            EventName::DependencyFailed => "dependency failed",
            EventName::Wait => "wait",
            EventName::Resume => "resume",
            EventName::StartedExternal => "started external",
            EventName::Complete => "complete",
            EventName::TimeOut => "time out",
        }
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Event<'_> {
    /// The event's name.
    pub fn name(&self) -> EventName {
        match self {
            Event::Claim { .. } => EventName::Claim,
            Event::Accept { .. } => EventName::Accept,
            Event::Progress { .. } => EventName::Progress,
            Event::Report { .. } => EventName::Report,
            Event::TakeBack => EventName::TakeBack,
            Event::LeaseEnd { .. } => EventName::LeaseEnd,
            Event::Cancel(_) => EventName::Cancel,
            Event::KeyFreed => EventName::KeyFreed,
            Event::Again(_) => EventName::Again,
            Event::Hold => EventName::Hold,
            Event::Release => EventName::Release,
            Event::Edit { .. } => EventName::Edit,
            Event::DependenciesMet => EventName::DependenciesMet,
            Event::DependencyFailed { .. } => EventName::DependencyFailed,
            Event::Wait { .. } => EventName::Wait,
            Event::Resume => EventName::Resume,
            Event::StartedExternal { .. } => EventName::StartedExternal,
            Event::Complete { .. } => EventName::Complete,
            Event::TimeOut { .. } => EventName::TimeOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_a_name_people_read() {
        let (claim, lease) = (1, LeaseId(1));
        let (report, failure, params) = (Report::Cancelled, Failure::new("x", ""), Json::null());
        let retry = RetryPolicy::once();
        let events = [
            Event::Claim { lease, worker: WorkerName::new("w").unwrap() },
            Event::Accept { claim, lease },
            Event::Progress { claim, lease },
            Event::Report { claim, lease, report: &report, retry: &retry, dice: Dice(0) },
            Event::TakeBack,
            Event::LeaseEnd { retry: &retry },
            Event::Cancel(&failure),
            Event::KeyFreed,
            Event::Again(&params),
            Event::Hold,
            Event::Release,
            Event::Edit { run_at: None },
            Event::DependenciesMet,
            Event::DependencyFailed { failure: &failure, cancelled: false },
            Event::Wait { claim, lease },
            Event::Resume,
            Event::StartedExternal { claim, lease, until: Time::EPOCH, retry: &retry, dice: Dice(0) },
            Event::Complete { attempt: None, report: &report, retry: &retry, dice: Dice(0) },
            Event::TimeOut { failure: &failure, retry: &retry, dice: Dice(0), forced: false },
        ];
        let names = events.map(|event| event.name().to_string());
        let expected = "claim, accept, progress, report, take back, lease end, cancel, key freed, again, hold, \
                        release, edit, dependencies met, dependency failed, wait, resume, started external, \
                        complete, time out";
        assert_eq!(names.join(", "), expected);
    }
}
