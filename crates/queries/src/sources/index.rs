//! The sources in memory: by key, and how many of them have each object.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use jobhall_core::Time;
use jobhall_core::query::{SourceDigest, SourceKey, nearest};

use super::{BY_DIGEST, StoredSource};

/// Maximum number of sources of a hall.
pub const SOURCES_MAX: usize = 100_000;
/// Maximum size of all sources of a hall, in bytes.
pub const SOURCES_BYTES_MAX: u64 = 1 << 40;
/// Maximum number of keys that are compared with one that was not found.
const COMPARED: usize = 10_000;
/// Maximum number of keys that are suggested.
const SUGGESTED: usize = 3;

/// A source, and the rev of its record.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub source: StoredSource,
    pub rev: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    known: BTreeMap<SourceKey, Entry>,
    /// The number of sources of each object.
    objects: HashMap<SourceDigest, usize>,
    bytes: u64,
}

impl Index {
    pub fn entry(&self, key: &SourceKey) -> Option<&Entry> {
        self.known.get(key)
    }

    pub fn digest(&self, key: &SourceKey) -> Option<SourceDigest> {
        self.entry(key).map(|entry| entry.source.digest)
    }

    pub fn has_object(&self, digest: &SourceDigest) -> bool {
        self.objects.contains_key(digest)
    }

    pub fn insert(&mut self, entry: Entry) {
        self.remove(&entry.source.key);
        *self.objects.entry(entry.source.digest).or_default() += 1;
        self.bytes = self.bytes.saturating_add(entry.source.size);
        self.known.insert(entry.source.key.clone(), entry);
    }

    pub fn remove(&mut self, key: &SourceKey) {
        let Some(entry) = self.known.remove(key) else { return };
        self.bytes = self.bytes.saturating_sub(entry.source.size);
        if let Some(count) = self.objects.get_mut(&entry.source.digest) {
            *count -= 1;
            if *count == 0 {
                self.objects.remove(&entry.source.digest);
            }
        }
    }

    /// Whether there is room for this source in the place of the one with its key.
    pub fn check(&self, source: &StoredSource) -> Result<(), String> {
        self.check_bounds(source, SOURCES_MAX, SOURCES_BYTES_MAX)
    }

    fn check_bounds(&self, source: &StoredSource, count: usize, bytes: u64) -> Result<(), String> {
        let before = self.entry(&source.key).map(|entry| entry.source.size);
        if before.is_none() && self.known.len() >= count {
            return Err(format!("there are {count} sources, which is the limit; remove some of them"));
        }
        let others = self.bytes - before.unwrap_or(0);
        if others.saturating_add(source.size) > bytes {
            return Err(format!(
                "all sources together would have more than {bytes} bytes, which is the limit"
            ));
        }
        Ok(())
    }

    /// The sources whose keys begin with this text, after another text.
    pub fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<StoredSource> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let range = self.known.range::<str, _>((from, Bound::Unbounded));
        let found = range.take_while(|(key, _)| key.as_str().starts_with(prefix));
        found.take(limit).map(|(_, entry)| entry.source.clone()).collect()
    }

    /// The keys that were probably meant: those with the same last name, and those that differ in two letters at most.
    pub fn nearest(&self, key: &SourceKey) -> Vec<String> {
        let last = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
        let name = last(key.as_str());
        let keys = || self.known.keys().map(SourceKey::as_str).take(COMPARED);
        let same = keys().filter(|known| last(known) == name).map(str::to_owned);
        let mut all: Vec<String> = Vec::new();
        for near in same.take(SUGGESTED).chain(nearest(key.as_str(), keys())) {
            if !all.contains(&near) {
                all.push(near);
            }
        }
        all.truncate(SUGGESTED);
        all
    }

    /// Some of the sources that are named by their digest and were last used before a time.
    pub fn unused(&self, before: Time, limit: usize) -> Vec<SourceKey> {
        let named = self.known.range::<str, _>((Bound::Included(BY_DIGEST), Bound::Unbounded));
        let named = named.take_while(|(key, _)| key.as_str().starts_with(BY_DIGEST));
        let unused = named.filter(|(_, entry)| entry.source.at < before);
        unused.take(limit).map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(key: &str, size: u64) -> StoredSource {
        let digest = SourceDigest([u8::try_from(size % 256).unwrap(); 32]);
        let (key, media_type) = (SourceKey::new(key).unwrap(), "text/csv".to_owned());
        StoredSource { key, digest, size, media_type, at: Time::EPOCH }
    }

    fn index(sources: &[StoredSource]) -> Index {
        let mut index = Index::default();
        sources.iter().for_each(|source| index.insert(Entry { source: source.clone(), rev: 1 }));
        index
    }

    #[test]
    fn the_limits_count_each_key_once() {
        let full = index(&[source("a", 10), source("b", 20)]);
        let check = |source: &StoredSource, count, bytes| full.check_bounds(source, count, bytes);
        assert_eq!(check(&source("c", 1), 3, 31), Ok(()));
        let many = check(&source("c", 1), 2, 99).unwrap_err();
        assert!(many.starts_with("there are 2 sources, which is the limit"), "{many}");
        let large = check(&source("c", 2), 3, 31).unwrap_err();
        assert!(large.contains("more than 31 bytes"), "{large}");
        assert_eq!(check(&source("b", 21), 2, 31), Ok(()), "what is replaced does not count");
        assert!(check(&source("b", 22), 2, 31).is_err());
        assert!(check(&source("b", u64::MAX), 2, u64::MAX - 1).is_err(), "no overflow");
    }

    #[test]
    fn an_object_is_named_until_its_last_source_goes() {
        let mut index = index(&[source("a", 7), source("b", 7), source("c", 8)]);
        let object = source("a", 7).digest;
        index.remove(&source("a", 7).key);
        assert!(index.has_object(&object));
        index.insert(Entry { source: source("b", 9), rev: 2 });
        assert!(!index.has_object(&object));
        assert_eq!(index.bytes, 17);
        index.remove(&source("a", 7).key);
        assert_eq!(index.bytes, 17, "nothing is counted twice");
    }

    #[test]
    fn pages_follow_the_keys_and_end_with_the_prefix() {
        let keys = ["a", "b-/x", "b/x", "b/y", "b0", "ba"];
        let index = index(&keys.map(|key| source(key, 1)));
        let page = |prefix: &str, after: Option<&str>, limit| {
            let found = index.page(prefix, after, limit);
            found.iter().map(|source| source.key.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(page("", None, 9), keys);
        assert_eq!(page("b/", None, 9), ["b/x", "b/y"]);
        assert_eq!(page("b", Some("b/x"), 2), ["b/y", "b0"]);
        assert_eq!(page("b/", Some("a"), 1), ["b/x"], "a key before the prefix");
        assert!(page("b/", Some("b0"), 9).is_empty() && page("c", None, 9).is_empty());
    }

    #[test]
    fn a_key_that_is_not_there_is_nearest_to_those_of_the_same_name() {
        let index = index(&["data/sales.csv", "sales.csv", "other"].map(|key| source(key, 1)));
        let near = |key: &str| index.nearest(&SourceKey::new(key).unwrap());
        assert_eq!(near("salse.csv"), ["sales.csv"]);
        assert_eq!(near("x/sales.csv"), ["data/sales.csv", "sales.csv"]);
        assert!(near("nothing").is_empty());
    }
}
