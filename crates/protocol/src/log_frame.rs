//! Logs as frames: one line of JSON per chunk, with its time and stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;
use jobhall_core::base64;

/// The media type of JSON lines.
pub const NDJSON: &str = "application/x-ndjson";

/// A stream of an attempt's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Notes of the worker: lines of JSON in a log of their own, with offsets of their own. No process writes them.
    Note,
}

impl LogStream {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
            LogStream::Note => "note",
        }
    }
}

/// A chunk of a log. It has either `text` or `base64`: bytes that are not UTF-8 are sent as base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogFrame {
    /// When the chunk was received.
    pub at: Timestamp,
    /// Stream of the chunk.
    pub stream: LogStream,
    /// Offset of its first byte in the log.
    pub offset: u64,
    /// The bytes, if they are UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes as base64, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl LogFrame {
    /// A frame with these bytes.
    #[must_use]
    pub fn new(at: Timestamp, stream: LogStream, offset: u64, bytes: Vec<u8>) -> LogFrame {
        let (text, base64) = match String::from_utf8(bytes) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(base64::encode(error.as_bytes()))),
        };
        LogFrame { at, stream, offset, text, base64 }
    }

    /// The bytes; none if the frame has neither text nor valid base64.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Some(text.clone().into_bytes()),
            (None, Some(base64)) => base64::decode(base64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogFrame, LogStream};
    use crate::Timestamp;

    fn frame(bytes: &[u8]) -> LogFrame {
        LogFrame::new(Timestamp(jobhall_core::Time::EPOCH), LogStream::Stderr, 7, bytes.to_vec())
    }

    #[test]
    fn text_is_text_and_the_rest_is_base64() {
        let line = serde_json::to_string(&frame("ä\n".as_bytes())).unwrap();
        assert_eq!(line, r#"{"at":"1970-01-01T00:00:00.000Z","stream":"stderr","offset":7,"text":"ä\n"}"#);
        let line = serde_json::to_string(&frame(b"\xff\x00")).unwrap();
        assert!(line.ends_with(r#""offset":7,"base64":"/wA="}"#), "{line}");
    }

    #[test]
    fn bytes_come_back() {
        for bytes in [&b"plain"[..], b"", b"\xc3", &(0..=255).collect::<Vec<u8>>()] {
            let line = serde_json::to_string(&frame(bytes)).unwrap();
            let read: LogFrame = serde_json::from_str(&line).unwrap();
            assert_eq!(read.bytes().as_deref(), Some(bytes));
        }
        assert_eq!(LogFrame { text: None, ..frame(b"") }.bytes(), None);
    }
}
