//! A server on this machine: the only node on SQLite, or one of several nodes on PostgreSQL.

use std::path::Path;

use jobhall_core::Retention;
use jobhall_server::Role;

use crate::commands::keep;
use crate::database::Database;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::listen::ListenArgs;
use crate::local_worker::TokenSource;
use crate::node::Node;
use crate::running::{Record, Registration};
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

    /// Writes where this server can be found. Removed when the result is dropped.
    pub fn register(&self, data: &Path, at: &ListenArgs, settings: &Settings) -> Registration {
        let record = Record::new(self.url(), data, at.tls_cert.as_deref());
        Registration::write(&record, &settings.record_directories)
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

    /// What to know about a new hall; none if this is not its first start.
    pub fn first_start(&self) -> Option<String> {
        let rule = match self {
            Serving::Alone(hall) => hall.first_rule,
            Serving::Node(node) => node.first_rule,
        };
        let said = |rule: Retention| keep::sentence(rule.keep_ms, rule.keep_count);
        rule.map(|rule| format!("{}; `jobhall retention set` changes that", said(rule)))
    }

    /// Makes the token of the local worker.
    pub fn worker_token(&self) -> TokenSource {
        match self {
            Serving::Alone(hall) => {
                let token = hall.tokens.mint("local", Role::Worker);
                Box::new(move || token.clone())
            }
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

    /// Waits for an error after which this process cannot continue.
    pub async fn failed(&self) -> Failure {
        let why = match self {
            Serving::Alone(hall) => hall.failed().await,
            Serving::Node(node) => node.failed().await,
        };
        Failure::new(Exit::Unexpected, "the server has stopped because of an error")
            .why(why)
            .fix("see its log; check the disk or the database, then start it again: what was acknowledged is stored")
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
