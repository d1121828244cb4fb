//! The nodes of a hall.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// The node decides and writes.
    Leader,
    /// The node forwards requests to the leader.
    Follower,
    /// The node has sent no heartbeat for ten seconds.
    Gone,
}

impl NodeRole {
    /// The name on the wire.
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
    /// Name of the node; different after each start.
    pub name: String,
    /// Address for other nodes.
    pub url: String,
    /// Current role.
    pub role: NodeRole,
    /// Version of the program.
    pub version: String,
    /// When the last heartbeat was received.
    pub seen_at: Timestamp,
}
