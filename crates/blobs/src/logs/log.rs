//! One log in use. Its files are opened for each operation: with thousands of attempts running, files held open would
//! use up the limit of the process. What they hold is remembered.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::append::{AppendError, Appended, Chunk, Plan, plan};
use super::index::{Files, State};
use super::info::LogInfo;
use super::record::{Kind, Record};
use super::tail::Watchers;
use crate::folder::Folder;
use crate::{AttemptKey, BlobError, guard};

pub(crate) struct Log {
    attempt: AttemptKey,
    folder: Arc<Folder>,
    /// Held by the one writer, also while it syncs; readers do not wait for it.
    writing: Mutex<Durable>,
    state: Mutex<Option<State>>,
    broken: AtomicBool,
    pub(super) watchers: Mutex<Watchers>,
}

/// What is known to be on the disk. A log that was just opened may have been left by a crash: nothing is known.
#[derive(Debug, Default)]
struct Durable {
    /// All that was written.
    content: bool,
    /// The entries of its files.
    entries: bool,
}

impl Log {
    pub(super) fn new(attempt: AttemptKey, folder: Arc<Folder>) -> Log {
        Log {
            attempt,
            folder,
            writing: Mutex::default(),
            state: Mutex::default(),
            broken: AtomicBool::new(false),
            watchers: Mutex::default(),
        }
    }

    pub(super) fn info(&self) -> Result<LogInfo, BlobError> {
        Ok(LogInfo::from(self.state()?))
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(super) fn append(&self, chunk: &Chunk<'_>, limit: u64, sync: bool) -> Result<Appended, AppendError> {
        let mut durable = self.writer()?;
        let state = self.state()?;
        let plan = plan(&state, chunk, limit, &|| self.attempt.to_string())?;
        let files = self.files_made()?;
        self.compare(&files, chunk, plan.known)?;
        let state = self.add(&files, state, chunk, plan, &mut durable)?;
        if sync {
            self.sync(&files, &mut durable)?;
        }
        Ok(Appended { len: state.len, truncated: state.truncated })
    }

    /// The data is synced before the mark is written, so that a log with the mark has its data.
    pub(super) fn finish(&self, at_ms: u64) -> Result<LogInfo, BlobError> {
        let mut durable = self.writer()?;
        let state = self.state()?;
        let files = self.files_made()?;
        if !state.finished {
            if let Err(error) = files.data.sync_data() {
                return Err(self.broken_by(BlobError::io("sync", self.what(), error)));
            }
            let mark = Record::mark(at_ms, state.len, Kind::Finished);
            let state = State { finished: true, ..state };
            self.write(&files, state, &[], &[mark], &mut durable)?;
        }
        self.sync(&files, &mut durable)?;
        self.info()
    }

    fn add(
        &self,
        files: &Files,
        state: State,
        chunk: &Chunk<'_>,
        plan: Plan,
        durable: &mut Durable,
    ) -> Result<State, BlobError> {
        let bytes = &chunk.bytes[plan.known..plan.known + plan.fresh];
        let mut records = Vec::with_capacity(2);
        if !bytes.is_empty() {
            records.push(Record::data(chunk.at_ms, state.len, chunk.stream, bytes));
        }
        if plan.mark {
            records.push(Record::mark(chunk.at_ms, state.len + bytes.len() as u64, Kind::Truncated));
        }
        if records.is_empty() {
            return Ok(state);
        }
        let state = State { truncated: state.truncated || plan.mark, ..state };
        self.write(files, state, bytes, &records, durable)
    }

    /// Writes behind what counts, and only then lets it count.
    fn write(
        &self,
        files: &Files,
        state: State,
        bytes: &[u8],
        records: &[Record],
        durable: &mut Durable,
    ) -> Result<State, BlobError> {
        durable.content = false;
        let tidy = if state.ragged { files.cut(&state) } else { Ok(()) };
        if let Err(error) = tidy.and_then(|()| files.write(&state, bytes, records)) {
            if let Some(state) = guard(&self.state).as_mut() {
                state.ragged = true;
            }
            return Err(error);
        }
        let (len, count) = (state.len + bytes.len() as u64, state.records + records.len() as u64);
        let state = State { len, records: count, ragged: false, ..state };
        *guard(&self.state) = Some(state);
        self.wake();
        Ok(state)
    }

    fn sync(&self, files: &Files, durable: &mut Durable) -> Result<(), BlobError> {
        if !durable.content {
            files.sync().map_err(|error| self.broken_by(error))?;
            durable.content = true;
        }
        if !durable.entries {
            self.shard_made()?.sync().map_err(|error| self.broken_by(error))?;
            durable.entries = true;
        }
        Ok(())
    }

    /// After a failed sync the system may drop what it could not write and call the next sync a success.
    fn broken_by(&self, error: BlobError) -> BlobError {
        self.broken.store(true, Ordering::Release);
        error
    }

    fn writer(&self) -> Result<MutexGuard<'_, Durable>, BlobError> {
        let writer = guard(&self.writing);
        if self.is_broken() { Err(BlobError::Broken { what: self.what() }) } else { Ok(writer) }
    }

