//! The key of an attempt, by which its log and its manifest are named.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// One claim of one job, written `{job}-{claim}`; the name of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptKey {
    pub job: u64,
    pub claim: u32,
}

/// Why a text is not a valid key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("read an attempt: it is written <job>-<claim>, such as 17-1")]
pub struct AttemptKeyError;

impl AttemptKey {
    /// The number of its directory; consecutive jobs go to different ones.
    pub(crate) fn shard(self) -> u8 {
        self.job.to_le_bytes()[0]
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
    use super::AttemptKey;

    #[test]
    fn a_key_has_one_spelling() {
        assert_eq!("17-1".parse(), Ok(AttemptKey { job: 17, claim: 1 }));
        for text in
            ["", "17", "17-", "-1", "+17-1", "017-1", "17-01", "17-1.idx", "17-1-1", "17--1", "17-4294967296"]
        {
            assert!(text.parse::<AttemptKey>().is_err(), "{text:?}");
        }
    }
}
