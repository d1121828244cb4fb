//! A server on this machine: the only node on SQLite, or one of several nodes on PostgreSQL.

use std::path::Path;

use jobhall_server::Role;

use crate::database::Database;
use crate::failure::Outcome;
use crate::listen::ListenArgs;
use crate::node::Node;
use crate::server::OpenServer;
use crate::settings::Settings;

/// A running server of either kind.
pub enum Serving {
    /// The only node.
    Alone(OpenServer),
    /// One of several nodes.
    Node(Node),
}

impl Serving {
    pub async fn open(data: &Path, at: &ListenArgs, settings: &Settings) -> Outcome<Serving> {
        match at.database()? {
            Some(Database::Postgres(url)) => {
                Ok(Serving::Node(Node::open(data, at, url, &settings.trust()).await?))
            }
            _ => Ok(Serving::Alone(OpenServer::open(data, at).await?)),
        }
    }

    /// The URL for this machine.
    pub fn url(&self) -> &str {
        match self {
            Serving::Alone(hall) => &hall.url,
            Serving::Node(node) => &node.url,
        }
    }

    /// A link that signs a browser in once; none if another node may be the leader.
    pub fn link(&self) -> Option<String> {
        match self {
            Serving::Alone(hall) => Some(format!("{}/?code={}", hall.url, hall.tokens.code())),
            Serving::Node(_) => None,
        }
    }

    /// The token of the local worker.
    pub fn worker_token(&self) -> String {
        match self {
            Serving::Alone(hall) => hall.tokens.mint("local", Role::Worker),
            Serving::Node(node) => node.worker_token(),
        }
    }

    /// Where to find the administrator's token.
    pub fn token_hint(&self, data: &Path) -> Option<String> {
        let path = data.join("admin.token");
        match self {
            Serving::Node(_) if !path.exists() => Some(
                "the administrator's token is in admin.token, in the data directory of the first node"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Accepts no more work if this is the only node. One of several nodes serves until it is closed.
    pub fn drain(&self) {
        if let Serving::Alone(hall) = self {
            hall.drain();
        }
    }

    /// Finishes pending requests and commits. Leases stay valid.
    pub async fn close(self) {
        match self {
            Serving::Alone(hall) => hall.close().await,
            Serving::Node(node) => node.close().await,
        }
    }
}
