//! Removing the values that were used longest ago while there are more than the bounds allow.

use jobhall_core::Time;

use super::gone::Gone;
use super::index::{Candidate, Index, first_of};
use super::us;
use crate::{Error, Queries};

/// Values that are removed by one request to the kernel.
const STEP: usize = 500;
/// A value is not removed before those who waited for it have read it.
const FRESH_MS: u64 = 10_000;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub values: u64,
    pub bytes: u64,
}

impl Queries {
    /// Removes the values that were used longest ago until the bounds hold, except pinned ones, the inputs of open jobs, and
    /// what was made within the last seconds before `now`.
    ///
    /// # Errors
    /// The store cannot be read, or the kernel refuses.
    pub async fn evict(&self, now: Time) -> Result<Removed, Error> {
        let cache = &self.0.cache;
        if !cache.is_over() {
            return Ok(Removed::default());
        }
        let _turn = cache.evicting.lock().await;
        self.pins().await?;
        let (mut evicted, before) = (Removed::default(), us(now.minus_ms(FRESH_MS)));
        // A value that the kernel spares counts as used, so each is tried once.
        while cache.is_over() {
            let victims = self.victims(before).await;
            if victims.is_empty() {
                break;
            }
            let jobs = victims.iter().map(|victim| (victim.job, Some(victim.identity))).collect();
            let spared = self.remove(jobs, Gone::Evicted).await?;
            for victim in victims {
                if spared.contains(&victim.job) {
                    cache.index.hit(&victim.identity, us(now).max(before));
                } else {
                    evicted.values += 1;
                    evicted.bytes += victim.size;
                }
            }
        }
        cache.counts.evictions.fetch_add(evicted.values, std::sync::atomic::Ordering::Relaxed);
        Ok(evicted)
    }

    /// The values to remove next.
    async fn victims(&self, before: u64) -> Vec<Candidate> {
        let cache = &self.0.cache;
        let surplus = usize::try_from(cache.values().saturating_sub(cache.bounds.values)).unwrap_or(STEP);
        let most = if cache.bytes() > cache.bounds.bytes { STEP } else { surplus.min(STEP) };
        let fits = |victim: &Candidate| victim.used < before && !cache.pins.contains(&victim.identity);
        let mut lists = Vec::with_capacity(Index::PARTS);
        for part in 0..Index::PARTS {
            lists.push(cache.index.oldest(part, most, fits));
            tokio::task::yield_now().await;
        }
        let (mut values, mut bytes) = (surplus, cache.bytes().saturating_sub(cache.bounds.bytes));
        let needed = |victim: &Candidate| {
            let needed = values > 0 || bytes > 0;
            values = values.saturating_sub(1);
            bytes = bytes.saturating_sub(victim.size);
            needed
        };
        let mut needed = needed;
        first_of(lists, most).into_iter().take_while(|victim| needed(victim)).collect()
    }
}
