//! The protocol between worker and supervisor: frames of a length, a kind and fields.
//!
//! It is binary, because arguments, variables and output are bytes and not text, and because a frame of output is
//! then copied only once. Both ends are the same executable, so there are no versions.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::slots::command::{Command, Environment, MOST_STDIN, MOST_WORDS, Stdin, Stdout};
use crate::slots::ended::{Chunk, Ended, Status, Stream};

/// Maximum size of output in one frame.
pub(crate) const MOST_CHUNK: usize = 64 << 10;

/// Maximum size of a valid frame: a command at all its limits. An empty argument counts one byte for the kernel and
/// eight bytes of length here.
const MOST_FRAME: usize = MOST_STDIN + 9 * MOST_WORDS + MOST_CHUNK;

/// Maximum buffer capacity kept after a large frame was read.
const MOST_IDLE: usize = 1 << 20;

/// A frame that this version never sends.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a malformed frame")]
pub(crate) struct Malformed;

/// From the worker to the supervisor.
#[derive(Debug)]
pub(crate) enum Order {
    Run {
        run: u64,
        command: Command,
    },
    Stop {
        run: u64,
        grace: Duration,
    },
    /// Pass on all output that was written so far.
    Flush {
        run: u64,
    },
}

/// From the supervisor to the worker, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Started {
        pid: u32,
    },
    Output(Chunk),
    /// Output beyond the limit is still being written.
    Dropping,
    /// Answers a flush, after the output that was written before it.
    Flushed,
    Ended(Ended),
}

const RUN: u8 = 1;
const STOP: u8 = 2;
const STARTED: u8 = 3;
const OUTPUT: u8 = 4;
const DROPPING: u8 = 5;
const ENDED: u8 = 6;
const FLUSH: u8 = 7;
const FLUSHED: u8 = 8;

impl Order {
    pub(crate) fn encode_run(out: &mut Vec<u8>, run: u64, command: &Command) {
        frame(out, RUN, |out| put_run(out, run, command));
    }

    pub(crate) fn encode_stop(out: &mut Vec<u8>, run: u64, grace: Duration) {
        frame(out, STOP, |out| {
            put_number(out, run);
            put_duration(out, grace);
        });
    }

    pub(crate) fn encode_flush(out: &mut Vec<u8>, run: u64) {
        frame(out, FLUSH, |out| put_number(out, run));
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let order = match fields.byte()? {
            RUN => Self::Run { run: fields.number()?, command: fields.command()? },
            STOP => Self::Stop { run: fields.number()?, grace: fields.duration()? },
            FLUSH => Self::Flush { run: fields.number()? },
            _ => return Err(Malformed),
        };
        fields.end(order)
    }
}

impl Report {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Started { pid } => frame(out, STARTED, |out| put_number(out, u64::from(*pid))),
            Self::Output(chunk) => put_output(out, chunk.at_ms, chunk.stream, &chunk.bytes),
            Self::Dropping => frame(out, DROPPING, |_| {}),
            Self::Flushed => frame(out, FLUSHED, |_| {}),
            Self::Ended(ended) => frame(out, ENDED, |out| put_ended(out, ended)),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let report = match fields.byte()? {
            STARTED => Self::Started { pid: u32::try_from(fields.number()?).map_err(|_| Malformed)? },
            OUTPUT => Self::Output(fields.chunk()?),
            DROPPING => Self::Dropping,
            FLUSHED => Self::Flushed,
            ENDED => Self::Ended(fields.ended()?),
            _ => return Err(Malformed),
        };
        fields.end(report)
    }
}

/// Received bytes, split into frames.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    read: usize,
}

