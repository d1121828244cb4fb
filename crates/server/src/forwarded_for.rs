//! Headers that a node adds to a forwarded request: the source of the request, and that host and origin were checked.
//! They are trusted only together with the secret of the hall, which nodes read from their database. From any other
//! client they are removed and ignored.

use std::fmt;
use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{HeaderName, HeaderValue};

use crate::failures::Peer;
use crate::tokens::Hash;

/// The header with the secret of the hall.
const NODE: HeaderName = HeaderName::from_static("jobhall-node");
/// The header with the source of the request, such as `http 10.0.0.5` or `https fd00::1`.
const PEER: HeaderName = HeaderName::from_static("jobhall-peer");

/// The secret that the nodes of a hall share. It is never printed.
#[derive(Clone)]
pub struct NodeSecret {
    header: HeaderValue,
    hash: Hash,
}

impl fmt::Debug for NodeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeSecret(…)")
    }
}

impl NodeSecret {
    /// Creates a secret from this text; none if the text is not valid in a header.
    #[must_use]
    pub fn new(text: &str) -> Option<NodeSecret> {
        let mut header = HeaderValue::from_str(text).ok().filter(|value| !value.is_empty())?;
        header.set_sensitive(true);
        Some(NodeSecret { header, hash: Hash::of(text) })
    }

    fn is(&self, shown: &HeaderValue) -> bool {
        shown.to_str().is_ok_and(|shown| Hash::is(Hash::of(shown), Some(self.hash)))
    }

    /// Adds the source of a request and whether it was encrypted.
    pub(crate) fn sign(&self, headers: &mut HeaderMap, forwarded_for: ForwardedFor) {
        let scheme = if forwarded_for.secure { "https" } else { "http" };
        if let Ok(peer) = HeaderValue::from_str(&format!("{scheme} {}", forwarded_for.from.0)) {
            headers.insert(NODE, self.header.clone());
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
    // Most requests have no such header.
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

    fn forwarded_for() -> ForwardedFor {
        ForwardedFor { from: Peer("fd00::1".parse().unwrap()), secure: true }
    }

    #[test]
    fn the_word_of_a_node_is_believed_and_nobody_elses() {
        let (ours, other) = (NodeSecret::new("abc").unwrap(), NodeSecret::new("abd").unwrap());
        for (by, believed) in [(Some(&ours), true), (Some(&other), false), (None, false)] {
            let mut headers = HeaderMap::new();
            ours.sign(&mut headers, forwarded_for());
            let told = take(&mut headers, by);
            assert_eq!(told.map(|told| (told.from.0, told.secure)).is_some(), believed);
            assert!(headers.is_empty(), "they are not forwarded");
        }
    }

    #[test]
    fn a_word_that_makes_no_sense_is_none() {
        let secret = NodeSecret::new("abc").unwrap();
        for wrong in ["", "http", "http nowhere", "10.0.0.5", "http 10.0.0.5 10.0.0.6"] {
            let mut headers = HeaderMap::new();
            secret.sign(&mut headers, forwarded_for());
            headers.insert(PEER, HeaderValue::from_static(wrong));
            assert!(take(&mut headers, Some(&secret)).is_none(), "{wrong:?}");
        }
        assert!(NodeSecret::new("").is_none() && NodeSecret::new("a\nb").is_none());
        assert!(!format!("{secret:?}").contains("abc"));
    }
}
