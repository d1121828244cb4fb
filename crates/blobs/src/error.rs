//! Errors of the blob store.

use std::io;

use thiserror::Error;

/// Why the file system or the database did not do what was asked. Reads well after "failed to".
#[derive(Debug, Error)]
pub enum BlobError {
    /// The disk or the user's quota is full. A retry may work later; a partial write does not count.
    #[error("{doing} {what}: the disk is full")]
    Full {
        /// What was being done.
        doing: &'static str,
        /// To which file, from the directory of blobs.
        what: String,
    },
    /// No such object.
    #[error("find {what}")]
    Missing {
        /// Which.
        what: String,
    },
    /// Stored content is not what was stored.
    #[error("read {what}: it is damaged: {why}")]
    Damaged {
        /// Which object or log.
        what: String,
        /// How that shows.
        why: String,
    },
    /// The directory contains an entry that this code did not create; it is left alone.
    #[error("use {what}: {why}")]
    Odd {
        /// Which file.
        what: String,
        /// What it is.
        why: &'static str,
    },
    /// The stored state differs from the cached state, or another node leads now. Nothing was written.
    #[error("write {what}: another node has written to it")]
    Overtaken {
        /// Which file.
        what: String,
    },
    /// The database does not answer. The same may work later, and is harmless to do again.
    #[error("{doing} {what}: the database does not answer: {why}")]
    Away {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        what: String,
        /// The error instead.
        why: String,
    },
    /// Another process has the directory open.
    #[error("lock {what}: another process has it open")]
    InUse {
        /// The lock file.
        what: String,
    },
    /// An earlier sync of this log failed. The content of the disk is unknown, so further writes are refused.
    #[error("write {what}: an earlier sync of it failed")]
    Broken {
        /// Which log.
        what: String,
    },
    /// Enough watch this log.
    #[error("watch {what}: it has {limit} watchers, which is the limit")]
    TooManyWatchers {
        /// Which log.
        what: String,
        /// How many may.
        limit: usize,
    },
    /// Anything else that the system said.
    #[error("{doing} {what}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file, from the directory of blobs.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl BlobError {
    /// Sorts what the system said. An error of this crate that a reader had to wrap is taken out again.
    pub(crate) fn io(doing: &'static str, what: String, error: impl Into<io::Error>) -> BlobError {
        match error.into().downcast::<BlobError>() {
            Ok(inner) => inner,
            Err(source) => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::Full { doing, what },
                _ => BlobError::Io { doing, what, source },
            },
        }
    }

    /// Whether the disk was full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, BlobError::Full { .. })
    }

    /// Whether stored content is not what was stored.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, BlobError::Damaged { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::BlobError;
    use std::io;

    #[test]
    fn a_full_disk_and_a_used_up_quota_are_told_apart_from_the_rest() {
        for (errno, full) in [(28, true), (122, true), (5, false), (13, false)] {
            let error = BlobError::io("write", "tmp/put".into(), io::Error::from_raw_os_error(errno));
            assert_eq!(error.is_full(), full, "{error}");
        }
    }
}
