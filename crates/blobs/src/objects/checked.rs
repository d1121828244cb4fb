//! Objects that were verified a short time ago, so that each part of a large object is returned without hashing all of
//! it again.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::file_store::Found;
use crate::{Digest, guard};

/// How long a verified object counts as sound, if its file does not change.
const FRESH: Duration = Duration::from_secs(600);
/// Maximum number of objects; then all are forgotten.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Checked(Mutex<HashMap<Digest, Seen>>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Instant,
    bytes: u64,
    modified_ms: u64,
}

impl Checked {
    /// Whether the object with this file was verified a short time ago.
    pub(super) fn knows(&self, digest: &Digest, found: &Found) -> bool {
        let seen = guard(&self.0).get(digest).copied();
        seen.is_some_and(|seen| {
            (seen.bytes, seen.modified_ms) == (found.bytes, found.modified_ms) && seen.at.elapsed() < FRESH
        })
    }

    pub(super) fn remember(&self, digest: Digest, found: &Found) {
        let mut seen = guard(&self.0);
        if seen.len() >= MOST {
            seen.clear();
        }
        let (at, bytes, modified_ms) = (Instant::now(), found.bytes, found.modified_ms);
        seen.insert(digest, Seen { at, bytes, modified_ms });
    }
}
