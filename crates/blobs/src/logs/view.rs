//! Reads part of a log and checks each chunk.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::index::Files;
use super::info::LogInfo;
use super::log::Log;
use super::record::{Kind, Record, Stream};
use super::{NOTE_BYTES, PIECE_BYTES};
use crate::{BlobError, Channel};

/// Number of records read at once.
const BLOCK: u64 = 1_024;

/// A chunk of a log, or the requested part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it was received.
    pub at_ms: u64,
    pub stream: Stream,
    /// The offset of its first byte in the log.
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// Consecutive chunks of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    pub items: Vec<Entry>,
    /// The offset after them.
    pub next: u64,
    /// The state of the log at that time.
    pub info: LogInfo,
}

impl Log {
    pub(super) fn entries(&self, from: u64, most: usize) -> Result<Entries, BlobError> {
        let info = self.info()?;
        let items = match self.channel() {
            Channel::Output => self.view(from..info.len, most)?,
            Channel::Notes => whole_notes(self.view(from..info.len, most.max(NOTE_BYTES))?),
        };
        let next = items.last().map_or(from, |entry| entry.offset + entry.bytes.len() as u64);
        Ok(Entries { items, next, info })
    }

    /// Valid chunks from the start of the range, as many as one read returns; if there is none, the log is damaged.
    pub(super) fn view(&self, range: Range<u64>, most: usize) -> Result<Vec<Entry>, BlobError> {
        let most = most.clamp(1, PIECE_BYTES) as u64;
        let range = range.start..range.end.min(range.start.saturating_add(most));
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let files = self.files_there()?;
        let records = self.state()?.records;
        let first = files.find(range.start, records, self.read_to.load(Ordering::Relaxed))?;
        let count = records.saturating_sub(first).min(BLOCK);
        let block = files.records(first, usize::try_from(count).unwrap_or(0))?;
        let entries = sound_entries(&files, &run(&block, &range), &range)?;
        self.read_to.store(first + entries.len() as u64, Ordering::Relaxed);
        if entries.is_empty() { Err(files.damaged(range.start, "data")) } else { Ok(entries) }
    }
}

/// Without a last note that was cut: a reader of notes never sees a part of one. The next read returns it.
fn whole_notes(mut items: Vec<Entry>) -> Vec<Entry> {
    if items.len() > 1 {
        items.pop_if(|last| !last.bytes.ends_with(b"\n"));
    }
    items
}

/// The consecutive records that overlap the range.
fn run(block: &[Record], range: &Range<u64>) -> Vec<Record> {
    let mut end = block.first().map_or(0, |record| record.offset);
    let follows = |record: &&Record| {
        let follows = record.offset == end && record.offset < range.end;
        end = record.end();
        follows
    };
    block.iter().take_while(follows).copied().collect()
}

fn sound_entries(files: &Files, run: &[Record], range: &Range<u64>) -> Result<Vec<Entry>, BlobError> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(Vec::new()) };
    let count = usize::try_from(last.end() - first.offset).unwrap_or(usize::MAX);
    let data = files.bytes(first.offset, count)?;
    let mut rest = data.as_slice();
    let mut entries = Vec::with_capacity(run.len());
    for record in run {
        let Kind::Data(stream) = record.kind else { break };
        let Some((bytes, behind)) = rest.split_at_checked(record.len as usize) else { break };
        if !record.fits(bytes) {
            break;
        }
        entries.push(clipped(record, stream, bytes, range));
        rest = behind;
    }
    Ok(entries)
}

fn clipped(record: &Record, stream: Stream, bytes: &[u8], range: &Range<u64>) -> Entry {
    let within = |offset: u64| usize::try_from(offset.saturating_sub(record.offset)).unwrap_or(usize::MAX);
    let (from, to) = (within(range.start).min(bytes.len()), within(range.end).min(bytes.len()));
    Entry {
        at_ms: record.at_ms,
        stream,
        offset: record.offset + from as u64,
        bytes: bytes.get(from..to).unwrap_or_default().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Record, Stream, run};

    #[test]
    fn a_run_ends_at_the_range_and_at_a_hole() {
        let at = |offset| Record::data(0, offset, Stream::Stdout, b"four");
        let whole = [at(8), at(12), at(16)];
        let count = |block: &[Record], end| run(block, &(9..end)).len();
        assert_eq!([count(&whole, 12), count(&whole, 13), count(&whole, 99)], [1, 2, 3]);
        assert_eq!(count(&[at(8), at(16)], 99), 1, "something is missing");
        assert_eq!(count(&[at(8), at(10), at(14)], 99), 1, "two for the same bytes");
        assert_eq!(count(&[], 99), 0);
    }
}