    fn compare(&self, files: &Files, chunk: &Chunk<'_>, known: usize) -> Result<(), AppendError> {
        if known == 0 {
            return Ok(());
        }
        let there = files.bytes(chunk.offset, known)?;
        let differs = (0..known).find(|&at| there.get(at) != chunk.bytes.get(at));
        match differs {
            Some(at) => Err(AppendError::Conflict {
                what: self.attempt.to_string(),
                offset: chunk.offset + at as u64,
            }),
            None => Ok(()),
        }
    }

    pub(super) fn state(&self) -> Result<State, BlobError> {
        let mut state = guard(&self.state);
        if let Some(state) = *state {
            return Ok(state);
        }
        // One file without the other is what a crash leaves, or a person: it is cut before it is written to.
        let nothing = State { ragged: true, ..State::default() };
        let found = self.files()?.map_or(Ok(nothing), |files| files.state())?;
        *state = Some(found);
        Ok(found)
    }

    /// Its files, if both are there.
    pub(super) fn files(&self) -> Result<Option<Files>, BlobError> {
        let Some(shard) = self.folder.inner(&self.shard_name())? else { return Ok(None) };
        let (data, index) = self.names();
        Ok(match (shard.read(&data)?, shard.read(&index)?) {
            (Some(data), Some(index)) => Some(Files { data, index, what: self.what() }),
            _ => None,
        })
    }

    fn files_made(&self) -> Result<Files, BlobError> {
        let shard = self.shard_made()?;
        let (data, index) = self.names();
        Ok(Files { data: shard.create(&data)?, index: shard.create(&index)?, what: self.what() })
    }

    fn shard_made(&self) -> Result<Folder, BlobError> {
        self.folder.make(&self.shard_name())
    }

    fn shard_name(&self) -> String {
        format!("{:02x}", self.attempt.shard())
    }

    fn names(&self) -> (String, String) {
        (self.attempt.to_string(), format!("{}.idx", self.attempt))
    }

    pub(super) fn what(&self) -> String {
        format!("log {}", self.attempt)
    }

    /// Removes the files if both are old; how many bytes they had.
    pub(super) fn remove(&self, is_old: impl Fn(u64) -> bool) -> Result<Option<u64>, BlobError> {
        let Some(shard) = self.folder.inner(&self.shard_name())? else { return Ok(None) };
        let (data, index) = self.names();
        let found = [shard.look(&data)?, shard.look(&index)?];
        let there = found.iter().flatten();
        if there.clone().any(|file| !file.regular || !is_old(file.modified_ms)) {
            return Ok(None);
        }
        let removed = [shard.remove(&data)?, shard.remove(&index)?];
        Ok(removed.contains(&true).then(|| there.map(|file| file.bytes).sum()))
    }
}

impl From<State> for LogInfo {
    fn from(state: State) -> LogInfo {
        LogInfo { len: state.len, truncated: state.truncated, finished: state.finished }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}
