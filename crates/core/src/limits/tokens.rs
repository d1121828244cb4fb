//! The tokens of one rate.
//!
//! The level is counted in shares: a token has `per_ms` of them, and every millisecond brings `count`. So nothing is
//! rounded and nothing drifts. In any time at most `burst` tokens and what comes meanwhile are taken; a heavier job waits
//! for a full bucket and leaves it in debt.

use super::Rate;

/// The tokens of one rate. Moments are milliseconds of a clock that never goes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    rate: Rate,
    /// Shares at the moment `at`; below 0 after a job that was heavier than the burst.
    shares: i64,
    at: u64,
}

impl Tokens {
    /// A bucket without tokens: nobody knows what was taken before.
    pub fn empty(rate: Rate, now: u64) -> Tokens {
        Tokens { rate, shares: 0, at: now }
    }

    /// A bucket that nothing was taken from.
    pub fn full(rate: Rate, now: u64) -> Tokens {
        Tokens { rate, shares: most(rate), at: now }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    fn shares_at(&self, now: u64) -> i64 {
        let come = now.saturating_sub(self.at).saturating_mul(u64::from(self.rate.count));
        let come = i64::try_from(come).unwrap_or(i64::MAX);
        self.shares.saturating_add(come).min(most(self.rate))
    }

    /// Shares that must be there for a job of this weight.
    fn wanted(&self, weight: u32) -> i64 {
        shares(weight.min(self.rate.most()), self.rate.per_ms)
    }

    /// The first moment from `now` on at which this weight can be taken.
    pub fn ready_at(&self, weight: u32, now: u64) -> u64 {
        let missing = self.wanted(weight).saturating_sub(self.shares_at(now));
        if weight == 0 || missing <= 0 {
            return now;
        }
        now.saturating_add(missing.unsigned_abs().div_ceil(u64::from(self.rate.count.max(1))))
    }

    /// Whether this weight can be taken now.
    pub fn fits(&self, weight: u32, now: u64) -> bool {
        self.ready_at(weight, now) == now
    }

    /// Takes a weight that fits.
    pub fn take(&mut self, weight: u32, now: u64) {
        self.settle(now);
        self.shares = self.shares.saturating_sub(shares(weight, self.rate.per_ms));
    }

    /// Gives back what a claim took that came to nothing.
    pub fn give_back(&mut self, weight: u32, now: u64) {
        self.settle(now);
        self.shares = self.shares.saturating_add(shares(weight, self.rate.per_ms)).min(most(self.rate));
    }

    /// Goes on with another rate. What was saved or owed stays so, as far as the new rate lets it.
    pub fn change(&mut self, rate: Rate, now: u64) {
        self.settle(now);
        let scaled = i128::from(self.shares) * i128::from(rate.per_ms);
        let scaled = scaled.div_euclid(i128::from(self.rate.per_ms.max(1)));
        self.shares = i64::try_from(scaled).unwrap_or(i64::MIN).min(most(rate));
        self.rate = rate;
    }

    /// Whether nothing is missing, so that a new bucket would do as well.
    pub fn is_full(&self, now: u64) -> bool {
        self.shares_at(now) == most(self.rate)
    }

    /// Whole tokens that can be taken now; below 0 when some are owed.
    pub fn left(&self, now: u64) -> i64 {
        self.shares_at(now).div_euclid(i64::try_from(self.rate.per_ms.max(1)).unwrap_or(i64::MAX))
    }

    fn settle(&mut self, now: u64) {
        self.shares = self.shares_at(now);
        self.at = self.at.max(now);
    }
}

fn shares(tokens: u32, per_ms: u64) -> i64 {
    i64::from(tokens).saturating_mul(i64::try_from(per_ms).unwrap_or(i64::MAX))
}

fn most(rate: Rate) -> i64 {
    shares(rate.most(), rate.per_ms)
}
