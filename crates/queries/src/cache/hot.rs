//! The bytes of small values, those used last, with what an answer needs besides them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jobhall_core::JobId;
use jobhall_core::query::{INLINE_VALUE_BYTES, Identity};
use lru::LruCache;

/// Bytes that a value uses besides its own: the entry and its place in the table and the list.
const OVERHEAD: usize = 256;
/// Bytes of a part; there are as many parts as the budget has, up to 16.
const PART: usize = 4 << 20;
const PARTS: usize = 16;

/// A value that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotValue {
    pub job: JobId,
    pub bytes: Bytes,
    pub media_type: Bytes,
    /// The entity tag with its quotes.
    pub tag: Bytes,
    /// Whether something was asked for while it was made, so that it may have become wrong.
    pub asked: bool,
}

impl HotValue {
    fn weight(&self) -> usize {
        self.bytes.len() + self.media_type.len() + self.tag.len() + OVERHEAD
    }
}

struct Part {
    values: LruCache<Identity, HotValue>,
    bytes: usize,
}

pub(crate) struct Hot {
    parts: Vec<Mutex<Part>>,
    /// Budget of a part.
    most: usize,
}

impl Hot {
    /// A cache of so many bytes; none are kept with 0.
    pub fn new(bytes: usize) -> Hot {
        let count = (bytes / PART).clamp(1, PARTS);
        let part = || Part { values: LruCache::unbounded(), bytes: 0 };
        Hot { parts: (0..count).map(|_| Mutex::new(part())).collect(), most: bytes / count }
    }

    fn part(&self, identity: &Identity) -> MutexGuard<'_, Part> {
        let part = &self.parts[usize::from(identity.bytes()[9]) % self.parts.len()];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, which counts as used.
    pub fn get(&self, identity: &Identity) -> Option<HotValue> {
        self.part(identity).values.get(identity).cloned()
    }

    /// Keeps a value if it is small enough.
    pub fn put(&self, identity: Identity, value: HotValue) {
        let weight = value.weight();
        if value.bytes.len() > INLINE_VALUE_BYTES || weight > self.most {
            return;
        }
        let mut part = self.part(&identity);
        part.bytes += weight;
        if let Some(before) = part.values.put(identity, value) {
            part.bytes -= before.weight();
        }
        while part.bytes > self.most {
            let Some((_, dropped)) = part.values.pop_lru() else { break };
            part.bytes -= dropped.weight();
        }
    }

    pub fn remove(&self, identity: &Identity) {
        let mut part = self.part(identity);
        if let Some(dropped) = part.values.pop(identity) {
            part.bytes -= dropped.weight();
        }
    }

    pub fn clear(&self) {
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.values.clear();
            part.bytes = 0;
        }
    }

    /// The bytes that its values use.
    pub fn bytes(&self) -> u64 {
        let bytes = |part: &Mutex<Part>| part.lock().unwrap_or_else(PoisonError::into_inner).bytes as u64;
        self.parts.iter().map(bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity_of;

    fn value(bytes: usize) -> HotValue {
        HotValue {
            job: JobId::new(1).unwrap(),
            bytes: vec![b'x'; bytes].into(),
            media_type: Bytes::new(),
            tag: Bytes::new(),
            asked: false,
        }
    }

    #[test]
    fn those_used_last_stay_within_the_budget() {
        let hot = Hot::new(3 * (100 + OVERHEAD));
        let ids: Vec<Identity> = (0..5u8).map(|n| identity_of(&[n])).collect();
        for id in &ids[..3] {
            hot.put(*id, value(100));
        }
        assert!(hot.get(&ids[0]).is_some());
        hot.put(ids[3], value(100));
        let there: Vec<bool> = ids.iter().map(|id| hot.get(id).is_some()).collect();
        assert_eq!(there, [true, false, true, true, false]);
        assert_eq!(hot.bytes(), 3 * (100 + OVERHEAD as u64));
        hot.put(ids[0], value(50));
        hot.remove(&ids[2]);
        assert_eq!(hot.bytes(), (150 + 2 * OVERHEAD) as u64);
        hot.clear();
        assert_eq!((hot.bytes(), hot.get(&ids[0])), (0, None));
    }

    #[test]
    fn a_value_that_is_too_large_is_not_kept_and_removes_nothing() {
        let hot = Hot::new(10_000);
        let (small, large) = (identity_of(b"small"), identity_of(b"large"));
        hot.put(small, value(10));
        hot.put(large, value(10_000));
        assert!(hot.get(&small).is_some() && hot.get(&large).is_none());
        let all = Hot::new(64 << 20);
        all.put(large, value(INLINE_VALUE_BYTES + 1));
        assert_eq!(all.bytes(), 0);
        let none = Hot::new(0);
        none.put(small, value(0));
        assert_eq!(none.bytes(), 0);
    }
}
