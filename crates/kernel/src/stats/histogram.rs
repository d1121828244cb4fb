//! Histograms of durations: a fixed set of buckets regardless of the number of durations.

/// Upper bounds for waits and runs, in milliseconds: up to a day.
pub const MS_BOUNDS: &[u64] = &[
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000,
    600_000, 1_800_000, 3_600_000, 14_400_000, 86_400_000,
];
/// Upper bounds for commits, in microseconds: from a fast disk to a failing one.
pub const US_BOUNDS: &[u64] = &[
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    5_000_000,
];

/// Durations by bucket. A duration is in the first bucket whose bound it does not exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One more than there are bounds: the last is for longer durations.
    buckets: Vec<u64>,
    /// The sum of all durations.
    pub sum: u64,
    /// The number of durations.
    pub count: u64,
}

impl Histogram {
    /// An empty one with these upper bounds, in order.
    pub fn new(bounds: &'static [u64]) -> Histogram {
        Histogram { bounds, buckets: vec![0; bounds.len() + 1], sum: 0, count: 0 }
    }

    /// Adds one duration.
    pub fn add(&mut self, duration: u64) {
        // Most are short, so the first few steps find the bucket.
        let at = self.bounds.iter().position(|&bound| duration <= bound).unwrap_or(self.bounds.len());
        self.buckets[at] += 1;
        self.sum = self.sum.saturating_add(duration);
        self.count += 1;
    }

    /// Each bound with the number of durations in its bucket; none is the bound of the last.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        self.bounds.iter().copied().map(Some).chain([None]).zip(self.buckets.iter().copied())
    }

    /// Each bound with the number of durations up to it; none is the bound of the last.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        self.buckets().scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }

    /// The duration that this share (of 1,000) does not exceed, interpolated linearly within its bucket. None if there
    /// are no durations; the last bound if it is beyond.
    pub fn quantile(&self, per_mille: u64) -> Option<u64> {
        let rank = (self.count * per_mille.min(1_000)).div_ceil(1_000).max(1);
        let (mut low, mut before) = (0, 0);
        for (bound, upto) in self.cumulative() {
            let Some(high) = bound else { break };
            if upto >= rank {
                return Some(low + (high - low) * (rank - before) / (upto - before));
            }
            (low, before) = (high, upto);
        }
        (self.count > 0).then_some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_that_holds_it() {
        let mut histogram = Histogram::new(&[10, 100]);
        [0, 10, 11, 100, 101, u64::MAX].into_iter().for_each(|duration| histogram.add(duration));
        let told: Vec<_> = histogram.cumulative().collect();
        assert_eq!(told, [(Some(10), 2), (Some(100), 4), (None, 6)]);
        assert_eq!((histogram.count, histogram.sum), (6, u64::MAX));
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let mut histogram = Histogram::new(&[10, 100]);
        assert_eq!(histogram.quantile(500), None);
        (0..90).for_each(|_| histogram.add(5));
        (0..10).for_each(|_| histogram.add(60));
        assert_eq!(histogram.quantile(450), Some(5));
        assert_eq!(histogram.quantile(900), Some(10));
        assert_eq!(histogram.quantile(950), Some(55));
        assert_eq!(histogram.quantile(1_000), Some(100));
        histogram.add(1_000);
        assert_eq!(histogram.quantile(1_000), Some(100), "nothing is known beyond the last bound");
    }
}
