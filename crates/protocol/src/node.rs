//! The nodes of a hall.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

/// What a node does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// It decides and writes.
    Leader,
    /// It forwards requests to the leader.
    Follower,
    /// It has been silent for ten seconds.
    Gone,
}

impl NodeRole {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeRole::Leader => "leader",
            NodeRole::Follower => "follower",
            NodeRole::Gone => "gone",
        }
    }
}

/// One server process of a hall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// What it calls itself; another after each start.
    pub name: String,
    /// Where other nodes reach it.
    pub url: String,
    /// What it does at the moment.
    pub role: NodeRole,
    /// The version of the program.
    pub version: String,
    /// When it was last heard of.
    pub seen_at: Timestamp,
}
