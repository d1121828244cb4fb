//! The term of the leases: when they were last certainly renewed, and when the worker must act.
//!
//! The server counts from when it receives a renewal, which is later than when the renewal was sent. The worker
//! counts from when it was sent, and therefore stops its attempts before the server can assign them to another
//! worker.

use std::time::Duration;

use tokio::time::Instant;

/// Interval between two checks before the first session.
const LOOK: Duration = Duration::from_secs(1);

/// The term of the leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// Lifetime of the leases without a renewal; none before the first session.
    lease: Option<Duration>,
    /// When they were last certainly renewed.
    since: Instant,
    /// When an unanswered renewal was sent.
    pub asked: Option<Instant>,
    look_at: Instant,
}

impl Term {
    /// The term before the first session.
    pub fn unknown() -> Term {
        let now = Instant::now();
        Term { lease: None, since: now, asked: None, look_at: now + LOOK }
    }

    /// The term of a session whose hello was sent at this time.
    pub fn new(lease: Duration, since: Instant) -> Term {
        let mut term = Term { lease: Some(lease), since, asked: None, look_at: since };
        term.looked(Instant::now());
        term
    }

    fn part(&self, part: u32) -> Duration {
        self.lease.map_or(LOOK, |lease| lease / part)
    }

    /// The time of the next check.
    pub fn next(&self) -> Instant {
        self.look_at
    }

    /// Sets the next check: a sixth of the lease later, and not after the time when all attempts must be stopped.
    pub fn looked(&mut self, now: Instant) {
        let step = now + self.part(6).max(Duration::from_millis(1));
        self.look_at = self.stop_at().filter(|stop| *stop > now).map_or(step, |stop| stop.min(step));
    }

    fn stop_at(&self) -> Option<Instant> {
        Some(self.since + jobhall_client::safe_part(self.lease?))
    }

    /// Whether all attempts must be stopped.
    pub fn is_over(&self, now: Instant) -> bool {
        self.stop_at().is_some_and(|stop| stop <= now)
    }

    /// Whether it is time to renew: a third of the lease is over.
    pub fn is_due(&self, now: Instant) -> bool {
        self.asked.is_none() && now >= self.since + self.part(3) - self.part(60)
    }

    /// Whether a renewal was not answered in time.
    pub fn is_unanswered(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now >= asked + self.part(6))
    }

    /// The server has renewed the leases.
    pub fn renewed(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.since = asked;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn at(start: Instant, s: u64) -> Instant {
        start + Duration::from_secs(s)
    }

    #[test]
    fn leases_are_renewed_at_a_third_and_given_up_before_their_end() {
        let start = Instant::now();
        let mut term = Term::new(LEASE, start);
        assert!(!term.is_due(at(start, 9)) && term.is_due(at(start, 10)));
        term.asked = Some(at(start, 10));
        assert!(!term.is_due(at(start, 11)), "one renewal at a time");
        assert!(!term.is_unanswered(at(start, 14)) && term.is_unanswered(at(start, 15)));
        assert!(!term.is_over(at(start, 24)) && term.is_over(at(start, 25)));
        term.renewed();
        assert!(
            !term.is_over(at(start, 34)) && term.is_over(at(start, 35)),
            "it counts from when the renewal was sent"
        );
        assert!(term.is_due(at(start, 20)));
    }

    #[test]
    fn the_moment_of_giving_up_is_never_slept_through() {
        let start = Instant::now();
        let mut term = Term::new(LEASE, start);
        term.looked(at(start, 23));
        assert_eq!(term.next(), at(start, 25));
        term.looked(at(start, 25));
        assert_eq!(term.next(), at(start, 30));
        assert!(!Term::unknown().is_over(at(start, 1_000)));
    }
}
