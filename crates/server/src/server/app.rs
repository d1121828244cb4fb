//! State shared by all routes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use jobhall_core::Time;
use jobhall_engine::Engine;
use jobhall_protocol::Code;
use jobhall_queries::Queries;
use jobhall_store::Store;
use tokio::sync::watch;

use crate::auth::failures::Failures;
use crate::auth::tokens::{TokenShares, Tokens};
use crate::blobs::artifacts::Artifacts;
use crate::blobs::logs::Logs;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::metrics::disk_usage::DiskUsage;
use crate::node::nodes::Nodes;
use crate::services::operations::Operations;
use crate::sessions::poll_sessions::PollSessions;
use crate::sessions::session::Sessions;

pub(crate) struct App {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub logs: Logs,
    pub artifacts: Artifacts,
    pub tokens: Arc<Tokens>,
    pub failures: Failures,
    pub shares: TokenShares,
    pub poll_sessions: Arc<PollSessions>,
    pub sessions: Arc<Sessions>,
    pub metrics: Arc<Metrics>,
    pub disk_usage: DiskUsage,
    pub operations: Operations,
    pub queries: Queries,
    pub nodes: Nodes,
    pub lease_ms: u64,
    pub hosts: Arc<Hosts>,
    /// Whether requests come over TLS.
    pub secure: bool,
    pub started: Instant,
    /// Becomes true once: the server accepts no new work; current work continues.
    pub drain: watch::Receiver<bool>,
    /// Becomes true once, after `drain`: all waiting requests end.
    pub close: watch::Receiver<bool>,
}

impl App {
    /// Whether the server is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        *self.drain.borrow()
    }

    /// Refuses new work while the server drains.
    pub(crate) fn takes_work(&self) -> Result<(), ApiError> {
        if self.is_draining() {
            return Err(ApiError::new(Code::Unavailable, "the server is stopping and accepts no new work"));
        }
        Ok(())
    }

    /// Waits until the server accepts no new work.
    pub(crate) async fn drained(&self) {
        told(self.drain.clone()).await;
    }

    /// Waits until the server closes.
    pub(crate) async fn closed(&self) {
        told(self.close.clone()).await;
    }
}

/// Waits until the value is true.
pub(crate) async fn told(mut flag: watch::Receiver<bool>) {
    // An error means that the sender was dropped: the server has ended.
    let _ = flag.wait_for(|said| *said).await;
}

/// The host names that the server accepts.
pub(crate) struct Hosts {
    names: Vec<String>,
    /// Whether only this machine can reach the server. A foreign host name then indicates DNS rebinding by a web
    /// page.
    loopback: bool,
}

impl Hosts {
    /// Accepts these additional names for a server that listens at this address. If names are given, the address
    /// itself is accepted too: workers on this machine use it, and DNS rebinding cannot fake an address.
    pub(crate) fn new(names: &[String], at: IpAddr) -> Hosts {
        let mut names: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        if !names.is_empty() && !at.is_unspecified() {
            names.push(match at {
                IpAddr::V4(at) => at.to_string(),
                IpAddr::V6(at) => format!("[{at}]"),
            });
        }
        Hosts { names, loopback: at.is_loopback() }
    }

    /// Whether any host name is accepted.
    pub(crate) fn any(&self) -> bool {
        !self.loopback && self.names.is_empty()
    }

    /// Whether a request with this `Host` header is accepted.
    pub(crate) fn knows(&self, host: &str) -> bool {
        let name = name_of(host);
        let own = ["127.0.0.1", "localhost", "[::1]"].into_iter();
        let mut known = own.chain(self.names.iter().map(String::as_str));
        known.any(|known| known.eq_ignore_ascii_case(name)) || self.any()
    }
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    let bytes = host.as_bytes();
    let end = match bytes.iter().rposition(|byte| *byte == b':') {
        Some(at) if !bytes[at..].contains(&b']') => at,
        _ => host.len(),
    };
    &host[..end]
}

/// The port in a `Host` header; none if it is the default one.
pub(crate) fn port_of(host: &str) -> Option<u16> {
    host[name_of(host).len()..].strip_prefix(':')?.parse().ok()
}

/// The current wall-clock time.
pub(crate) fn now() -> Time {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).ok().and_then(|ms| Time::from_ms(ms).ok()).unwrap_or(Time::EPOCH)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::Hosts;

    #[test]
    fn a_hall_on_loopback_answers_to_its_own_names_alone() {
        let hosts = Hosts::new(&["CI.example".to_owned()], Ipv4Addr::LOCALHOST.into());
        for good in ["127.0.0.1:7450", "localhost", "LOCALHOST:1", "[::1]:7450", "[::1]", "ci.example:7450"] {
            assert!(hosts.knows(good), "{good}");
        }
        for bad in ["evil.example", "127.0.0.1.evil.example:7450", "", "::1", "localhost.:7450"] {
            assert!(!hosts.knows(bad), "{bad}");
        }
    }

    #[test]
    fn a_hall_for_other_machines_answers_to_any_name_until_it_has_one() {
        let (at, all) = (IpAddr::from([10, 0, 0, 5]), IpAddr::from([0, 0, 0, 0]));
        let names = ["hall.example".to_owned()];
        assert!(Hosts::new(&[], at).knows("anything") && Hosts::new(&[], all).knows(""));
        for hosts in [Hosts::new(&names, at), Hosts::new(&names, all)] {
            assert!(
                hosts.knows("hall.example:7450") && hosts.knows("localhost") && !hosts.knows("evil.example")
            );
            assert!(!hosts.knows("0.0.0.0:7450"));
        }
        assert!(Hosts::new(&names, at).knows("10.0.0.5:7450"), "its own address");
        assert!(!Hosts::new(&names, all).knows("10.0.0.5:7450"), "not a configured name");
        let six = Hosts::new(&names, "fd00::1".parse().unwrap());
        assert!(six.knows("[fd00::1]:7450") && !six.knows("[fd00::2]:7450"));
    }
}
