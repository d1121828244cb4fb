//! One log in use. Its files are opened for each operation: with thousands of running attempts, open files would
//! exhaust the limit of the process. The state of the files is cached.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::append::{AppendError, Appended, Chunk, Plan, plan};
use super::index::{Files, State};
use super::info::LogInfo;
use super::record::{Kind, RECORD_BYTES, Record};
use super::tail::Watchers;
use crate::file_store::{FileStore, Found, Name, Section, Shelf, Write};
use crate::{BlobError, Channel, LogKey, guard};

pub(crate) struct Log {
    key: LogKey,
    file_store: Arc<dyn FileStore>,
    /// Held by the only writer, also while it syncs; readers do not wait for it.
    writing: Mutex<Durable>,
    state: Mutex<Option<State>>,
    broken: AtomicBool,
    /// The number of the record after the last one read; a hint.
    pub(super) read_to: AtomicU64,
    pub(super) watchers: Mutex<Watchers>,
}

/// What is known to be durable. A log that was just opened may be the result of a crash: nothing is known.
#[derive(Debug, Default)]
struct Durable {
    /// All written content.
    content: bool,
    /// The directory entries of its files.
    entries: bool,
}

impl Log {
    pub(super) fn new(key: LogKey, file_store: Arc<dyn FileStore>) -> Log {
        Log {
            key,
            file_store,
            writing: Mutex::default(),
            state: Mutex::default(),
            broken: AtomicBool::new(false),
            read_to: AtomicU64::new(0),
            watchers: Mutex::default(),
        }
    }

    pub(super) fn info(&self) -> Result<LogInfo, BlobError> {
        Ok(LogInfo::from(self.state()?))
    }

    pub(super) fn channel(&self) -> Channel {
        self.key.channel
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(super) fn append(&self, chunk: &Chunk<'_>, limit: u64, sync: bool) -> Result<Appended, AppendError> {
        let mut durable = self.writer()?;
        let state = match self.add(chunk, limit, &mut durable) {
            // The cached state is outdated: read and decide again.
            Err(AppendError::Blob(BlobError::Overtaken { .. })) => self.add(chunk, limit, &mut durable)?,
            added => added?,
        };
        if sync {
            self.sync(&mut durable)?;
        }
        Ok(Appended { len: state.len, truncated: state.truncated })
    }

    /// The data is synced before the mark is written, so that a log with the mark has its data.
    pub(super) fn finish(&self, at_ms: u64) -> Result<LogInfo, BlobError> {
        let mut durable = self.writer()?;
        match self.mark(at_ms, &mut durable) {
            Err(BlobError::Overtaken { .. }) => self.mark(at_ms, &mut durable)?,
            marked => marked?,
        }
        self.sync(&mut durable)?;
        self.info()
    }

    fn mark(&self, at_ms: u64, durable: &mut Durable) -> Result<(), BlobError> {
        let state = self.state()?;
        if state.finished {
            return Ok(());
        }
        if state.len > 0 {
            self.file_store.sync(&[&self.data_name()], false).map_err(|error| self.broken_by(error))?;
        }
        let mark = Record::mark(at_ms, state.len, Kind::Finished);
        self.write(State { finished: true, ..state }, &[], &[mark], durable)?;
        Ok(())
    }

    fn add(&self, chunk: &Chunk<'_>, limit: u64, durable: &mut Durable) -> Result<State, AppendError> {
        let state = self.state()?;
        let plan = plan(&state, chunk, limit, &|| self.key.to_string())?;
        self.compare(chunk, plan.known)?;
        let (bytes, records) = fresh(&state, chunk, plan);
        if records.is_empty() {
            return Ok(state);
        }
        let state = State { truncated: state.truncated || plan.mark, ..state };
        Ok(self.write(state, bytes, &records, durable)?)
    }

    /// Writes after the valid part, bytes before their records, and updates the state only then. After an error the
    /// state of the files is unknown.
    fn write(
        &self,
        state: State,
        bytes: &[u8],
        records: &[Record],
        durable: &mut Durable,
    ) -> Result<State, BlobError> {
        durable.content = false;
        let numbered = (state.records..).zip(records);
        let encoded: Vec<u8> = numbered.flat_map(|(number, record)| record.encode(number)).collect();
        let (data, index) = (self.data_name(), self.index_name());
        let data = Write { name: &data, was: state.data_len, at: state.len, bytes, modified_ms: None };
        let at = state.index_end();
        let index = Write { name: &index, was: state.index_len, at, bytes: &encoded, modified_ms: None };
        if let Err(error) = self.file_store.write(&[data, index]) {
            *guard(&self.state) = None;
            return Err(error);
        }
        let (len, count) = (state.len + bytes.len() as u64, state.records + records.len() as u64);
        let index_len = count * RECORD_BYTES as u64;
        let state = State { len, records: count, data_len: len, index_len, ..state };
        *guard(&self.state) = Some(state);
        self.wake();
        Ok(state)
    }

    fn sync(&self, durable: &mut Durable) -> Result<(), BlobError> {
        if durable.content && durable.entries {
            return Ok(());
        }
        let names = [self.data_name(), self.index_name()];
        let synced = self.file_store.sync(&[&names[0], &names[1]], !durable.entries);
        synced.map_err(|error| self.broken_by(error))?;
        *durable = Durable { content: true, entries: true };
        Ok(())
    }

    /// After a failed sync the system may drop unwritten data and report the next sync as a success.
    fn broken_by(&self, error: BlobError) -> BlobError {
        self.broken.store(true, Ordering::Release);
        error
    }

    fn writer(&self) -> Result<MutexGuard<'_, Durable>, BlobError> {
        let writer = guard(&self.writing);
        if self.is_broken() { Err(BlobError::Broken { what: self.what() }) } else { Ok(writer) }
    }

