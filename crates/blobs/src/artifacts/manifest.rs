//! The manifest of one attempt: its file and its state in memory.

use std::sync::{Arc, Mutex, MutexGuard};

use super::record::{RECORD_BYTES, encode};
use super::state::State;
use super::{Artifact, KeepError, RECORDS};
use crate::file_store::{FileStore, Name, Section, Shelf, Write};
use crate::object_reader::read_full;
use crate::{AttemptKey, BlobError, guard};

#[derive(Debug)]
pub(super) struct Manifest {
    attempt: AttemptKey,
    file_store: Arc<dyn FileStore>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    state: Option<State>,
    /// The directory entry of the file is durable.
    durable: bool,
    /// A sync failed: the content of the disk is unknown.
    broken: bool,
}

impl Manifest {
    pub(super) fn new(attempt: AttemptKey, file_store: Arc<dyn FileStore>) -> Manifest {
        Manifest { attempt, file_store, known: Mutex::default() }
    }

    pub(super) fn is_broken(&self) -> bool {
        guard(&self.known).broken
    }

    /// Whether its file may exist.
    pub(super) fn may_be_there(&self) -> Result<bool, BlobError> {
        self.file_store.may_have(&self.name())
    }

    /// Reads the current state.
    pub(super) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T, BlobError> {
        Ok(look(self.loaded(&mut guard(&self.known))?))
    }

    pub(super) fn add(&self, artifact: &Artifact) -> Result<(), KeepError> {
        let mut known = guard(&self.known);
        if known.broken {
            return Err(BlobError::Broken { what: self.what() }.into());
        }
        match self.write(&mut known, artifact) {
            // The cached state is outdated: read and decide again.
            Err(KeepError::Blob(BlobError::Overtaken { .. })) => self.write(&mut known, artifact)?,
            written => written?,
        }
        if let Err(error) = self.file_store.sync(&[&self.name()], !known.durable) {
            // The system may drop unwritten data and report the next sync as a success.
            *known = Known { broken: true, ..Known::default() };
            return Err(error.into());
        }
        known.durable = true;
        Ok(())
    }

    /// Writes after the valid records, and updates the state only then. After an error the state of the file is
    /// unknown.
    fn write(&self, known: &mut MutexGuard<'_, Known>, artifact: &Artifact) -> Result<(), KeepError> {
        let state = self.loaded(known)?;
        state.check(artifact)?;
        let record = encode(state.records, artifact);
        let write = Write {
            name: &self.name(),
            was: state.found as u64,
            at: state.end as u64,
            bytes: &record,
            modified_ms: Some(artifact.at_ms),
        };
        if let Err(error) = self.file_store.write(&[write]) {
            known.state = None;
            return Err(error.into());
        }
        self.loaded(known)?.take(artifact.clone(), record.len());
        Ok(())
    }

    fn loaded<'a>(&self, known: &'a mut MutexGuard<'_, Known>) -> Result<&'a mut State, BlobError> {
        let state = match known.state.take() {
            Some(state) => state,
            None => State::parse(&self.bytes()?, &|| self.what())?,
        };
        Ok(known.state.insert(state))
    }

    /// The whole file, whose size is bounded by the limits.
    fn bytes(&self) -> Result<Vec<u8>, BlobError> {
        let Some(opened) = self.file_store.open(&self.name())? else { return Ok(Vec::new()) };
        let (len, most) = (opened.bytes, RECORDS as usize * RECORD_BYTES);
        let len = usize::try_from(len).ok().filter(|len| *len <= most).ok_or_else(|| BlobError::Damaged {
            what: self.what(),
            why: format!("it has {len} bytes, more than were ever written"),
        })?;
        let mut bytes = vec![0; len];
        let read = read_full(opened.content.as_ref(), &mut bytes, 0);
        match read.map_err(|error| BlobError::io("read", self.what(), error))? {
            count if count == len => Ok(bytes),
            _ => Err(BlobError::Damaged { what: self.what(), why: "its end is missing".to_owned() }),
        }
    }

    /// Removes the file if it is old; returns its size.
    pub(super) fn remove(&self, is_old: impl Fn(u64) -> bool) -> Result<Option<u64>, BlobError> {
        match self.file_store.look(&self.name())? {
            Some(found) if found.regular && is_old(found.modified_ms) => {
                Ok(self.file_store.remove(&self.name(), found.modified_ms)?.then_some(found.bytes))
            }
            _ => Ok(None),
        }
    }

    fn name(&self) -> Name {
        Shelf::of(Section::Artifacts, self.attempt.shard()).file(self.attempt.to_string())
    }

    fn what(&self) -> String {
        format!("artifacts {}", self.attempt)
    }
}
