//! The properties of a log.

/// A log at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogInfo {
    /// How many bytes it has.
    pub len: u64,
    /// Whether it was cut at its limit: the attempt wrote more than is here.
    pub truncated: bool,
    /// Whether it is complete: nothing will be added.
    pub finished: bool,
}