    fn compare(&self, chunk: &Chunk<'_>, known: usize) -> Result<(), AppendError> {
        if known == 0 {
            return Ok(());
        }
        let there = self.files_there()?.bytes(chunk.offset, known)?;
        let differs = (0..known).find(|&at| there.get(at) != chunk.bytes.get(at));
        match differs {
            Some(at) => {
                Err(AppendError::Conflict { what: self.key.to_string(), offset: chunk.offset + at as u64 })
            }
            None => Ok(()),
        }
    }

    pub(super) fn state(&self) -> Result<State, BlobError> {
        let mut state = guard(&self.state);
        if let Some(state) = *state {
            return Ok(state);
        }
        let found =
            match [self.file_store.open(&self.data_name())?, self.file_store.open(&self.index_name())?] {
                [Some(data), Some(index)] => Files { data, index, what: self.what() }.state()?,
                // One file is missing, after a crash or because a person removed it: the log is truncated before it
                // is written to.
                [data, index] => {
                    let [data_len, index_len] = [data, index].map(|file| file.map_or(0, |file| file.bytes));
                    State { data_len, index_len, ..State::default() }
                }
            };
        *state = Some(found);
        Ok(found)
    }

    /// Its files, which must exist.
    pub(super) fn files_there(&self) -> Result<Files, BlobError> {
        match (self.file_store.open(&self.data_name())?, self.file_store.open(&self.index_name())?) {
            (Some(data), Some(index)) => Ok(Files { data, index, what: self.what() }),
            _ => Err(BlobError::Missing { what: format!("the files of {}", self.what()) }),
        }
    }

    fn data_name(&self) -> Name {
        data_name(self.key)
    }

    fn index_name(&self) -> Name {
        shelf(self.key).file(format!("{}.idx", self.key))
    }

    pub(super) fn what(&self) -> String {
        format!("log {}", self.key)
    }

    /// Removes the files if both are old; returns their size.
    pub(super) fn remove(&self, is_old: impl Fn(u64) -> bool) -> Result<Option<u64>, BlobError> {
        let names = [self.data_name(), self.index_name()];
        let found = [self.file_store.look(&names[0])?, self.file_store.look(&names[1])?];
        let there = found.iter().flatten();
        if there.clone().any(|file| !file.regular || !is_old(file.modified_ms)) {
            return Ok(None);
        }
        let mut removed = false;
        for (name, file) in names.iter().zip(&found) {
            if let Some(Found { modified_ms, .. }) = file {
                removed |= self.file_store.remove(name, *modified_ms)?;
            }
        }
        Ok(removed.then(|| there.map(|file| file.bytes).sum()))
    }
}

/// The file with the bytes of a log.
pub(super) fn data_name(key: LogKey) -> Name {
    shelf(key).file(key.to_string())
}

fn shelf(key: LogKey) -> Shelf {
    Shelf::of(Section::Logs, key.attempt.shard())
}

/// The new bytes of a chunk, and their records.
fn fresh<'a>(state: &State, chunk: &Chunk<'a>, plan: Plan) -> (&'a [u8], Vec<Record>) {
    let bytes = &chunk.bytes[plan.known..plan.known + plan.fresh];
    let mut records = Vec::with_capacity(2);
    if !bytes.is_empty() {
        records.push(Record::data(chunk.at_ms, state.len, chunk.stream, bytes));
    }
    if plan.mark {
        records.push(Record::mark(chunk.at_ms, state.len + bytes.len() as u64, Kind::Truncated));
    }
    (bytes, records)
}

impl From<State> for LogInfo {
    fn from(state: State) -> LogInfo {
        LogInfo { len: state.len, truncated: state.truncated, finished: state.finished }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("key", &self.key).finish_non_exhaustive()
    }
}
