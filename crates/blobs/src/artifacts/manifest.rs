//! The manifest of one attempt: its file, and what is known of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};

use super::record::{RECORD_BYTES, encode};
use super::state::State;
use super::{Artifact, KeepError, RECORDS};
use crate::folder::Folder;
use crate::objects::set_modified;
use crate::{AttemptKey, BlobError, guard};

#[derive(Debug)]
pub(super) struct Manifest {
    attempt: AttemptKey,
    folder: Arc<Folder>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    state: Option<State>,
    /// The entry of the file is on the disk.
    durable: bool,
    /// A sync failed: nobody knows what the disk holds.
    broken: bool,
}

impl Manifest {
    pub(super) fn new(attempt: AttemptKey, folder: Arc<Folder>) -> Manifest {
        Manifest { attempt, folder, known: Mutex::default() }
    }

    pub(super) fn is_broken(&self) -> bool {
        guard(&self.known).broken
    }

    /// Whether its file is there, whatever is in it.
    pub(super) fn is_there(&self) -> Result<bool, BlobError> {
        self.folder.hints_at(&self.shard_name(), &self.attempt.to_string())
    }

    /// Looks at what counts.
    pub(super) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T, BlobError> {
        Ok(look(self.loaded(&mut guard(&self.known))?))
    }

    /// Adds a record, durably.
    pub(super) fn add(&self, artifact: &Artifact) -> Result<(), KeepError> {
        let mut known = guard(&self.known);
        if known.broken {
            return Err(BlobError::Broken { what: self.what() }.into());
        }
        self.loaded(&mut known)?.check(artifact)?;
        let shard = self.folder.make(&self.shard_name())?;
        let file = shard.create(&self.attempt.to_string())?;
        self.write(&mut known, &file, artifact)?;
        let synced = file.sync_all().map_err(|e| BlobError::io("sync", self.what(), e));
        let synced = synced.and_then(|()| if known.durable { Ok(()) } else { shard.sync() });
        if let Err(error) = synced {
            // The system may drop what it could not write and call the next sync a success.
            *known = Known { broken: true, ..Known::default() };
            return Err(error.into());
        }
        known.durable = true;
        Ok(())
    }

    /// Writes behind what counts, and only then lets it count.
    fn write(
        &self,
        known: &mut MutexGuard<'_, Known>,
        file: &File,
        artifact: &Artifact,
    ) -> Result<(), BlobError> {
        let state = self.loaded(known)?;
        let record = encode(state.records, artifact);
        let end = state.end as u64;
        let tidy = if state.ragged { file.set_len(end) } else { Ok(()) };
        let written = tidy.and_then(|()| {
            state.ragged = true;
            file.write_all_at(&record, end)
        });
        written.map_err(|e| BlobError::io("write", self.what(), e))?;
        set_modified(file, &self.what(), artifact.at_ms)?;
        state.take(artifact.clone(), record.len());
        Ok(())
    }

    fn loaded<'a>(&self, known: &'a mut MutexGuard<'_, Known>) -> Result<&'a mut State, BlobError> {
        let state = match known.state.take() {
            Some(state) => state,
            None => State::parse(&self.bytes()?, &|| self.what())?,
        };
        Ok(known.state.insert(state))
    }

    /// The whole file, which has a bound like everything that was put into it.
    fn bytes(&self) -> Result<Vec<u8>, BlobError> {
        let Some(shard) = self.folder.inner(&self.shard_name())? else { return Ok(Vec::new()) };
        let Some(file) = shard.read(&self.attempt.to_string())? else { return Ok(Vec::new()) };
        let trouble = |error| BlobError::io("read", self.what(), error);
        let len = file.metadata().map_err(trouble)?.len();
        let most = RECORDS as usize * RECORD_BYTES;
        let len = usize::try_from(len).ok().filter(|len| *len <= most).ok_or_else(|| BlobError::Damaged {
            what: self.what(),
            why: format!("it has {len} bytes, more than were ever written"),
        })?;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0).map_err(trouble)?;
        Ok(bytes)
    }

    /// Removes the file if it is old; how many bytes it had.
    pub(super) fn remove(&self, is_old: impl Fn(u64) -> bool) -> Result<Option<u64>, BlobError> {
        let Some(shard) = self.folder.inner(&self.shard_name())? else { return Ok(None) };
        let name = self.attempt.to_string();
        match shard.look(&name)? {
            Some(found) if found.regular && is_old(found.modified_ms) => {
                Ok(shard.remove(&name)?.then_some(found.bytes))
            }
            _ => Ok(None),
        }
    }

    fn shard_name(&self) -> String {
        format!("{:02x}", self.attempt.shard())
    }

    fn what(&self) -> String {
        format!("artifacts {}", self.attempt)
    }
}
