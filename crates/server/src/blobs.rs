//! Blobs of attempts: logs and artifacts for async callers, uploads, and garbage collection.

pub(crate) mod artifacts;
pub(crate) mod collector;
pub(crate) mod logs;
pub(crate) mod upload;
