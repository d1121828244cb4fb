//! The key of an attempt, by which its logs and its manifest are named.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// One claim of one job, written `{job}-{claim}`; the name of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptKey {
    pub job: u64,
    pub claim: u32,
}

/// One of the two logs of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// What its processes wrote.
    Output,
    /// What its worker noted. No process writes here.
    Notes,
}

/// The key of a log, written `17-1` for output and `17-1.notes` for notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogKey {
    pub attempt: AttemptKey,
    pub channel: Channel,
}

/// What the name of a log of notes ends with.
const NOTES: &str = ".notes";

/// Why a text is not a valid key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("read an attempt: it is written <job>-<claim>, such as 17-1")]
pub struct AttemptKeyError;

impl AttemptKey {
    /// The number of its directory; consecutive jobs go to different ones.
    pub(crate) fn shard(self) -> u8 {
        self.job.to_le_bytes()[0]
    }

    /// The key of its notes. As a [`LogKey`] it means its output.
    #[must_use]
    pub fn notes(self) -> LogKey {
        LogKey { attempt: self, channel: Channel::Notes }
    }
}

impl From<AttemptKey> for LogKey {
    fn from(attempt: AttemptKey) -> LogKey {
        LogKey { attempt, channel: Channel::Output }
    }
}

impl fmt::Display for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.channel {
            Channel::Output => "",
            Channel::Notes => NOTES,
        };
        write!(f, "{}{end}", self.attempt)
    }
}

impl FromStr for LogKey {
    type Err = AttemptKeyError;

    /// Accepts only the output of `Display`.
    fn from_str(text: &str) -> Result<LogKey, AttemptKeyError> {
        match text.strip_suffix(NOTES) {
            Some(attempt) => Ok(attempt.parse::<AttemptKey>()?.notes()),
            None => Ok(text.parse::<AttemptKey>()?.into()),
        }
    }
}

impl fmt::Display for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.job, self.claim)
    }
}

impl FromStr for AttemptKey {
    type Err = AttemptKeyError;

    /// Accepts only the output of `Display`: no sign, no leading zero.
    fn from_str(text: &str) -> Result<AttemptKey, AttemptKeyError> {
        let (job, claim) = text.split_once('-').ok_or(AttemptKeyError)?;
        let key = AttemptKey {
            job: job.parse().map_err(|_| AttemptKeyError)?,
            claim: claim.parse().map_err(|_| AttemptKeyError)?,
        };
        if key.to_string() == text { Ok(key) } else { Err(AttemptKeyError) }
    }
}

#[cfg(test)]
mod tests {
    use super::{AttemptKey, LogKey};

    #[test]
    fn a_key_has_one_spelling() {
        assert_eq!("17-1".parse(), Ok(AttemptKey { job: 17, claim: 1 }));
        for text in
            ["", "17", "17-", "-1", "+17-1", "017-1", "17-01", "17-1.idx", "17-1-1", "17--1", "17-4294967296"]
        {
            assert!(text.parse::<AttemptKey>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn ground_10_a_log_of_notes_has_a_key_of_its_own() {
        let attempt = AttemptKey { job: 17, claim: 1 };
        for (text, key) in [("17-1", LogKey::from(attempt)), ("17-1.notes", attempt.notes())] {
            assert_eq!((text.parse(), key.to_string().as_str()), (Ok(key), text));
        }
        for text in ["17-1.note", "17-1.notes.notes", "17-1.idx", ".notes", "017-1.notes"] {
            assert!(text.parse::<LogKey>().is_err(), "{text:?}");
        }
    }
}
