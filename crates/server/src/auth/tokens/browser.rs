//! Browser sessions. A link carries a code that works once; the code is exchanged for a cookie that scripts cannot
//! read. Codes and cookies are kept in memory only, as hashes; after a restart a new link is required.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::secret::{Hash, random_hex};

const CODE_TIME: Duration = Duration::from_secs(600);
/// Lifetime of a browser session.
pub(crate) const SESSION_TIME: Duration = Duration::from_secs(12 * 3_600);
/// Maximum number of codes and of sessions; a new one replaces the oldest.
const MOST: usize = 1_000;

/// A valid session of a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrowserSession {
    /// The hash of its cookie.
    key: String,
    /// When it ends.
    pub end: Instant,
}

#[derive(Default)]
struct Book {
    codes: HashMap<String, Instant>,
    sessions: HashMap<String, Instant>,
}

/// Open codes and browser sessions.
#[derive(Default)]
pub(crate) struct Browsers(Mutex<Book>);

impl Browsers {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn code(&self) -> String {
        let code = random_hex::<32>();
        put(&mut self.book().codes, key(&code), CODE_TIME);
        code
    }

    /// Exchanges a code for the secret of a new session. The code becomes invalid.
    pub(crate) fn enter(&self, code: &str) -> Option<String> {
        let mut book = self.book();
        book.codes.remove(&key(code)).filter(|end| *end > Instant::now())?;
        let secret = random_hex::<32>();
        put(&mut book.sessions, key(&secret), SESSION_TIME);
        Some(secret)
    }

    /// The session of this cookie, if it is valid.
    pub(super) fn session(&self, secret: &str) -> Option<BrowserSession> {
        let key = key(secret);
        let end = *self.book().sessions.get(&key)?;
        (end > Instant::now()).then_some(BrowserSession { key, end })
    }

    /// Whether the session is still valid.
    pub(super) fn is_in(&self, session: &BrowserSession) -> bool {
        self.book().sessions.get(&session.key).is_some_and(|end| *end > Instant::now())
    }

    /// Ends a session.
    pub(super) fn leave(&self, session: &BrowserSession) {
        self.book().sessions.remove(&session.key);
    }
}

/// The lookup key is a hash, so that the lookup time reveals nothing about the secret.
fn key(secret: &str) -> String {
    Hash::of(secret).to_hex()
}

fn put(places: &mut HashMap<String, Instant>, key: String, time: Duration) {
    let moment = Instant::now();
    places.retain(|_, end| *end > moment);
    if places.len() >= MOST
        && let Some(oldest) = places.iter().min_by_key(|(_, end)| **end).map(|(key, _)| key.clone())
    {
        places.remove(&oldest);
    }
    places.insert(key, moment + time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once_and_the_number_of_sessions_is_bounded() {
        let browsers = Browsers::default();
        let code = browsers.code();
        let cookie = browsers.enter(&code).unwrap();
        let session = browsers.session(&cookie).unwrap();
        assert!(browsers.is_in(&session));
        assert!(browsers.session(&code).is_none() && browsers.session("").is_none());
        assert_eq!(browsers.enter(&code), None, "once");
        assert_eq!(browsers.enter(&cookie), None);
        for _ in 0..MOST + 10 {
            browsers.code();
        }
        assert_eq!(browsers.book().codes.len(), MOST);
    }

    #[test]
    fn what_is_over_is_good_for_nothing() {
        let browsers = Browsers::default();
        let code = browsers.code();
        for end in browsers.book().codes.values_mut() {
            *end = Instant::now();
        }
        assert_eq!(browsers.enter(&code), None);
    }
}
