//! The status of an open job in memory.

use std::borrow::Cow;

use jobhall_core::{JobStatus, State, Time};

/// The state of a new job.
static QUEUED: State = State::Queued(None);

/// The status of an open job. Most open jobs wait for their first attempt, and two times tell everything about them: so
/// they take a third of the memory.
#[derive(Debug)]
pub(crate) enum CompactStatus {
    /// Queued, and nothing has happened to it: as [`JobStatus::queued`] returns it.
    New { now: Time, run_at: Time },
    /// Any other status.
    Other(Box<JobStatus>),
}

impl From<JobStatus> for CompactStatus {
    fn from(status: JobStatus) -> CompactStatus {
        let (now, run_at) = (status.updated_at, status.run_at);
        if status.rev == 1 && status == JobStatus::queued(now, run_at) {
            CompactStatus::New { now, run_at }
        } else {
            CompactStatus::Other(Box::new(status))
        }
    }
}

impl CompactStatus {
    /// The status.
    pub fn get(&self) -> Cow<'_, JobStatus> {
        match self {
            CompactStatus::New { now, run_at } => Cow::Owned(JobStatus::queued(*now, *run_at)),
            CompactStatus::Other(status) => Cow::Borrowed(status),
        }
    }

    pub fn state(&self) -> &State {
        match self {
            CompactStatus::New { .. } => &QUEUED,
            CompactStatus::Other(status) => &status.state,
        }
    }

    pub fn claim(&self) -> u32 {
        match self {
            CompactStatus::New { .. } => 0,
            CompactStatus::Other(status) => status.claim,
        }
    }

    pub fn run_at(&self) -> Time {
        match self {
            CompactStatus::New { run_at, .. } => *run_at,
            CompactStatus::Other(status) => status.run_at,
        }
    }

    pub fn set_run_at(&mut self, to: Time) {
        match self {
            CompactStatus::New { run_at, .. } => *run_at = to,
            CompactStatus::Other(status) => status.run_at = to,
        }
    }

    /// Sets the status, and returns the previous one.
    pub fn replace(&mut self, status: JobStatus) -> JobStatus {
        if let CompactStatus::Other(before) = self {
            return std::mem::replace(before, status);
        }
        std::mem::replace(self, CompactStatus::from(status)).into()
    }
}

impl From<CompactStatus> for JobStatus {
    fn from(compact: CompactStatus) -> JobStatus {
        match compact {
            CompactStatus::New { now, run_at } => JobStatus::queued(now, run_at),
            CompactStatus::Other(status) => *status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{assigned, id, time};

    fn lives() -> [JobStatus; 6] {
        let new = JobStatus::queued(time(2), time(5));
        [
            new.clone(),
            JobStatus { hold: true, ..new.clone() },
            JobStatus { rev: 2, ..new.clone() },
            JobStatus { claim: 1, ..new },
            JobStatus::behind(time(2), time(5), id(7)),
            assigned(),
        ]
    }

    #[test]
    fn every_status_is_kept_and_only_a_new_one_is_short() {
        let short = lives().map(|status| {
            let compact = CompactStatus::from(status.clone());
            assert_eq!(*compact.get(), status);
            assert_eq!((compact.state(), compact.claim()), (&status.state, status.claim));
            assert_eq!(compact.run_at(), status.run_at);
            let short = matches!(compact, CompactStatus::New { .. });
            assert_eq!(JobStatus::from(compact), status);
            short
        });
        assert_eq!(short, [true, false, false, false, false, false]);
    }

    #[test]
    fn a_replaced_status_is_returned() {
        for before in lives() {
            for after in lives() {
                let mut compact = CompactStatus::from(before.clone());
                assert_eq!(compact.replace(after.clone()), before);
                assert_eq!(*compact.get(), after);
            }
        }
    }

    #[test]
    fn the_start_time_can_be_set() {
        for status in lives() {
            let mut compact = CompactStatus::from(status.clone());
            compact.set_run_at(time(99));
            assert_eq!(*compact.get(), JobStatus { run_at: time(99), ..status });
        }
    }
}
