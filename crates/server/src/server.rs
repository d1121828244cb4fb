//! The server: it accepts connections until it is stopped, then lets requests in progress finish.

pub(crate) mod app;
pub(crate) mod connections;
pub(crate) mod tls;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use jobhall_blobs::Blobs;
use jobhall_engine::Engine;
use jobhall_queries::CacheBounds;
use jobhall_store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::auth::tokens::Tokens;
use crate::blobs::collector::References;
use crate::forward::forwarded_for::NodeSecret;
use crate::forward::{ForwardTo, Forwarder};
use crate::node::leader::Leader;
use crate::node::leader::internal_jobs::InternalJobs;
use crate::node::nodes::Nodes;
use crate::node::role::{Node, ServingRole};

use app::Hosts;
use connections::{ConnectionLimits, accept};
use tls::Tls;

/// How a node listens.
#[derive(Debug, Default)]
pub struct Listen {
    /// Accepted host names besides those of this machine, without port. If empty, a server on loopback accepts only the
    /// names of this machine, and a server that other machines can reach accepts any name.
    pub hosts: Vec<String>,
    /// The TLS certificate; none serves without encryption.
    pub tls: Option<Tls>,
    /// Whether other machines may connect without encryption, which exposes tokens on the network.
    pub insecure: bool,
    pub limits: ConnectionLimits,
}

/// The parts of a leader.
pub struct Options {
    /// The server does not stop the engine.
    pub engine: Engine,
    /// The store of the engine, for reads that need no decision.
    pub store: Arc<dyn Store>,
    /// The storage of logs and artifacts.
    pub blobs: Arc<Blobs>,
    pub tokens: Arc<Tokens>,
    /// The directory of the store, for disk usage and free space.
    pub data: PathBuf,
    /// Lifetime of a session without a renewal, equal to the setting of the engine.
    pub lease_ms: u64,
    /// Maximum size of the log of an attempt.
    pub log_bytes: u64,
    /// Interval between two collections of unreferenced blobs.
    pub collect_ms: u64,
    /// References to objects that are not artifacts of attempts.
    pub references: References,
    /// How many values of queries are stored.
    pub cache: CacheBounds,
    /// What the leader runs itself.
    pub internal_jobs: InternalJobs,
    pub nodes: Nodes,
    /// The secret that the nodes share; none for a single node.
    pub secret: Option<NodeSecret>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("lease_ms", &self.lease_ms).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Server;

/// A running server. Dropping it stops it without waiting.
pub struct Running {
    /// The address of the listener.
    pub address: SocketAddr,
    node: Arc<Node>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Serves on this listener, on the current tokio runtime, with this node as the leader.
    ///
    /// # Errors
    /// As [`Server::listen`].
    pub fn serve(listener: TcpListener, listen: Listen, options: Options) -> std::io::Result<Running> {
        let running = Server::listen(listener, listen)?;
        running.turn(ServingRole::Leader(running.leader_of(options)));
        Ok(running)
    }

    /// Accepts connections on this listener, on the current tokio runtime; the node is closed until its role is set.
    ///
    /// # Errors
    /// The listener has no address, or other machines can reach its address and `insecure` is not set.
    pub fn listen(listener: TcpListener, listen: Listen) -> std::io::Result<Running> {
        let address = listener.local_addr()?;
        let Listen { hosts, tls, insecure, limits } = listen;
        if !address.ip().is_loopback() && tls.is_none() && !insecure {
            return Err(std::io::Error::other(format!(
                "failed to serve on {address}: it is not loopback and has no TLS"
            )));
        }
        let hosts = Hosts::new(&hosts, address.ip());
        if hosts.any() {
            tracing::warn!(%address, "server listening; it answers to any host because no host name is configured");
        } else {
            tracing::info!(%address, "server listening");
        }
        let node = Arc::new(Node::new(hosts, tls.is_some(), limits));
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(accept(listener, node.clone(), tls, stopping));
        Ok(Running { address, node, stop, task })
    }
}

impl Running {
    fn leader_of(&self, options: Options) -> Leader {
        Leader::new(options, &self.node, self.stop.subscribe())
    }

    /// Sets the role of the node; returns the previous role.
    fn turn(&self, role: ServingRole) -> Arc<ServingRole> {
        self.node.role.send_replace(Arc::new(role))
    }

    /// This node leads.
    pub async fn open(&self, options: Options) {
        let before = self.turn(ServingRole::Leader(self.leader_of(options)));
        before.end().await;
    }

    /// Another node leads: requests are forwarded to it.
    ///
    /// # Errors
    /// The address of the leader is invalid, or its TLS configuration is missing.
    pub async fn forward(&self, to: ForwardTo) -> Result<(), String> {
        let before = self.turn(ServingRole::Follower(Forwarder::new(to)?));
        before.end().await;
        Ok(())
    }

    /// Closes the node for the given reason until its role is set again. Long polls, streams and sessions end.
    pub async fn shut(&self, why: &str) {
        let before = self.turn(ServingRole::Closed(why.to_owned()));
        before.end().await;
    }

    /// Accepts no new work: submits are refused, long polls end, and `/readyz` fails. Everything else continues, so
    /// that workers can finish and people can watch.
    pub fn drain(&self) {
        if let ServingRole::Leader(leader) = &**self.node.role.borrow() {
            leader.drain();
        }
    }

    /// Accepts no more connections, ends waiting requests, and gives requests in progress some seconds to finish.
    pub async fn stop(self) {
        self.drain();
        self.stop.send_replace(true);
        let _ = self.task.await;
    }
}
