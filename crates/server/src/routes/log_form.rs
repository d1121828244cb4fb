//! Formats of a log: raw bytes, or JSON lines with the time and stream of each chunk.

use axum::http::{HeaderMap, header};
use jobhall_blobs::{Channel, Entry, LogKey, Stream};
use jobhall_core::{AttemptId, Time};
use jobhall_protocol::{LogFrame, LogStream, NDJSON, Timestamp};

use crate::blobs::logs;
use crate::error::ApiError;
use crate::request::params::shown;
use crate::server::app::now;

/// A log may contain any bytes. With this type a browser does not interpret them as HTML.
const PLAIN: &str = "text/plain; charset=utf-8";

/// The selected stream and the format.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Only this stream.
    stream: Option<Stream>,
    framed: bool,
}

impl Form {
    pub(super) fn of(stream: Option<&str>, headers: &HeaderMap) -> Result<Form, ApiError> {
        let accepted =
            headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let kinds = accepted.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let framed = kinds.into_iter().any(|kind| kind.eq_ignore_ascii_case(NDJSON));
        Ok(Form { stream: stream.map(stream_of).transpose()?, framed })
    }

    /// The log that it selects: the output of an attempt, or its notes.
    pub(super) fn log(self, attempt: AttemptId) -> LogKey {
        let channel = self.stream.map_or(Channel::Output, Stream::channel);
        LogKey { attempt: logs::key(attempt), channel }
    }

    /// Whether the format returns the bytes of the log unchanged.
    pub(super) fn is_whole(self) -> bool {
        matches!(self.stream, None | Some(Stream::Note)) && !self.framed
    }

    /// The media type.
    pub(super) fn kind(self) -> &'static str {
        if self.framed { NDJSON } else { PLAIN }
    }

    /// The formatted chunks.
    pub(super) fn write(self, entries: Vec<Entry>) -> Result<Vec<u8>, ApiError> {
        let mut out = Vec::new();
        for entry in entries {
            if self.stream.is_some_and(|stream| stream != entry.stream) {
                continue;
            }
            if self.framed {
                serde_json::to_writer(&mut out, &frame(entry)).map_err(ApiError::internal)?;
                out.push(b'\n');
            } else {
                out.extend(entry.bytes);
            }
        }
        Ok(out)
    }
}

/// A stream by its name.
pub(super) fn stream_of(text: &str) -> Result<Stream, ApiError> {
    match text {
        "stdout" => Ok(Stream::Stdout),
        "stderr" => Ok(Stream::Stderr),
        "note" => Ok(Stream::Note),
        other => Err(ApiError::bad(format!("stream is stdout, stderr or note, not {}", shown(other)))),
    }
}

fn frame(entry: Entry) -> LogFrame {
    let stream = match entry.stream {
        Stream::Stdout => LogStream::Stdout,
        Stream::Stderr => LogStream::Stderr,
        Stream::Note => LogStream::Note,
    };
    let at = i64::try_from(entry.at_ms).ok().and_then(|ms| Time::from_ms(ms).ok()).unwrap_or_else(now);
    LogFrame::new(Timestamp(at), stream, entry.offset, entry.bytes)
}
