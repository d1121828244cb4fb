//! The tokens of one rate.
//!
//! The level is counted in shares: a token has `per_ms` of them, and every millisecond brings `count`. So nothing is
//! rounded and nothing drifts. In any time at most `burst` tokens and what comes meanwhile are taken. For a job that is
//! heavier than the burst its own weight stands in for it: tokens are saved up that far while it waits. The level is never
//! below 0, so that a bucket of which nothing is known can begin at 0 and keeps the rate all the same.

use super::Rate;

/// The tokens of one rate. Moments are milliseconds of a clock that never goes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    rate: Rate,
    /// Shares at the moment `at`.
    shares: u64,
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

    /// A bucket of the same level, but for what came beyond the burst: that is saved up only for whoever waits.
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

    /// What has come by now, beyond the burst too.
    fn come(&self, now: u64) -> u64 {
        let news = now.saturating_sub(self.at).saturating_mul(u64::from(self.rate.count));
        self.shares.saturating_add(news)
    }

    /// The first moment from `now` on at which this weight can be taken.
    pub fn ready_at(&self, weight: u32, now: u64) -> u64 {
        let missing = shares(weight, self.rate.per_ms).saturating_sub(self.come(now));
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

    /// Gives back what a claim took that came to nothing.
    pub fn give_back(&mut self, weight: u32, now: u64) {
        self.settle(now, most(self.rate));
        self.shares = self.shares.saturating_add(shares(weight, self.rate.per_ms)).min(most(self.rate));
    }

    /// Goes on with another rate. What was saved up stays so, as far as the new rate lets it.
    pub fn change(&mut self, rate: Rate, now: u64) {
        self.settle(now, most(self.rate));
        let scaled = u128::from(self.shares) * u128::from(rate.per_ms) / u128::from(self.rate.per_ms.max(1));
        self.shares = u64::try_from(scaled).unwrap_or(u64::MAX).min(most(rate));
        self.rate = rate;
    }

    /// Whether nothing is missing, so that a new bucket would do as well.
    pub fn is_full(&self, now: u64) -> bool {
        self.come(now) >= most(self.rate)
    }

    /// Whole tokens that are saved up now.
    pub fn left(&self, now: u64) -> u64 {
        self.come(now).min(most(self.rate)) / self.rate.per_ms.max(1)
    }

    fn settle(&mut self, now: u64, most: u64) {
        self.shares = self.come(now).min(most);
        self.at = self.at.max(now);
    }
}

fn shares(tokens: u32, per_ms: u64) -> u64 {
    u64::from(tokens).saturating_mul(per_ms)
}

fn most(rate: Rate) -> u64 {
    shares(rate.most(), rate.per_ms)
}
