//! The two files of a log and the state they describe.

use super::record::{Kind, RECORD_BYTES, Record};
use crate::BlobError;
use crate::file_store::Opened;
use crate::object_reader::read_full;

/// The state of a log's files, read when the log is first used and updated by each write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) len: u64,
    pub(super) records: u64,
    pub(super) truncated: bool,
    pub(super) finished: bool,
    /// The length of the files; longer than the valid part if an interrupted write left bytes.
    pub(super) data_len: u64,
    pub(super) index_len: u64,
}

impl State {
    /// The size of the valid part of the index.
    pub(super) fn index_end(&self) -> u64 {
        self.records * RECORD_BYTES as u64
    }
}

#[derive(Debug)]
pub(super) struct Files {
    pub(super) data: Opened,
    pub(super) index: Opened,
    /// The name of the log, for messages.
    pub(super) what: String,
}

impl Files {
    /// Up to `count` records from a number. Returns fewer if a damaged one follows; none is an error.
    pub(super) fn records(&self, first: u64, count: usize) -> Result<Vec<Record>, BlobError> {
        let bytes = self.read(&self.index, first * RECORD_BYTES as u64, count * RECORD_BYTES)?;
        let numbered = (first..).zip(bytes.chunks_exact(RECORD_BYTES));
        let records: Vec<Record> = numbered.map_while(|(number, raw)| Record::decode(number, raw)).collect();
        if records.is_empty() && count > 0 { Err(self.damaged(first, "index record")) } else { Ok(records) }
    }

    fn record(&self, number: u64) -> Result<Option<Record>, BlobError> {
        let bytes = self.read(&self.index, number * RECORD_BYTES as u64, RECORD_BYTES)?;
        Ok(Record::decode(number, &bytes))
    }

    /// The bytes of the log from an offset; fewer if the file ends before.
    pub(super) fn bytes(&self, offset: u64, count: usize) -> Result<Vec<u8>, BlobError> {
        self.read(&self.data, offset, count)
    }

    fn read(&self, file: &Opened, offset: u64, count: usize) -> Result<Vec<u8>, BlobError> {
        let mut bytes = vec![0; count];
        let filled = read_full(file.content.as_ref(), &mut bytes, offset);
        bytes.truncate(filled.map_err(|e| BlobError::io("read", self.what.clone(), e))?);
        Ok(bytes)
    }

    /// The state of these files: everything up to the last valid record. Nothing is written.
    pub(super) fn state(&self) -> Result<State, BlobError> {
        let (data_len, index_len) = (self.data.bytes, self.index.bytes);
        let mut records = index_len / RECORD_BYTES as u64;
        let mut last = None;
        while records > 0 && last.is_none() {
            last = self.sound(records - 1, data_len)?;
            records -= u64::from(last.is_none());
        }
        let Some(last) = last else {
            return Ok(State { data_len, index_len, ..State::default() });
        };
        let state =
            State { len: last.end(), records, truncated: false, finished: false, data_len, index_len };
        self.with_marks(state, last)
    }

    /// The record with this number, if it and its bytes are valid. A complete log was synced, so missing bytes are
    /// not due to a crash.
    fn sound(&self, number: u64, data_len: u64) -> Result<Option<Record>, BlobError> {
        let Some(record) = self.record(number)? else { return Ok(None) };
        if record.end() <= data_len {
            let bytes = self.bytes(record.offset, record.len as usize)?;
            return Ok(record.fits(&bytes).then_some(record));
        }
        match record.kind {
            Kind::Finished => Err(self.damaged(data_len, "end")),
            _ => Ok(None),
        }
    }

    /// The marks are at the end: `complete` last, `truncated` before it.
    fn with_marks(&self, state: State, last: Record) -> Result<State, BlobError> {
        let finished = last.kind == Kind::Finished;
        let before = match state.records {
            records if finished && records > 1 => self.record(records - 2)?.map(|record| record.kind),
            _ => None,
        };
        let truncated = last.kind == Kind::Truncated || before == Some(Kind::Truncated);
        Ok(State { truncated, finished, ..state })
    }

    /// The number of the record with the byte at this offset, which must exist. The end of the last read is tried
    /// first, because most readers continue there.
    pub(super) fn find(&self, offset: u64, records: u64, hint: u64) -> Result<u64, BlobError> {
        if hint < records
            && self.record(hint)?.is_some_and(|record| record.offset == offset && record.len > 0)
        {
            return Ok(hint);
        }
        let (mut low, mut high) = (0, records);
        while low < high {
            let middle = low + (high - low) / 2;
            let record = self.record(middle)?.ok_or_else(|| self.damaged(middle, "index record"))?;
            if record.end() <= offset { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    pub(super) fn damaged(&self, at: u64, part: &str) -> BlobError {
        BlobError::Damaged { what: self.what.clone(), why: format!("{part} at {at} is not what was written") }
    }
}
