//! Splits chunks into lines with times. A line belongs to one stream and has the time of its first byte; chunks of
//! the other stream may be interleaved with it.

use super::record::Stream;
use super::view::Entry;

/// Maximum size of a line; a longer one is split.
pub const LINE_BYTES: usize = 64 << 10;

/// A line, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When its first byte was received.
    pub at_ms: u64,
    pub stream: Stream,
    /// The offset of its first byte in the log.
    pub offset: u64,
    /// Without the line feed.
    pub bytes: Vec<u8>,
    /// Whether a line feed ended it; otherwise the next line of the stream continues it, or the log ends here.
    pub ended: bool,
}

/// Collects lines from chunks.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    stdout: Option<Line>,
    stderr: Option<Line>,
    note: Option<Line>,
}

impl Lines {
    /// Adds the next chunk; returns the lines that it completes.
    #[must_use]
    pub fn push(&mut self, entry: &Entry) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut offset = entry.offset;
        for piece in entry.bytes.split_inclusive(|byte| *byte == b'\n') {
            let (content, ended) = match piece.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (piece, false),
            };
            self.extend(entry, offset, content, &mut lines);
            offset += piece.len() as u64;
            if ended {
                let begun = self.open(entry.stream).take();
                let line = begun.unwrap_or_else(|| blank(entry, offset - piece.len() as u64));
                lines.push(Line { ended, ..line });
            }
        }
        lines
    }

    /// The incomplete lines at the end of the log.
    #[must_use]
    pub fn end(self) -> Vec<Line> {
        let mut left: Vec<Line> = [self.stdout, self.stderr, self.note].into_iter().flatten().collect();
        left.sort_by_key(|line| line.offset);
        left
    }

    /// Adds bytes without a line feed; a line of maximum size is returned when one more byte follows.
    fn extend(&mut self, entry: &Entry, mut offset: u64, mut content: &[u8], lines: &mut Vec<Line>) {
        let open = self.open(entry.stream);
        while !content.is_empty() {
            lines.extend(open.take_if(|line| line.bytes.len() >= LINE_BYTES));
            let line = open.get_or_insert_with(|| blank(entry, offset));
            let (taken, rest) = content.split_at(content.len().min(LINE_BYTES - line.bytes.len()));
            line.bytes.extend_from_slice(taken);
            (content, offset) = (rest, offset + taken.len() as u64);
        }
    }

    fn open(&mut self, stream: Stream) -> &mut Option<Line> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
            Stream::Note => &mut self.note,
        }
    }
}

fn blank(entry: &Entry, offset: u64) -> Line {
    Line { at_ms: entry.at_ms, stream: entry.stream, offset, bytes: Vec::new(), ended: false }
}

#[cfg(test)]
mod tests {
    use super::{Entry, LINE_BYTES, Line, Lines, Stream};

    fn entry(at_ms: u64, stream: Stream, offset: u64, bytes: &[u8]) -> Entry {
        Entry { at_ms, stream, offset, bytes: bytes.to_vec() }
    }

    fn shown(line: &Line) -> (u64, u64, &str, bool) {
        (line.at_ms, line.offset, std::str::from_utf8(&line.bytes).unwrap(), line.ended)
    }

    #[test]
    fn a_line_keeps_the_time_of_its_first_byte_across_the_other_stream() {
        let mut lines = Lines::default();
        assert_eq!(
            lines.push(&entry(1, Stream::Stdout, 0, b"one\ntw")).iter().map(shown).collect::<Vec<_>>(),
            [(1, 0, "one", true)]
        );
        assert_eq!(
            lines.push(&entry(2, Stream::Stderr, 6, b"\nbad")).iter().map(shown).collect::<Vec<_>>(),
            [(2, 6, "", true)]
        );
        assert_eq!(
            lines.push(&entry(3, Stream::Stdout, 10, b"o\n\n")).iter().map(shown).collect::<Vec<_>>(),
            [(1, 4, "two", true), (3, 12, "", true)]
        );
        assert_eq!(lines.end().iter().map(shown).collect::<Vec<_>>(), [(2, 7, "bad", false)]);
    }

    #[test]
    fn a_long_line_comes_in_parts_and_a_full_one_is_whole() {
        let mut lines = Lines::default();
        let full = vec![b'x'; LINE_BYTES];
        assert!(lines.push(&entry(1, Stream::Stdout, 0, &full)).is_empty());
        let ended = lines.push(&entry(2, Stream::Stdout, LINE_BYTES as u64, b"\n"));
        assert_eq!(ended, [Line { at_ms: 1, stream: Stream::Stdout, offset: 0, bytes: full, ended: true }]);

        let long = vec![b'y'; 2 * LINE_BYTES + 1];
        let parts = lines.push(&entry(3, Stream::Stdout, 0, &long));
        assert_eq!(
            parts.iter().map(|line| (line.offset, line.bytes.len(), line.ended)).collect::<Vec<_>>(),
            [(0, LINE_BYTES, false), (LINE_BYTES as u64, LINE_BYTES, false)]
        );
        assert_eq!(lines.end()[0].bytes, b"y");
    }
}
