//! What can happen to a job.

use std::fmt;

use crate::id::LeaseId;
use crate::json::Json;
use crate::name::WorkerName;
use crate::outcome::{Failure, Report};
use crate::retry::{Dice, RetryPolicy};

/// Something that happens to a job. Events of a worker show its claim and lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A vacancy takes it.
    Claim {
        /// Fresh random bits.
        lease: LeaseId,
        /// Whose vacancy it is.
        worker: WorkerName,
    },
    /// The worker says that it has the job.
    Accept {
        /// The claim it was given.
        claim: u32,
        /// The lease it was given.
        lease: LeaseId,
    },
    /// The worker reports progress.
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
        /// What it says.
        report: &'a Report,
        /// The job's retry policy.
        retry: &'a RetryPolicy,
        /// Chance for the backoff.
        dice: Dice,
    },
    /// The accept deadline passed, or the worker left before it accepted.
    TakeBack,
    /// The worker's session ended.
    LeaseEnd,
    /// Someone asks for the end of the job.
    Cancel(&'a Failure),
    /// The job before it in line for the key has ended.
    Release,
    /// Someone asks for a follow-up with these params.
    Again(&'a Json),
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
    /// [`Event::Release`]
    Release,
    /// [`Event::Again`]
    Again,
}

impl EventName {
    /// The name people read.
    pub fn as_str(self) -> &'static str {
        match self {
            EventName::Claim => "claim",
            EventName::Accept => "accept",
            EventName::Progress => "progress",
            EventName::Report => "report",
            EventName::TakeBack => "take back",
            EventName::LeaseEnd => "lease end",
            EventName::Cancel => "cancel",
            EventName::Release => "release",
            EventName::Again => "again",
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
            Event::LeaseEnd => EventName::LeaseEnd,
            Event::Cancel(_) => EventName::Cancel,
            Event::Release => EventName::Release,
            Event::Again(_) => EventName::Again,
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
            Event::LeaseEnd,
            Event::Cancel(&failure),
            Event::Release,
            Event::Again(&params),
        ];
        let names = events.map(|event| event.name().to_string());
        let expected =
            ["claim", "accept", "progress", "report", "take back", "lease end", "cancel", "release", "again"];
        assert_eq!(names, expected);
    }
}
