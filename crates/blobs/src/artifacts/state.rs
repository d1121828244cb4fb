//! The state that results from the records of a manifest, and the limits on additions.

use std::collections::BTreeMap;

use super::record::{RECORD_BYTES, decode};
use super::{ARTIFACTS, Artifact, KEPT_BYTES, KeepError, NAMES_BYTES, RECORDS};
use crate::{ArtifactName, BlobError};

/// The current state: the last record of each name.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) kept: BTreeMap<ArtifactName, Artifact>,
    /// Total size of the artifacts.
    pub(super) size: u64,
    names: usize,
    pub(super) records: u32,
    /// The offset of the next record.
    pub(super) end: usize,
    /// The length of the file; longer than `end` if an interrupted write left bytes.
    pub(super) found: usize,
}

impl State {
    /// Each record was synced before the next was started, so a crash invalidates only the last one. Any other
    /// invalid record is damage.
    pub(super) fn parse(bytes: &[u8], what: &dyn Fn() -> String) -> Result<State, BlobError> {
        let mut state = State::default();
        while let Some((artifact, len)) = decode(state.records, &bytes[state.end..]) {
            state.take(artifact, len);
        }
        let rest = &bytes[state.end..];
        let goes_on = |at| decode(state.records + 1, &rest[at..]).is_some();
        if rest.len() > RECORD_BYTES || (1..rest.len()).any(goes_on) {
            let why = format!("the record at {} is not what was written", state.end);
            return Err(BlobError::Damaged { what: what(), why });
        }
        state.found = bytes.len();
        Ok(state)
    }

    /// Adds a record of this length.
    pub(super) fn take(&mut self, artifact: Artifact, len: usize) {
        self.records += 1;
        self.end += len;
        self.found = self.end;
        self.size = self.size.saturating_add(artifact.size);
        self.names += artifact.name.as_str().len();
        if let Some(before) = self.kept.insert(artifact.name.clone(), artifact) {
            self.size = self.size.saturating_sub(before.size);
            self.names -= before.name.as_str().len();
        }
    }

    /// Whether one more artifact may be stored.
    pub(super) fn check(&self, artifact: &Artifact) -> Result<(), KeepError> {
        let before = self.kept.get(&artifact.name);
        let new_name = if before.is_none() { artifact.name.as_str().len() } else { 0 };
        let size = self.size.saturating_sub(before.map_or(0, |before| before.size));
        match () {
            () if new_name > 0 && self.kept.len() >= ARTIFACTS => {
                Err(KeepError::TooMany { limit: ARTIFACTS })
            }
            () if self.records >= RECORDS => Err(KeepError::TooOften { limit: RECORDS }),
            () if self.names + new_name > NAMES_BYTES => Err(KeepError::Names { limit: NAMES_BYTES }),
            () if size.saturating_add(artifact.size) > KEPT_BYTES => {
                Err(KeepError::TooLarge { limit: KEPT_BYTES })
            }
            () => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::encode;
    use super::{ARTIFACTS, Artifact, ArtifactName, KEPT_BYTES, KeepError, NAMES_BYTES, RECORDS, State};
    use crate::{Digest, MediaType};

    fn artifact(name: &str, size: u64) -> Artifact {
        let name = ArtifactName::new(name).unwrap();
        Artifact { name, digest: Digest::of(b""), size, media_type: MediaType::unknown(), at_ms: 0 }
    }

    fn filled(count: usize) -> State {
        let mut state = State::default();
        (0..count).for_each(|n| state.take(artifact(&format!("n{n}"), 1), 10));
        state
    }

    #[test]
    fn the_last_record_of_a_name_counts() {
        let mut state = State::default();
        for (name, size) in [("a", 5), ("b", 7), ("a", 2)] {
            state.take(artifact(name, size), 10);
        }
        assert_eq!((state.kept.len(), state.size, state.records, state.end), (2, 9, 3, 30));
        assert_eq!(state.names, 2);
    }

    #[test]
    fn everything_has_a_limit_and_replacing_needs_no_room() {
        let full = filled(ARTIFACTS);
        assert!(matches!(full.check(&artifact("one more", 1)), Err(KeepError::TooMany { .. })));
        assert!(full.check(&artifact("n7", 1)).is_ok());
        assert!(matches!(full.check(&artifact("n7", KEPT_BYTES)), Err(KeepError::TooLarge { .. })));
        let one = filled(1);
        assert!(one.check(&artifact("n0", KEPT_BYTES)).is_ok());
        assert!(matches!(one.check(&artifact("n1", KEPT_BYTES)), Err(KeepError::TooLarge { .. })));
        let often = State { records: RECORDS, ..filled(1) };
        assert!(matches!(often.check(&artifact("n0", 1)), Err(KeepError::TooOften { .. })));
        let wordy = State { names: NAMES_BYTES - 1, ..filled(1) };
        assert!(matches!(wordy.check(&artifact("xy", 1)), Err(KeepError::Names { .. })));
        assert!(wordy.check(&artifact("x", 1)).is_ok());
    }

    #[test]
    fn a_torn_end_is_dropped_and_damage_before_the_end_is_told() {
        let records: Vec<_> = (0..3).map(|n| encode(n, &artifact(&format!("n{n}"), 1))).collect();
        let (whole, two) = (records.concat(), records[0].len() + records[1].len());
        let parse = |bytes: &[u8]| State::parse(bytes, &|| "artifacts 1-1".to_owned());
        for cut in two..whole.len() {
            let state = parse(&whole[..cut]).unwrap();
            assert_eq!((state.kept.len(), state.end, state.found), (2, two, cut), "cut to {cut}");
        }
        let zeros = [&whole[..two], &[0; 70]].concat();
        assert_eq!(parse(&zeros).unwrap().kept.len(), 2, "zeros, as a crash may leave");
        for bit in 0..two * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&changed).unwrap_err().is_damage(), "bit {bit}");
        }
        let long = [&whole[..], &[0; 2_000]].concat();
        assert!(parse(&long).unwrap_err().is_damage(), "no write is that long");
    }
}
