//! Connections, counted by source address: one address cannot take all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::auth::failures::network;

/// Maximum number of addresses that are known to be nodes.
const NODES: usize = 256;

/// Limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of connections from one address of another machine. A proxy has one address for all its clients.
    pub per_address: usize,
    /// The same for this machine.
    pub per_loopback: usize,
    /// How long a write may make no progress before the connection is closed.
    pub write_ms: u64,
    /// Maximum number of worker sessions of one token.
    pub sessions_per_token: usize,
    /// Maximum number of long polls, event streams and followed logs of one token.
    pub waiting_per_token: usize,
    /// Maximum number of large pages of one token that its clients have not read yet.
    pub pages_per_token: usize,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            per_address: 4_000,
            per_loopback: 10_000,
            write_ms: 30_000,
            sessions_per_token: 5_000,
            waiting_per_token: 10_000,
            pages_per_token: 16,
        }
    }
}

/// The number of connections of each address.
pub(crate) struct Addresses {
    limits: ConnectionLimits,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    open: HashMap<IpAddr, usize>,
    /// Addresses of nodes that have forwarded a request. They have no limit: they have connections for all their
    /// clients.
    nodes: Vec<IpAddr>,
}

impl Addresses {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Addresses> {
        Arc::new(Addresses { limits, book: Mutex::default() })
    }

    pub(crate) fn limits(&self) -> ConnectionLimits {
        self.limits
    }

    /// Counts a connection until the place is dropped; none if its address has too many.
    pub(crate) fn enter(self: &Arc<Addresses>, from: IpAddr) -> Option<Place> {
        let (address, mut book) = (network(from), self.book());
        let most = if from.to_canonical().is_loopback() {
            self.limits.per_loopback
        } else {
            self.limits.per_address
        };
        let free = book.nodes.contains(&address);
        let open = book.open.entry(address).or_default();
        if *open >= most && !free {
            return None;
        }
        *open += 1;
        Some(Place { addresses: self.clone(), address })
    }

    /// A node at this address has forwarded a request.
    pub(crate) fn is_node(&self, from: IpAddr) {
        let (address, mut book) = (network(from), self.book());
        if !book.nodes.contains(&address) {
            if book.nodes.len() == NODES {
                book.nodes.remove(0);
            }
            book.nodes.push(address);
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A counted connection.
pub(crate) struct Place {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut book = self.addresses.book();
        if let Some(open) = book.open.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                book.open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn audit_m3_one_address_has_a_bounded_number_of_connections() {
        let limits = ConnectionLimits { per_address: 2, per_loopback: 3, ..ConnectionLimits::default() };
        let addresses = Addresses::new(limits);
        let one = address("10.0.0.1");
        let first = addresses.enter(one).unwrap();
        let _second = addresses.enter(one).unwrap();
        assert!(addresses.enter(one).is_none());
        let _other = addresses.enter(address("10.0.0.2")).unwrap();
        drop(first);
        let _again = addresses.enter(one).unwrap();
        let own: Vec<_> = (0..3).map(|_| addresses.enter(address("127.0.0.1"))).collect();
        assert!(own.iter().all(Option::is_some) && addresses.enter(address("::ffff:127.0.0.1")).is_none());
    }

    #[test]
    fn a_forwarding_node_has_no_limit_and_ended_connections_leave_nothing() {
        let limits = ConnectionLimits { per_address: 1, per_loopback: 1, ..ConnectionLimits::default() };
        let addresses = Addresses::new(limits);
        let node = address("10.0.0.3");
        addresses.is_node(node);
        let many: Vec<_> = (0..5).filter_map(|_| addresses.enter(node)).collect();
        assert_eq!(many.len(), 5);
        drop(many);
        assert!(addresses.book().open.is_empty());
        (0..1_000u32).for_each(|n| addresses.is_node(IpAddr::V4(n.into())));
        assert_eq!(addresses.book().nodes.len(), NODES);
    }
}
