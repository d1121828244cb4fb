//! Headers that a node adds to a forwarded request: the source of the request, and that host and origin were checked.
//! They are trusted only together with a secret that is derived from the key of the hall. From any other client they
//! are removed and ignored.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::{HeaderName, HeaderValue};

use crate::auth::failures::Peer;
use crate::auth::tokens::HallKeys;

/// The header with the secret of the nodes; with two, separated by a comma, while two keys are valid.
const NODE: HeaderName = HeaderName::from_static("jobhall-node");
/// The header with the source of the request, such as `http 10.0.0.5` or `https fd00::1`.
const PEER: HeaderName = HeaderName::from_static("jobhall-peer");

/// Maximum number of secrets in the header.
const PROOFS: usize = 4;

/// The secret that the nodes of a hall share. It is never printed.
#[derive(Clone)]
pub struct NodeSecret(Arc<HallKeys>);

impl fmt::Debug for NodeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeSecret(…)")
    }
}

impl NodeSecret {
    /// The secret that is derived from these keys.
    #[must_use]
    pub fn new(keys: Arc<HallKeys>) -> NodeSecret {
        NodeSecret(keys)
    }

    fn is(&self, shown: &HeaderValue) -> bool {
        shown.to_str().is_ok_and(|shown| shown.split(',').take(PROOFS).any(|one| self.0.is_forwarding(one)))
    }

    /// Adds the source of a request and whether it was encrypted.
    pub(crate) fn sign(&self, headers: &mut HeaderMap, forwarded_for: ForwardedFor) {
        let scheme = if forwarded_for.secure { "https" } else { "http" };
        let peer = HeaderValue::from_str(&format!("{scheme} {}", forwarded_for.from.0));
        if let (Ok(peer), Ok(mut secret)) = (peer, HeaderValue::from_str(&self.0.forwarding())) {
            secret.set_sensitive(true);
            headers.insert(NODE, secret);
            headers.insert(PEER, peer);
        }
    }
}

/// The source of a request as signed by another node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardedFor {
    /// The source of the request.
    pub from: Peer,
    /// Whether the request came over TLS.
    pub secure: bool,
}

/// Removes these headers from a request; returns their content if the secret is valid.
pub(crate) fn take(headers: &mut HeaderMap, secret: Option<&NodeSecret>) -> Option<ForwardedFor> {
    // Most requests have no such header. To look at all names costs less than to look up two.
    if !headers.keys().any(|name| *name == NODE || *name == PEER) {
        return None;
    }
    let shown = headers.remove(NODE);
    let peer = headers.remove(PEER);
    let (shown, peer) = (shown?, peer?);
    secret.filter(|secret| secret.is(&shown))?;
    let (scheme, from) = peer.to_str().ok()?.split_once(' ')?;
    let from: IpAddr = from.parse().ok()?;
    Some(ForwardedFor { from: Peer(from), secure: scheme == "https" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(n: u8) -> NodeSecret {
        NodeSecret::new(Arc::new(HallKeys::fixed(&[n; 32])))
    }

    fn forwarded_for() -> ForwardedFor {
        ForwardedFor { from: Peer("fd00::1".parse().unwrap()), secure: true }
    }

    #[test]
    fn the_word_of_a_node_is_believed_and_nobody_elses() {
        let (ours, other) = (secret(1), secret(2));
        for (by, believed) in [(Some(&ours), true), (Some(&other), false), (None, false)] {
            let mut headers = HeaderMap::new();
            ours.sign(&mut headers, forwarded_for());
            let told = take(&mut headers, by);
            assert_eq!(told.map(|told| (told.from.0, told.secure)).is_some(), believed);
            assert!(headers.is_empty(), "they are not forwarded");
        }
    }

    #[test]
    fn while_two_keys_are_valid_a_node_with_either_believes_a_node_with_both() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hall.key");
        let open = || NodeSecret::new(Arc::new(HallKeys::open(&path).unwrap()));
        let old = open();
        HallKeys::rotate(&path, 60_000).unwrap();
        let both = open();
        for (from, to) in [(&old, &both), (&both, &old), (&both, &both)] {
            let mut headers = HeaderMap::new();
            from.sign(&mut headers, forwarded_for());
            assert!(take(&mut headers, Some(to)).is_some());
        }
        HallKeys::rotate(&path, 0).unwrap();
        let mut headers = HeaderMap::new();
        old.sign(&mut headers, forwarded_for());
        assert!(take(&mut headers, Some(&open())).is_none(), "the overlap is over");
    }

    #[test]
    fn a_word_that_makes_no_sense_is_none() {
        let secret = secret(1);
        for wrong in ["", "http", "http nowhere", "10.0.0.5", "http 10.0.0.5 10.0.0.6"] {
            let mut headers = HeaderMap::new();
            secret.sign(&mut headers, forwarded_for());
            headers.insert(PEER, HeaderValue::from_static(wrong));
            assert!(take(&mut headers, Some(&secret)).is_none(), "{wrong:?}");
        }
        assert_eq!(format!("{secret:?}"), "NodeSecret(…)");
    }
}
