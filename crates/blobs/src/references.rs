//! The set of referenced objects, in a fixed amount of memory.
//!
//! This is a Bloom filter: every reference sets three bits, and an object whose bits are all set counts as
//! referenced. With ten million references, fewer than one in a hundred unreferenced objects is kept by mistake,
//! and with fewer references hardly any. Such an object is kept for one walk only: the next walk sets other bits.

use crate::Digest;

/// 2 to this power bits are 16 MiB, of which the system allocates only the pages that are written.
const FIELD: u32 = 27;

#[derive(Debug)]
pub(crate) struct References {
    bits: Vec<u64>,
    salt: u64,
}

impl References {
    /// An empty set. Another salt selects other bits.
    pub(crate) fn new(salt: u64) -> References {
        let odd = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        References { bits: vec![0; 1 << (FIELD - 6)], salt: odd }
    }

    pub(crate) fn add(&mut self, digest: &Digest) {
        for (word, bit) in places(self.salt, digest) {
            self.bits[word] |= bit;
        }
    }

    /// True for all added digests, and for very few others.
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        places(self.salt, digest).all(|(word, bit)| self.bits[word] & bit != 0)
    }
}

/// A digest is already random: each third of it selects a bit.
fn places(salt: u64, digest: &Digest) -> impl Iterator<Item = (usize, u64)> {
    let parts = digest.as_bytes().chunks_exact(8).take(3);
    let numbers: Vec<u64> =
        parts.map(|part| part.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))).collect();
    numbers.into_iter().map(move |number| {
        let file_store = number.wrapping_mul(salt) >> (u64::BITS - FIELD);
        (usize::try_from(file_store >> 6).unwrap_or(0), 1 << (file_store & 63))
    })
}

#[cfg(test)]
mod tests {
    use super::References;
    use crate::Digest;

    #[test]
    fn what_was_added_is_there_and_hardly_anything_else() {
        let digest = |n: u32| Digest::of(&n.to_le_bytes());
        let mut references = References::new(5);
        assert!(!(0..100_000).any(|n| references.has(&digest(n))), "nothing at first");
        (0..100_000).for_each(|n| references.add(&digest(n)));
        assert!((0..100_000).all(|n| references.has(&digest(n))));
        assert_eq!((100_000..200_000).filter(|n| references.has(&digest(*n))).count(), 0);
    }

    #[test]
    fn another_salt_spares_others() {
        let alike = |salt| {
            let mut references = References::new(salt);
            references.bits.iter_mut().step_by(2).for_each(|word| *word = u64::MAX);
            (0..64_u32).map(|n| references.has(&Digest::of(&n.to_le_bytes()))).collect::<Vec<_>>()
        };
        assert_eq!(alike(1), alike(1));
        assert_ne!(alike(1), alike(2));
    }
}
