//! The addresses of a hall: one or several, all equivalent. Calls go to one address until it fails and then to the
//! next, so that a client survives the loss of any single node.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Url;

use crate::error::ClientError;

/// Maximum number of addresses of one hall.
const PLACES: usize = 16;

/// The addresses. Clones share which one is in use.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    urls: Arc<[Url]>,
    now: Arc<AtomicUsize>,
    named: Arc<str>,
}

impl Places {
    /// Parses one address, or several separated by commas.
    pub(crate) fn parse(text: &str) -> Result<Places, ClientError> {
        let urls: Vec<Url> = text.split(',').map(|url| parse(url.trim())).collect::<Result<_, _>>()?;
        if urls.len() > PLACES {
            let why = format!("{} addresses are named, the limit is {PLACES}", urls.len());
            return Err(ClientError::Unreachable { url: text.to_owned(), why });
        }
        let names: Vec<_> = urls.iter().map(|url| url.as_str().trim_end_matches('/')).collect();
        let named = names.join(",").into();
        Ok(Places { urls: urls.into(), now: Arc::default(), named })
    }

    /// All addresses, separated by commas.
    pub(crate) fn named(&self) -> &str {
        &self.named
    }

    /// The number of addresses.
    pub(crate) fn count(&self) -> usize {
        self.urls.len()
    }

    /// Whether any of them uses TLS.
    pub(crate) fn any_tls(&self) -> bool {
        self.urls.iter().any(|url| url.scheme() == "https")
    }

    /// The address in use.
    pub(crate) fn now(&self) -> Place<'_> {
        let at = self.now.load(Ordering::Relaxed) % self.urls.len();
        Place { at, url: &self.urls[at] }
    }

    /// Switches to the next address after a failure, unless another call has already done so.
    pub(crate) fn leave(&self, place: &Place<'_>) {
        let next = (place.at + 1) % self.urls.len();
        let _ = self.now.compare_exchange(place.at, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// One address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    at: usize,
    url: &'a Url,
}

impl Place<'_> {
    /// The address as text.
    pub(crate) fn name(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// The URL of a route at this address.
    pub(crate) fn of(&self, route: &Url) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{}", self.url.path().trim_end_matches('/'), route.path()));
        url.set_query(route.query());
        url
    }
}

fn parse(text: &str) -> Result<Url, ClientError> {
    let wrong = |why: String| ClientError::Unreachable { url: text.to_owned(), why };
    let url = Url::parse(text).map_err(|error| wrong(format!("not a URL: {error}")))?;
    if ["http", "https"].contains(&url.scheme()) && url.host().is_some() {
        return Ok(url);
    }
    Err(wrong("the address must read http://HOST:PORT or https://HOST:PORT".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_failed_is_left_once_by_however_many() {
        let places = Places::parse("http://a:1, http://b:2/below/,https://c").unwrap();
        assert_eq!((places.named(), places.count()), ("http://a:1,http://b:2/below,https://c", 3));
        assert!(places.any_tls());
        let first = places.now();
        assert_eq!(first.name(), "http://a:1");
        places.leave(&first);
        places.leave(&first);
        let route = Url::parse("http://hall/types/a%2Fb?q=1").unwrap();
        assert_eq!(places.now().of(&route).as_str(), "http://b:2/below/types/a%2Fb?q=1");
        places.leave(&places.now());
        places.leave(&places.now());
        assert_eq!(places.now().name(), "http://a:1", "and back to the first");
    }

    #[test]
    fn one_wrong_address_or_too_many_are_refused() {
        for wrong in ["", "http://a,", "http://a,hall", "http://a,ftp://b"] {
            assert!(matches!(Places::parse(wrong), Err(ClientError::Unreachable { .. })), "{wrong:?}");
        }
        let many = vec!["http://a"; 17].join(",");
        assert!(Places::parse(&many).unwrap_err().to_string().contains("limit is 16"));
    }
}
