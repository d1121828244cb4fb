//! A hash map for trusted numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are numbers that the engine assigns: clients cannot choose them, so one multiplication is a
/// sufficient hash, and the order is the same in every run.
pub type IdMap<K, V> = HashMap<K, V, IdHash>;

/// The hasher of such numbers.
pub type IdHash = BuildHasherDefault<IdHasher>;

/// The hasher of [`IdMap`].
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}
