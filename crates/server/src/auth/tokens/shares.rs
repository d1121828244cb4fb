//! Shares: how much of a bounded resource one holder, such as a token, may use at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use jobhall_protocol::Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Identity;
use crate::error::ApiError;
use crate::server::connections::ConnectionLimits;

type Used<K> = Arc<Mutex<HashMap<K, usize>>>;

/// The use of each holder, with the same limit for each.
pub(crate) struct Shares<K> {
    most: usize,
    used: Used<K>,
}

/// A unit in use, until it is dropped.
pub(crate) struct Share<K: Eq + Hash> {
    holder: K,
    used: Used<K>,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    pub(crate) fn new(most: usize) -> Shares<K> {
        Shares { most, used: Arc::default() }
    }

    /// Takes a unit; none if the holder has its whole share.
    pub(crate) fn take(&self, holder: K) -> Option<Share<K>> {
        let mut used = lock(&self.used);
        let count = used.entry(holder.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Share { holder, used: self.used.clone() })
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut used = lock(&self.used);
        if let Some(count) = used.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                used.remove(&self.holder);
            }
        }
    }
}

fn lock<K>(used: &Mutex<HashMap<K, usize>>) -> MutexGuard<'_, HashMap<K, usize>> {
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pages that are read and written at once for one token. Rows are in memory before their size is known.
const PAGES_AT_ONCE: usize = 4;
/// Number of tokens from which on those without requests are forgotten.
const TURNS: usize = 1_000;

/// The order of the requests of each token whose responses take much memory.
#[derive(Default)]
struct Turns(Mutex<HashMap<String, Weak<Semaphore>>>);

impl Turns {
    fn of(&self, holder: &str) -> Arc<Semaphore> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = turns.get(holder).and_then(Weak::upgrade) {
            return known;
        }
        if turns.len() >= TURNS {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let new = Arc::new(Semaphore::new(PAGES_AT_ONCE));
        turns.insert(holder.to_owned(), Arc::downgrade(&new));
        new
    }
}

/// What one token may use at once.
pub(crate) struct TokenShares {
    turns: Turns,
    sessions: Shares<String>,
    waiting: Shares<String>,
    pages: Shares<String>,
}

/// A session, or a request that waits, of one token.
pub(crate) type TokenShare = Share<String>;

impl TokenShares {
    pub(crate) fn new(limits: &ConnectionLimits) -> TokenShares {
        let ConnectionLimits { sessions_per_token, waiting_per_token, pages_per_token, .. } = *limits;
        TokenShares {
            turns: Turns::default(),
            sessions: Shares::new(sessions_per_token),
            waiting: Shares::new(waiting_per_token),
            pages: Shares::new(pages_per_token),
        }
    }

    /// A session of a worker.
    pub(crate) fn session(&self, who: &Identity) -> Result<TokenShare, ApiError> {
        take(&self.sessions, who, "sessions")
    }

    /// A long poll, an event stream or a followed log.
    pub(crate) fn waiting(&self, who: &Identity) -> Result<TokenShare, ApiError> {
        take(&self.waiting, who, "long polls and streams")
    }

    /// Waits until few other pages of the token are being made; the page is made while this is held.
    pub(crate) async fn page_turn(&self, who: &Identity) -> Result<OwnedSemaphorePermit, ApiError> {
        self.turns.of(holder(who)).acquire_owned().await.map_err(ApiError::internal)
    }

    /// A large response that its client has not read yet.
    pub(crate) fn large(&self, who: &Identity) -> Result<TokenShare, ApiError> {
        take(&self.pages, who, "large pages")
    }
}

/// The token; those of jobs have no id.
fn holder(who: &Identity) -> &str {
    if who.id.is_empty() { &who.name } else { &who.id }
}

fn take(shares: &Shares<String>, who: &Identity, what: &str) -> Result<TokenShare, ApiError> {
    shares.take(holder(who).to_owned()).ok_or_else(|| {
        let (name, most) = (&who.name, shares.most());
        let detail = format!("token {name} has {most} {what} open, which is the limit of one token");
        ApiError::new(Code::TooManyRequests, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn audit_m4_few_pages_of_one_token_are_made_at_once() {
        let turns = Turns::default();
        let taken = turns.of("a").acquire_many_owned(4).await.unwrap();
        assert!(turns.of("a").try_acquire().is_err());
        assert!(turns.of("b").try_acquire().is_ok(), "another token has its own turns");
        drop(taken);
        assert!(turns.of("a").try_acquire().is_ok());
        for n in 0..2 * TURNS {
            drop(turns.of(&n.to_string()));
        }
        assert!(turns.0.lock().unwrap().len() <= TURNS, "tokens without requests are forgotten");
    }

    #[test]
    fn audit_l11_one_holder_has_a_bounded_share() {
        let shares = Shares::new(2);
        let first = shares.take("a").unwrap();
        let _second = shares.take("a").unwrap();
        assert!(shares.take("a").is_none());
        let other = shares.take("b").unwrap();
        drop((first, other));
        assert!(shares.take("a").is_some());
        assert_eq!(lock(&shares.used).len(), 1, "holders without use are forgotten");
    }
}
