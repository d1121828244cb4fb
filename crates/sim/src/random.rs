//! Seeded randomness. Most draws are named (`roll`): they depend on the seed and on their purpose, not on the
//! number of earlier draws, so that a run changes little when an action is dropped from its script.

/// Spreads the bits of a number over all 64.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    /// A stream that depends only on the seed and these names.
    pub fn named(seed: u64, names: &[u64]) -> Random {
        let folded = names.iter().fold(mix(seed ^ 0x5851_f42d_4c95_7f2d), |sum, &name| {
            mix(sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(name))
        });
        Random(folded)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`, 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }

    /// A position in a list of this length.
    pub fn at(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number from `least` to `most`.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.at(from.len())]
    }

    /// One of these, by weight.
    pub fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let mut left = self.below(from.iter().map(|(weight, _)| weight).sum());
        for &(weight, what) in from {
            if left < weight {
                return what;
            }
            left -= weight;
        }
        from[0].1
    }
}
