//! Identities whose value was removed, those that were removed last: they say why a value is missing.

use std::num::NonZeroUsize;
use std::sync::Mutex;

use jobhall_core::query::Identity;
use lru::LruCache;

use super::lock;

const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(65_535);

/// Why a value was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The bounds of the cache.
    Evicted,
    /// On request.
    Dropped,
    /// A newer value has replaced it, or it answers nobody.
    Superseded,
}

pub(crate) struct Memory {
    gone: Mutex<LruCache<Identity, Gone>>,
    /// By a hash of the text of a query: a hash of the versions of its commands.
    versions: Mutex<LruCache<Identity, Identity>>,
}

impl Default for Memory {
    fn default() -> Memory {
        let versions = Mutex::new(LruCache::new(REMEMBERED));
        Memory { gone: Mutex::new(LruCache::new(REMEMBERED)), versions }
    }
}

impl Memory {
    pub fn remember(&self, identity: Identity, why: Gone) {
        if why != Gone::Superseded {
            lock(&self.gone).put(identity, why);
        }
    }

    /// Why the value of this identity is gone; it is forgotten.
    pub fn take(&self, identity: &Identity) -> Option<Gone> {
        lock(&self.gone).pop(identity)
    }

    /// Remembers that a text was computed by these versions; whether it was by others before.
    pub fn was_another_version(&self, text: Identity, versions: Identity) -> bool {
        lock(&self.versions).put(text, versions).is_some_and(|before| before != versions)
    }
}
