//! Frames: lists of messages as bytes, in one of two encodings. Each message is encoded once, into the frame.

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use thiserror::Error;

/// Maximum size of a frame.
pub const FRAME_BYTES: usize = 1 << 20;
/// How much of a frame is read from a connection at once. The WebSocket library clears this much memory before each
/// read, and most frames have a few hundred bytes.
pub const FRAME_READ_BYTES: usize = 16 << 10;
/// Maximum number of messages in a frame.
pub const FRAME_MESSAGES: usize = 4_096;
/// Maximum nesting depth of a valid frame.
const DEPTH: usize = 32;
/// The MessagePack header of a list with a four-byte length.
const LIST: [u8; 5] = [0xdd, 0, 0, 0, 0];

/// The encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// Text frames.
    Json,
    /// Binary frames, with field names.
    #[default]
    MessagePack,
}

impl Encoding {
    /// Both encodings, the preferred one first.
    pub const ALL: [Encoding; 2] = [Encoding::MessagePack, Encoding::Json];

    /// The name of the WebSocket subprotocol.
    #[must_use]
    pub fn subprotocol(self) -> &'static str {
        match self {
            Encoding::Json => "jobhall.v1.json",
            Encoding::MessagePack => "jobhall.v1.msgpack",
        }
    }

    /// The encoding with this name.
    #[must_use]
    pub fn of_subprotocol(name: &str) -> Option<Encoding> {
        Encoding::ALL.into_iter().find(|encoding| encoding.subprotocol() == name)
    }
}

/// Why bytes are not a frame, or messages do not fit one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame is too large.
    #[error("{0} bytes in one frame, the limit is {FRAME_BYTES}")]
    Bytes(usize),
    /// The frame has too many messages.
    #[error("{0} messages in one frame, the limit is {FRAME_MESSAGES}")]
    Messages(usize),
    /// The bytes are not a list of messages; the text has the reason.
    #[error("not a list of messages: {0}")]
    Wrong(String),
}

/// Parses the messages of a frame.
///
/// # Errors
/// The frame is too large, or contains an unknown message, which the error names.
pub fn read_frame<M: DeserializeOwned>(encoding: Encoding, bytes: &[u8]) -> Result<Vec<M>, FrameError> {
    if bytes.len() > FRAME_BYTES {
        return Err(FrameError::Bytes(bytes.len()));
    }
    let messages: Vec<M> = match encoding {
        Encoding::Json => serde_json::from_slice(bytes).map_err(|error| wrong(&error))?,
        Encoding::MessagePack => read_packed(bytes)?,
    };
    if messages.len() > FRAME_MESSAGES {
        return Err(FrameError::Messages(messages.len()));
    }
    Ok(messages)
}

fn read_packed<T: DeserializeOwned>(mut bytes: &[u8]) -> Result<T, FrameError> {
    let value = take_packed(&mut bytes)?;
    if bytes.is_empty() { Ok(value) } else { Err(after_its_end()) }
}

/// Parses the value at the start of the bytes, and removes its bytes.
fn take_packed<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, FrameError> {
    let mut reader = rmp_serde::Deserializer::new(bytes);
    reader.set_max_depth(DEPTH);
    T::deserialize(&mut reader).map_err(|error| wrong(&error))
}

fn after_its_end() -> FrameError {
    FrameError::Wrong("bytes after its end".to_owned())
}

/// The bytes of each message of a frame; [`read_message`] reads one.
///
/// # Errors
/// The frame is too large, or is not a list.
pub fn split_frame(encoding: Encoding, bytes: &[u8]) -> Result<Vec<&[u8]>, FrameError> {
    if bytes.len() > FRAME_BYTES {
        return Err(FrameError::Bytes(bytes.len()));
    }
    let messages = match encoding {
        Encoding::Json => {
            let messages: Vec<&RawValue> = serde_json::from_slice(bytes).map_err(|error| wrong(&error))?;
            messages.into_iter().map(|message| message.get().as_bytes()).collect()
        }
        Encoding::MessagePack => split_packed(bytes)?,
    };
    if messages.len() > FRAME_MESSAGES { Err(FrameError::Messages(messages.len())) } else { Ok(messages) }
}

fn split_packed(bytes: &[u8]) -> Result<Vec<&[u8]>, FrameError> {
    let (count, mut rest) = packed_list(bytes).ok_or_else(|| FrameError::Wrong("no list".to_owned()))?;
    let mut messages = Vec::new();
    for _ in 0..count {
        let start = rest;
        let IgnoredAny = take_packed(&mut rest)?;
        messages.push(&start[..start.len() - rest.len()]);
    }
    if rest.is_empty() { Ok(messages) } else { Err(after_its_end()) }
}

/// The length of a list, and the bytes after its header.
fn packed_list(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&marker, rest) = bytes.split_first()?;
    match marker {
        0x90..=0x9f => Some((usize::from(marker & 0x0f), rest)),
        0xdc => {
            rest.split_first_chunk().map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))
        }
        0xdd => {
            let (length, rest) = rest.split_first_chunk()?;
            Some((usize::try_from(u32::from_be_bytes(*length)).ok()?, rest))
        }
        _ => None,
    }
}

/// Parses one message.
///
/// # Errors
/// It is unknown, or a field of it is wrong.
pub fn read_message<M: DeserializeOwned>(encoding: Encoding, bytes: &[u8]) -> Result<M, FrameError> {
    match encoding {
        Encoding::Json => serde_json::from_slice(bytes).map_err(|error| wrong(&error)),
        Encoding::MessagePack => read_packed(bytes),
    }
}

fn wrong(error: &dyn std::error::Error) -> FrameError {
    FrameError::Wrong(error.to_string())
}

/// A frame that is being written.
#[derive(Debug)]
pub struct FrameWriter {
    encoding: Encoding,
    bytes: Vec<u8>,
    count: usize,
}

impl FrameWriter {
    /// An empty frame.
    #[must_use]
    pub fn new(encoding: Encoding) -> FrameWriter {
        FrameWriter { encoding, bytes: Vec::new(), count: 0 }
    }

    /// Adds a message; false if it does not fit, which never happens for the first. Then take the frame and push
    /// again.
    ///
    /// # Errors
    /// The message alone is larger than a frame may be.
    pub fn push(&mut self, message: &impl Serialize) -> Result<bool, FrameError> {
        if self.count == FRAME_MESSAGES {
            return Ok(false);
        }
        let before = self.bytes.len();
        let written = match self.encoding {
            Encoding::Json => {
                self.bytes.push(if self.count == 0 { b'[' } else { b',' });
                serde_json::to_writer(&mut self.bytes, message).map_err(|error| wrong(&error))
            }
            Encoding::MessagePack => {
                if self.count == 0 {
                    self.bytes.extend_from_slice(&LIST);
                }
                rmp_serde::encode::write_named(&mut self.bytes, message).map_err(|error| wrong(&error))
            }
        };
        // JSON still requires the closing bracket.
        let fits = self.bytes.len() < FRAME_BYTES;
        if written.is_ok() && fits {
            self.count += 1;
            return Ok(true);
        }
        let length = self.bytes.len() - before;
        self.bytes.truncate(before);
        written?;
        if self.count == 0 { Err(FrameError::Bytes(length)) } else { Ok(false) }
    }

    /// Whether the frame has no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The current size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the frame and clears it; none if it has no messages.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return None;
        }
        match self.encoding {
            Encoding::Json => self.bytes.push(b']'),
            Encoding::MessagePack => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                self.bytes[1..LIST.len()].copy_from_slice(&count.to_be_bytes());
            }
        }
        Some(std::mem::take(&mut self.bytes))
    }
}
