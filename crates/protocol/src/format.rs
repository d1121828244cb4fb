//! How values are written in JSON: documents, durations, times.

pub(crate) mod document;
pub(crate) mod timestamp;
