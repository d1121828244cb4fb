//! Hop-by-hop headers: headers that apply to one connection and must not be forwarded (RFC 9110, 7.6.1).

use axum::http::HeaderMap;
use axum::http::header::{self, HeaderName, HeaderValue};

/// Headers that are always hop-by-hop. Each connection determines its own body framing, and reading a body implies
/// `100 Continue`.
const OF_ONE_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::EXPECT,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Removes the hop-by-hop headers. Returns the protocol of a requested upgrade.
pub(super) fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let named: Vec<HeaderName> = named(headers).collect();
    let upgrade = headers.get(header::UPGRADE).filter(|_| named.contains(&header::UPGRADE)).cloned();
    for name in named.iter().chain(&OF_ONE_CONNECTION) {
        headers.remove(name);
    }
    headers.remove("proxy-connection");
    upgrade
}

/// Requests or accepts an upgrade to this protocol.
pub(super) fn ask(headers: &mut HeaderMap, upgrade: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, upgrade);
}

/// Headers named by `Connection`, except `Host` and `Content-Length`.
fn named(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok());
    names.filter(|name| ![header::HOST, header::CONTENT_LENGTH].contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn what_is_meant_for_one_connection_goes_no_further() {
        let mut sent = headers(&[
            ("host", "hall"),
            ("connection", "close, X-Mine"),
            ("connection", "host, content-length, nonsense\u{7f}".trim_end_matches('\u{7f}')),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("expect", "100-continue"),
            ("upgrade", "h2c"),
            ("content-length", "3"),
            ("authorization", "Bearer jh_"),
        ]);
        assert_eq!(strip(&mut sent), None, "an upgrade that the connection does not name is none");
        let mut left: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "content-length", "host"]);
    }

    #[test]
    fn an_upgrade_is_asked_for_anew() {
        let mut sent = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        let upgrade = strip(&mut sent).unwrap();
        assert!(sent.is_empty());
        ask(&mut sent, upgrade);
        assert_eq!(sent, headers(&[("connection", "upgrade"), ("upgrade", "websocket")]));
    }
}
