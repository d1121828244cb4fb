//! How often something happened in the last minutes: a ring of seconds, which needs no upkeep.

use crate::api::time::Mono;

/// Seconds that are kept.
const SECONDS: u64 = 300;
/// The places of the ring.
const PLACES: usize = 300;

/// A ring of counts per second. See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    ring: Box<[u64; PLACES]>,
    /// The second that `now` counts.
    second: u64,
    now: u64,
}

/// The numbers of the last minute and of the last five.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// In the last 60 seconds.
    pub minute: u64,
    /// In the last 300 seconds.
    pub five_minutes: u64,
}

impl Recent {
    pub fn new(now: Mono) -> Recent {
        Recent { ring: Box::new([0; PLACES]), second: now.0 / 1_000, now: 0 }
    }

    /// Adds this many events now.
    pub fn add(&mut self, now: Mono, times: u64) {
        self.pass(now);
        self.now += times;
    }

    /// Returns the rates. The current second counts as a whole one.
    pub fn rates(&mut self, now: Mono) -> Rates {
        self.pass(now);
        let within = |seconds: u64| {
            let past = (1..seconds).filter_map(|ago| self.second.checked_sub(ago));
            self.now + past.map(|second| self.ring[place(second)]).sum::<u64>()
        };
        Rates { minute: within(60), five_minutes: within(SECONDS) }
    }

    /// Seconds that went by.
    fn pass(&mut self, now: Mono) {
        let second = now.0 / 1_000;
        if second <= self.second {
            return;
        }
        self.ring[place(self.second)] = std::mem::take(&mut self.now);
        let silent = (self.second + 1..second).rev().take(PLACES);
        silent.for_each(|second| self.ring[place(second)] = 0);
        self.second = second;
    }
}

fn place(second: u64) -> usize {
    usize::try_from(second % SECONDS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(recent: &mut Recent, s: u64) -> (u64, u64) {
        let rates = recent.rates(Mono(s * 1_000 + 999));
        (rates.minute, rates.five_minutes)
    }

    #[test]
    fn what_is_older_than_a_window_does_not_count() {
        let mut recent = Recent::new(Mono(7_000));
        recent.add(Mono(7_500), 2);
        recent.add(Mono(8_000), 1);
        assert_eq!(at(&mut recent, 8), (3, 3));
        assert_eq!(at(&mut recent, 66), (3, 3), "60 seconds, from 7 to 66");
        assert_eq!(at(&mut recent, 67), (1, 3));
        assert_eq!(at(&mut recent, 306), (0, 3));
        assert_eq!(at(&mut recent, 307), (0, 1));
        assert_eq!(at(&mut recent, 308), (0, 0));
        recent.add(Mono(308_999), 5);
        assert_eq!(at(&mut recent, 10_000), (0, 0), "a long silence clears all");
        recent.add(Mono(10_000_999), 4);
        assert_eq!(at(&mut recent, 10_000), (4, 4));
    }
}
