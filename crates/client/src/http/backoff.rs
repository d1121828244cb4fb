//! The number of retries, and the pauses between them.

use std::time::Duration;

use rand::RngExt as _;

/// Maximum number of tries of a call that may be repeated.
const TRIES: u32 = 4;
const FIRST_PAUSE_MS: u64 = 100;
const LONGEST_PAUSE_MS: u64 = 5_000;

/// Counts consecutive failures. Pauses grow and are jittered, so that many clients do not return at the same time.
#[derive(Debug)]
pub struct Backoff {
    failures: u32,
    tries: u32,
}

impl Backoff {
    /// For a single call.
    pub(crate) fn of_a_call() -> Backoff {
        Backoff { failures: 0, tries: TRIES }
    }

    /// For a stream that should survive a restart of the server: about half a minute.
    pub(crate) fn of_a_stream() -> Backoff {
        Backoff { failures: 0, tries: 12 }
    }

    /// For a worker, which reconnects forever.
    #[must_use]
    pub fn of_a_worker() -> Backoff {
        Backoff { failures: 0, tries: u32::MAX }
    }

    /// For a call that must not be repeated.
    pub(crate) fn none() -> Backoff {
        Backoff { failures: 0, tries: 1 }
    }

    /// Resets the count after a success.
    pub fn renew(&mut self) {
        self.failures = 0;
    }

    /// The pause before the next try, or none if the maximum is reached.
    pub fn pause(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.tries {
            return None;
        }
        let doubled = FIRST_PAUSE_MS << (self.failures - 1).min(10);
        let most = doubled.min(LONGEST_PAUSE_MS);
        Some(Duration::from_millis(rand::rng().random_range(most / 2..=most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_and_is_renewed() {
        let mut patience = Backoff::of_a_call();
        let pauses: Vec<Duration> = std::iter::from_fn(|| patience.pause()).collect();
        assert_eq!(pauses.len(), 3);
        assert!(pauses.iter().all(|pause| (50..=400).contains(&pause.as_millis())), "{pauses:?}");
        assert_eq!(patience.pause(), None);
        patience.renew();
        assert!(patience.pause().is_some());
        assert_eq!(Backoff::none().pause(), None);
    }
}
