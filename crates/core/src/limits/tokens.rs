//! The tokens of one rate.
//!
//! The level is counted in shares: a token has `per_ms` shares, and every millisecond adds `count`, so there is no
//! rounding and no drift. In any period, at most `burst` tokens plus those added in the period are taken. For a job
//! heavier than the burst, its weight replaces the burst: tokens are saved up to it while the job waits. The level is
//! never below 0, so a bucket with an unknown history can start at 0 without exceeding the rate.

use super::Rate;

/// The tokens of one rate. Times are milliseconds of a monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    rate: Rate,
    /// Shares at the time `at`.
    shares: u64,
    at: u64,
}

impl Tokens {
    /// A bucket without tokens: what was taken before is unknown.
    pub fn empty(rate: Rate, now: u64) -> Tokens {
        Tokens { rate, shares: 0, at: now }
    }

    /// A bucket from which nothing was taken.
    pub fn full(rate: Rate, now: u64) -> Tokens {
        Tokens { rate, shares: most(rate), at: now }
    }

    /// A bucket of the same level, without the tokens beyond the burst: those are saved only for a waiting job.
    #[must_use]
    pub fn begin(&self, now: u64) -> Tokens {
        let mut tokens = self.clone();
        tokens.settle(now, most(self.rate));
        tokens
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The shares available by now, including those beyond the burst.
    fn refilled(&self, now: u64) -> u64 {
        let refill = now.saturating_sub(self.at).saturating_mul(u64::from(self.rate.count));
        self.shares.saturating_add(refill)
    }

    /// The first time from `now` on at which this weight can be taken.
    pub fn ready_at(&self, weight: u32, now: u64) -> u64 {
        let missing = shares(weight, self.rate.per_ms).saturating_sub(self.refilled(now));
        now.saturating_add(missing.div_ceil(u64::from(self.rate.count.max(1))))
    }

    /// Whether this weight can be taken now.
    pub fn fits(&self, weight: u32, now: u64) -> bool {
        self.ready_at(weight, now) == now
    }

    /// Takes a weight that fits.
    pub fn take(&mut self, weight: u32, now: u64) {
        let taken = shares(weight, self.rate.per_ms);
        self.settle(now, most(self.rate).max(taken));
        self.shares = self.shares.saturating_sub(taken);
    }

    /// Returns what a failed claim took.
    pub fn give_back(&mut self, weight: u32, now: u64) {
        self.settle(now, most(self.rate));
        self.shares = self.shares.saturating_add(shares(weight, self.rate.per_ms)).min(most(self.rate));
    }

    /// Changes the rate. Saved tokens are kept as far as the new rate allows.
    pub fn change(&mut self, rate: Rate, now: u64) {
        self.settle(now, most(self.rate));
        let scaled = u128::from(self.shares) * u128::from(rate.per_ms) / u128::from(self.rate.per_ms.max(1));
        self.shares = u64::try_from(scaled).unwrap_or(u64::MAX).min(most(rate));
        self.rate = rate;
    }

    /// Whether no token is missing, so that a new bucket is equivalent.
    pub fn is_full(&self, now: u64) -> bool {
        self.refilled(now) >= most(self.rate)
    }

    /// Whole tokens saved now.
    pub fn left(&self, now: u64) -> u64 {
        self.refilled(now).min(most(self.rate)) / self.rate.per_ms.max(1)
    }

    fn settle(&mut self, now: u64, most: u64) {
        self.shares = self.refilled(now).min(most);
        self.at = self.at.max(now);
    }
}

fn shares(tokens: u32, per_ms: u64) -> u64 {
    u64::from(tokens).saturating_mul(per_ms)
}

fn most(rate: Rate) -> u64 {
    shares(rate.most(), rate.per_ms)
}
