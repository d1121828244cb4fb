//! Progress of an attempt as its worker reports it.

use serde::{Deserialize, Serialize};

/// One measure of progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Indicator {
    /// The name, if there are several.
    #[serde(default)]
    pub name: String,
    /// The current step.
    pub step: u64,
    /// The number of steps, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// A message for users.
    #[serde(default)]
    pub message: String,
}

impl Indicator {
    /// Whether the last step was taken.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.total.is_some_and(|total| self.step >= total)
    }
}
