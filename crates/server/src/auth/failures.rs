//! Invalid tokens, counted by source address. A valid token is always accepted. An invalid token is answered with 429
//! after too many in one minute. Headers that name another source address are ignored.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of invalid tokens from one address per interval.
const FAILURES: u32 = 10;
const STRETCH: Duration = Duration::from_secs(60);
/// Maximum number of addresses counted separately; further addresses share one count.
const ADDRESSES: usize = 10_000;

/// The source address of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub IpAddr);

/// The result of counting a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Seconds to wait, if there were too many.
    pub wait_s: Option<u64>,
    /// Whether it is the first of its interval, which gets an audit entry.
    pub first: bool,
}

#[derive(Clone, Copy)]
struct Count {
    since: Instant,
    failures: u32,
}

#[derive(Default)]
pub(crate) struct Failures(Mutex<HashMap<Option<IpAddr>, Count>>);

impl Failures {
    /// Counts an invalid token.
    pub(crate) fn count(&self, from: IpAddr) -> Counted {
        self.count_at(from, Instant::now())
    }

    fn count_at(&self, from: IpAddr, moment: Instant) -> Counted {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(network(from));
        if counts.len() >= ADDRESSES && !counts.contains_key(&key) {
            counts.retain(|_, count| moment.duration_since(count.since) < STRETCH);
            if counts.len() >= ADDRESSES {
                key = None;
            }
        }
        let count = counts.entry(key).or_insert(Count { since: moment, failures: 0 });
        if moment.duration_since(count.since) >= STRETCH {
            *count = Count { since: moment, failures: 0 };
        }
        count.failures = count.failures.saturating_add(1);
        let left = STRETCH.saturating_sub(moment.duration_since(count.since));
        let wait_s = (count.failures > FAILURES).then(|| left.as_secs().max(1));
        Counted { wait_s, first: count.failures == 1 }
    }
}

/// One subscriber has a whole network of IPv6 addresses, so a network is counted as one address.
pub(crate) fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn ten_wrong_tokens_a_minute_are_answered_as_such_and_the_eleventh_has_to_wait() {
        let (failures, start) = (Failures::default(), Instant::now());
        assert_eq!(failures.count_at(address(1), start), Counted { wait_s: None, first: true });
        for _ in 1..FAILURES {
            assert_eq!(failures.count_at(address(1), start), Counted { wait_s: None, first: false });
        }
        let later = start + Duration::from_secs(20);
        assert_eq!(failures.count_at(address(1), later).wait_s, Some(40));
        assert_eq!(failures.count_at(address(2), later).wait_s, None, "another address");
        assert_eq!(failures.count_at(address(1), start + STRETCH).wait_s, None, "another minute");
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let (failures, start) = (Failures::default(), Instant::now());
        for n in 0..u128::from(FAILURES) {
            failures.count_at(IpAddr::V6((0x2001_0db8 << 96 | n).into()), start);
        }
        assert!(failures.count_at("2001:db8::ffff".parse().unwrap(), start).wait_s.is_some());
        assert!(failures.count_at("2001:db8:1::1".parse().unwrap(), start).wait_s.is_none());
    }

    #[test]
    fn the_table_is_bounded_and_a_flood_of_addresses_shares_one_count() {
        let (failures, start) = (Failures::default(), Instant::now());
        for n in 0..20_000 {
            failures.count_at(address(n), start);
        }
        assert_eq!(failures.0.lock().unwrap().len(), ADDRESSES + 1);
        assert!(failures.count_at(address(30_000), start).wait_s.is_some());
        failures.count_at(address(30_001), start + STRETCH);
        assert_eq!(failures.0.lock().unwrap().len(), 1, "ended intervals are removed");
    }
}
