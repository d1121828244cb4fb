//! Numeric ids of jobs, groups, attempts and leases.

mod map;

use std::fmt;
use std::str::FromStr;

use crate::bounds;

pub use map::{IdHash, IdMap};

/// The id of a job, from 1 to 2⁵³ − 1; later jobs of a node have larger ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

/// Why a number or text is not an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdError {
    /// The number is 0 or above 2⁵³ − 1.
    OutOfRange(u64),
    /// The text is not `{job}-{claim}`, with both numbers in range.
    NotAnAttempt,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdError::OutOfRange(n) => write!(f, "id {n} is outside 1 to {}", bounds::JOB_ID),
            IdError::NotAnAttempt => write!(f, "an attempt id reads <job>-<claim>, such as 17-1"),
        }
    }
}

impl std::error::Error for IdError {}

impl JobId {
    /// A job id from a number.
    pub fn new(n: u64) -> Result<JobId, IdError> {
        if (1..=bounds::JOB_ID).contains(&n) { Ok(JobId(n)) } else { Err(IdError::OutOfRange(n)) }
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a group. Jobs and groups share one sequence, so no job has the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(JobId);

impl GroupId {
    /// A group id from a number.
    pub fn new(n: u64) -> Result<GroupId, IdError> {
        JobId::new(n).map(GroupId)
    }

    /// The group with this id of the common sequence.
    pub fn of(id: JobId) -> GroupId {
        GroupId(id)
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One claim of one job, written `{job}-{claim}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// Its claim number, used for fencing: it increases with every claim.
    pub claim: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.job, self.claim)
    }
}

impl FromStr for AttemptId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<AttemptId, IdError> {
        let (job, claim) = text.split_once('-').ok_or(IdError::NotAnAttempt)?;
        let job = job.parse().map_err(|_| IdError::NotAnAttempt)?;
        let claim = claim.parse().map_err(|_| IdError::NotAnAttempt)?;
        let job = JobId::new(job)?;
        if claim == 0 { Err(IdError::NotAnAttempt) } else { Ok(AttemptId { job, claim }) }
    }
}

/// 128 random bits that a claim gives to its worker; every report must present them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u128);

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_out_of_range_are_refused() {
        assert_eq!(JobId::new(0), Err(IdError::OutOfRange(0)));
        assert_eq!(JobId::new(bounds::JOB_ID).unwrap().get(), 9_007_199_254_740_991);
        let error = JobId::new(bounds::JOB_ID + 1).unwrap_err();
        assert_eq!(error.to_string(), "id 9007199254740992 is outside 1 to 9007199254740991");
    }

    #[test]
    fn an_attempt_reads_job_dash_claim() {
        let id = AttemptId { job: JobId::new(17).unwrap(), claim: 3 };
        assert_eq!(id.to_string(), "17-3");
        assert_eq!("17-3".parse(), Ok(id));
        assert_eq!("0-3".parse::<AttemptId>(), Err(IdError::OutOfRange(0)));
        for bad in ["17", "17-", "-3", "17-0", "a-1", "1-b", "1-4294967296", ""] {
            assert_eq!(bad.parse::<AttemptId>(), Err(IdError::NotAnAttempt), "{bad}");
        }
        assert_eq!(IdError::NotAnAttempt.to_string(), "an attempt id reads <job>-<claim>, such as 17-1");
    }

    #[test]
    fn a_lease_never_shows_its_secret() {
        assert_eq!(format!("{:?}", LeaseId(0xdead_beef)), "LeaseId(…)");
    }
}
