//! The result of a submit for one job.

use std::fmt;

use crate::id::JobId;

/// How a submit was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disposition {
    /// A new job was created.
    Created,
    /// A live job of the same (type, key) is the answer.
    Joined,
    /// A success that is recent enough is the answer.
    Reused,
    /// A new job waits for the end of the job that it replaces.
    Superseding,
    /// A live job of the same (type, key) will be followed by a job with these params.
    Again,
    /// A live job of the same (type, key) is the answer, and its params differ from those that were submitted.
    JoinedOther,
}

impl Disposition {
    /// All of them; codes in stores are positions in this list.
    pub const ALL: [Disposition; 6] = [
        Disposition::Created,
        Disposition::Joined,
        Disposition::Reused,
        Disposition::Superseding,
        Disposition::Again,
        Disposition::JoinedOther,
    ];

    /// Whether the job that is the answer has other params than those that were submitted.
    pub fn params_differ(self) -> bool {
        self == Disposition::JoinedOther
    }

    /// The name used everywhere from SQL to dashboard.
    pub fn as_str(self) -> &'static str {
        match self {
            Disposition::Created => "created",
            Disposition::Joined | Disposition::JoinedOther => "joined",
            Disposition::Reused => "reused",
            Disposition::Superseding => "superseding",
            Disposition::Again => "again",
        }
    }
}

impl fmt::Display for Disposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer to one submitted job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Submitted {
    /// The job that is the answer.
    pub id: JobId,
    /// The result of the request.
    pub disposition: Disposition,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispositions_have_one_name_and_a_fixed_code() {
        let names = Disposition::ALL.map(|disposition| disposition.to_string());
        assert_eq!(names, ["created", "joined", "reused", "superseding", "again", "joined"]);
        let codes: Vec<usize> = Disposition::ALL.iter().map(|disposition| *disposition as usize).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5]);
        assert!(Disposition::JoinedOther.params_differ() && !Disposition::Joined.params_differ());
    }
}
