//! The id of a request. Its response, its problem and every line that the server logs for it have the same id.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;

use axum::http::HeaderMap;
use axum::http::header::{HeaderName, HeaderValue};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of an id that a client chose.
const BYTES_MAX: usize = 64;
/// Length of an id that the server made: 64 random bits in hex digits.
const MADE_BYTES: usize = 16;

/// An id that is safe to log: letters, digits, `-`, `_` and `.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

thread_local! {
    /// The request whose code this thread runs. A span per request would do the same at about twice the cost of the
    /// rest of the guard.
    static CURRENT: Cell<Option<RequestId>> = const { Cell::new(None) };
}

impl RequestId {
    /// The id that the client chose if it is safe to log, so that all logs use the same id; otherwise a new one.
    pub(crate) fn of(headers: &HeaderMap) -> RequestId {
        headers
            .get(REQUEST_ID)
            .and_then(|id| RequestId::chosen(id.as_bytes()))
            .unwrap_or_else(RequestId::made)
    }

    fn chosen(id: &[u8]) -> Option<RequestId> {
        let is_safe = id.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
        let mut bytes = [0; BYTES_MAX];
        bytes.get_mut(..id.len()).filter(|place| is_safe && !place.is_empty())?.copy_from_slice(id);
        Some(RequestId { bytes, len: id.len() })
    }

    fn made() -> RequestId {
        let (random, mut bytes) = (rand::random::<u64>(), [0; BYTES_MAX]);
        for (at, digit) in bytes.iter_mut().take(MADE_BYTES).enumerate() {
            *digit = b"0123456789abcdef"[(random >> (4 * at) & 15) as usize];
        }
        RequestId { bytes, len: MADE_BYTES }
    }

    /// The request whose code runs now.
    pub fn current() -> Option<RequestId> {
        CURRENT.get()
    }

    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(self.as_str()).unwrap_or(HeaderValue::from_static("none"))
    }

    /// Runs the future as code of this request.
    pub(crate) fn runs<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        of_request(Some(self), future)
    }

    /// Runs code of this request.
    pub(crate) fn within<T>(self, run: impl FnOnce() -> T) -> T {
        within(Some(self), run)
    }
}

/// Runs the future as code of the request whose code runs now, if any.
pub(crate) fn of_current_request<F: Future>(future: F) -> impl Future<Output = F::Output> {
    of_request(RequestId::current(), future)
}

async fn of_request<F: Future>(id: Option<RequestId>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| within(id, || future.as_mut().poll(context))).await
}

fn within<T>(id: Option<RequestId>, run: impl FnOnce() -> T) -> T {
    /// Also if the code panics.
    struct Restore(Option<RequestId>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(id));
    run()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(id: &str) -> RequestId {
        RequestId::of(&HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_str(id).unwrap())]))
    }

    #[test]
    fn an_id_of_the_client_is_kept_if_it_is_safe_to_log() {
        let longest = "x".repeat(BYTES_MAX);
        for id in ["a", "trace-41", "A_b.9", &longest] {
            assert_eq!(with(id).as_str(), id);
            assert_eq!(with(id).header(), id);
        }
    }

    #[test]
    fn another_id_is_replaced_by_a_new_one() {
        let too_long = "x".repeat(BYTES_MAX + 1);
        for id in ["", "a b", "a\"b", &too_long] {
            let made = with(id);
            assert!(made.as_str().len() == 16 && made.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert_ne!(made, with(id));
        }
    }

    #[test]
    fn code_has_the_id_of_its_request_and_after_a_panic_none() {
        let (outer, inner) = (with("outer"), with("inner"));
        assert_eq!(RequestId::current(), None);
        outer.within(|| {
            inner.within(|| assert_eq!(RequestId::current(), Some(inner)));
            assert_eq!(RequestId::current(), Some(outer));
        });
        assert!(std::panic::catch_unwind(|| outer.within(|| panic!("planted"))).is_err());
        assert_eq!(RequestId::current(), None);
    }
}
