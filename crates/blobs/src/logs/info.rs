//! The properties of a log.

/// The state of a log at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogInfo {
    /// The number of bytes.
    pub len: u64,
    /// Whether it was truncated at its limit: the attempt wrote more.
    pub truncated: bool,
    /// Whether it is complete: no bytes will be appended.
    pub finished: bool,
}
