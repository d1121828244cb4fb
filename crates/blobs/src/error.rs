//! Errors of the blob store.

use std::io;

use thiserror::Error;

/// An error of the file system or the database. Its text follows "failed to".
#[derive(Debug, Error)]
pub enum BlobError {
    /// The disk or the user's quota is full. A retry may succeed later; a partial write is ignored.
    #[error("{doing} {what}: the disk is full")]
    Full {
        doing: &'static str,
        /// The file, relative to the directory of blobs.
        what: String,
    },
    /// The object does not exist.
    #[error("find {what}")]
    Missing { what: String },
    /// The stored content was changed.
    #[error("read {what}: it is damaged: {why}")]
    Damaged {
        what: String,
        /// What was detected.
        why: String,
    },
    /// The directory contains an entry that this code did not create; it is left alone.
    #[error("use {what}: {why}")]
    Odd { what: String, why: &'static str },
    /// The stored state differs from the cached state, or another node leads now. Nothing was written.
    #[error("write {what}: another node has written to it")]
    Overtaken { what: String },
    /// The database does not answer. A retry is safe and may succeed later.
    #[error("{doing} {what}: the database does not answer: {why}")]
    Away {
        doing: &'static str,
        what: String,
        /// The error of the database.
        why: String,
    },
    /// Another process has the directory open.
    #[error("lock {what}: another process has it open")]
    InUse { what: String },
    /// An earlier sync of this log failed. The content of the disk is unknown, so further writes are refused.
    #[error("write {what}: an earlier sync of it failed")]
    Broken { what: String },
    /// The log has too many watchers.
    #[error("watch {what}: it has {limit} watchers, which is the limit")]
    TooManyWatchers { what: String, limit: usize },
    /// Any other error of the system.
    #[error("{doing} {what}: {source}")]
    Io {
        doing: &'static str,
        /// The file, relative to the directory of blobs.
        what: String,
        source: io::Error,
    },
}

impl BlobError {
    /// Classifies an error of the system. An error of this crate that a reader wrapped is unwrapped.
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

    /// Whether the stored content was changed.
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
