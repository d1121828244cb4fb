//! The nodes of a hall.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

/// One server process of a hall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// What it calls itself; another after each start.
    pub name: String,
    /// Where other nodes reach it.
    pub url: String,
    /// Whether it holds the desk; the others are doors that lead to it.
    pub holder: bool,
    /// The version of the program.
    pub version: String,
    /// When it was last heard of.
    pub seen_at: Timestamp,
}