impl Frames {
    /// The buffer for received bytes; always with capacity for a full chunk.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.read);
        self.read = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > MOST_IDLE {
            self.bytes = Vec::new();
        }
        self.bytes.reserve(MOST_CHUNK);
        &mut self.bytes
    }

    /// The next complete frame, without its length.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Malformed> {
        let Some((length, _)) = self.bytes[self.read..].split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| Malformed)?;
        if length > MOST_FRAME {
            return Err(Malformed);
        }
        let start = self.read + 4;
        if self.bytes.len() < start + length {
            return Ok(None);
        }
        self.read = start + length;
        Ok(Some(&self.bytes[start..self.read]))
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, fields: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    fields(out);
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// A frame of output, encoded from the buffer it was read into.
pub(crate) fn put_output(out: &mut Vec<u8>, at_ms: u64, stream: Stream, bytes: &[u8]) {
    frame(out, OUTPUT, |out| {
        put_number(out, at_ms);
        out.push(match stream {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
            Stream::Notice => 3,
        });
        put_bytes(out, bytes);
    });
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_duration(out: &mut Vec<u8>, duration: Duration) {
    put_number(out, u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put_kind(out, u8::from(bytes.is_some()), bytes.unwrap_or_default());
}

fn put_kind(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    put_bytes(out, bytes);
}

fn put_run(out: &mut Vec<u8>, run: u64, command: &Command) {
    put_number(out, run);
    put_number(out, command.argv.len() as u64);
    command.argv.iter().for_each(|word| put_bytes(out, word.as_bytes()));
    put_number(out, command.environment.iter().count() as u64);
    for (name, value) in command.environment.iter() {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value.as_bytes());
    }
    put_optional(out, command.directory.as_ref().map(|path| path.as_os_str().as_bytes()));
    match &command.stdin {
        Stdin::Empty => put_kind(out, 0, &[]),
        Stdin::Bytes(bytes) => put_kind(out, 1, bytes),
        Stdin::File(path) => put_kind(out, 2, path.as_os_str().as_bytes()),
    }
    match &command.stdout {
        Stdout::Pipe => put_kind(out, 0, &[]),
        Stdout::File(path) => put_kind(out, 2, path.as_os_str().as_bytes()),
    }
    put_number(out, command.output_limit);
    put_duration(out, command.leftover_grace);
}

fn put_ended(out: &mut Vec<u8>, ended: &Ended) {
    put_status(out, &ended.status);
    put_duration(out, ended.duration);
    put_duration(out, ended.processor);
    for count in [ended.output_bytes, ended.dropped_bytes, ended.survivors_killed, ended.survivors_left] {
        put_number(out, count);
    }
}

fn put_status(out: &mut Vec<u8>, status: &Status) {
    let (kind, number, first, second) = match status {
        Status::Exit(code) => (1, i64::from(*code), "", ""),
        Status::Signal(signal) => (2, i64::from(*signal), "", ""),
        Status::NotFound { program, searched } => (3, 0, program.as_str(), searched.as_str()),
        Status::NotExecutable { program, reason } => (4, 0, program.as_str(), reason.as_str()),
        Status::NoDirectory { directory, reason } => (5, 0, directory.as_str(), reason.as_str()),
        Status::TooBig { bytes } => (6, bytes.cast_signed(), "", ""),
        Status::NotStarted { reason } => (7, 0, reason.as_str(), ""),
        Status::Stuck => (8, 0, "", ""),
        Status::LeaderLost => (9, 0, "", ""),
        Status::NoFile { file, reason } => (10, 0, file.as_str(), reason.as_str()),
    };
    out.push(kind);
    put_number(out, number.cast_unsigned());
    put_bytes(out, first.as_bytes());
    put_bytes(out, second.as_bytes());
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// The remaining fields of a frame.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn end<T>(&self, whole: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(whole) } else { Err(Malformed) }
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*byte)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn duration(&mut self) -> Result<Duration, Malformed> {
        self.number().map(Duration::from_micros)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn optional(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let present = self.byte()? != 0;
        let bytes = self.bytes()?;
        Ok(present.then_some(bytes))
    }

    fn word(&mut self) -> Result<OsString, Malformed> {
        self.bytes().map(|bytes| OsString::from_vec(bytes.to_vec()))
    }

    fn text(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Malformed)
    }

    fn chunk(&mut self) -> Result<Chunk, Malformed> {
        let at_ms = self.number()?;
        let stream = match self.byte()? {
            1 => Stream::Stdout,
            2 => Stream::Stderr,
            3 => Stream::Notice,
            _ => return Err(Malformed),
        };
        Ok(Chunk { at_ms, stream, bytes: self.bytes()?.to_vec() })
    }

    fn command(&mut self) -> Result<Command, Malformed> {
        let argv = (0..self.number()?).map(|_| self.word()).collect::<Result<Vec<_>, _>>()?;
        let mut environment = Environment::empty();
        for _ in 0..self.number()? {
            environment.set(self.word()?, self.word()?);
        }
        Ok(Command {
            argv,
            environment,
            directory: self.optional()?.map(path),
            stdin: match (self.byte()?, self.bytes()?) {
                (0, _) => Stdin::Empty,
                (1, bytes) => Stdin::Bytes(bytes.to_vec()),
                (2, bytes) => Stdin::File(path(bytes)),
                _ => return Err(Malformed),
            },
            stdout: match (self.byte()?, self.bytes()?) {
                (0, _) => Stdout::Pipe,
                (2, bytes) => Stdout::File(path(bytes)),
                _ => return Err(Malformed),
            },
            output_limit: self.number()?,
            leftover_grace: self.duration()?,
        })
    }

    fn ended(&mut self) -> Result<Ended, Malformed> {
        Ok(Ended {
            status: self.status()?,
            duration: self.duration()?,
            processor: self.duration()?,
            output_bytes: self.number()?,
            dropped_bytes: self.number()?,
            survivors_killed: self.number()?,
            survivors_left: self.number()?,
        })
    }

    fn status(&mut self) -> Result<Status, Malformed> {
        let kind = self.byte()?;
        let number = self.number()?;
        let small = i32::try_from(number.cast_signed());
        let (first, second) = (self.text()?, self.text()?);
        Ok(match kind {
            1 => Status::Exit(small.map_err(|_| Malformed)?),
            2 => Status::Signal(small.map_err(|_| Malformed)?),
            3 => Status::NotFound { program: first, searched: second },
            4 => Status::NotExecutable { program: first, reason: second },
            5 => Status::NoDirectory { directory: first, reason: second },
            6 => Status::TooBig { bytes: number },
            7 => Status::NotStarted { reason: first },
            8 => Status::Stuck,
            9 => Status::LeaderLost,
            10 => Status::NoFile { file: first, reason: second },
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests;
