//! Forwards a command's output from its pipes to the worker: exactly up to the limit, only counted past it.
//!
//! The pipes are read only while the worker accepts earlier output, so a slow reader slows the command and costs no
//! memory. Past the limit the output is read and discarded, because a command must not fail or hang for writing too
//! much.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::io::{Errno, read};

use super::socket::Reports;
use crate::slots::ended::Stream;
use crate::wire::{MOST_CHUNK, Report, put_output};

/// Interval at which the worker is notified of output while that output is discarded.
const BEAT: Duration = Duration::from_secs(1);

/// Maximum capacity of a pipe; a process that still writes when the command's tree has ended is not part of it.
const MOST_IN_PIPE: usize = 1 << 20;

/// The pipes of a command, and their counts.
pub(super) struct Output {
    pipes: [Option<OwnedFd>; 2],
    buffer: Vec<u8>,
    clock: Clock,
    limit: u64,
    pub(super) kept: u64,
    pub(super) dropped: u64,
    beat_at: Option<Instant>,
    flush: Option<Flush>,
}

/// Flushes that are not answered yet.
struct Flush {
    answers: u32,
    /// Bytes that may still be in each pipe from before.
    left: [usize; 2],
}

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

impl Output {
    pub(super) fn new(stdout: Option<OwnedFd>, stderr: OwnedFd, limit: u64) -> Self {
        Self {
            pipes: [stdout, Some(stderr)],
            buffer: vec![0; MOST_CHUNK],
            clock: Clock::start(),
            limit,
            kept: 0,
            dropped: 0,
            beat_at: None,
            flush: None,
        }
    }

    /// Output that is in the pipes now is to be passed on before the answer.
    pub(super) fn ask_to_flush(&mut self) {
        let answers = self.flush.as_ref().map_or(0, |flush| flush.answers) + 1;
        self.flush = Some(Flush { answers, left: [MOST_IN_PIPE; 2] });
    }

    /// Passes on what was in the pipes when that was asked for, as far as there is room, and then answers. A process may
    /// write on and on, so no more is read than a pipe holds.
    pub(super) fn flush(&mut self, reports: &mut Reports) {
        let Some(mut flush) = self.flush.take() else { return };
        for number in 0..STREAMS.len() {
            while flush.left[number] > 0 {
                if !reports.has_room() {
                    self.flush = Some(flush);
                    return;
                }
                let count = self.pump(number, reports).unwrap_or(MOST_IN_PIPE);
                flush.left[number] = flush.left[number].saturating_sub(count);
            }
        }
        (0..flush.answers).for_each(|_| reports.push(&Report::Flushed));
    }

    /// The open pipes, with their numbers.
    pub(super) fn pipes(&self) -> impl Iterator<Item = (usize, &OwnedFd)> {
        self.pipes.iter().enumerate().filter_map(|(number, pipe)| Some((number, pipe.as_ref()?)))
    }

    /// Reads once from one pipe; returns the count, or none if no data is available. A pipe at its end is closed.
    pub(super) fn pump(&mut self, number: usize, reports: &mut Reports) -> Option<usize> {
        let pipe = self.pipes[number].as_ref()?;
        match read(pipe, &mut self.buffer[..]) {
            Ok(count) if count > 0 => {
                self.record(STREAMS[number], count, reports);
                Some(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Ok(_) | Err(_) => {
                self.pipes[number] = None;
                None
            }
        }
    }

    /// Reads the rest of the pipes when no process writes to them; returns true when everything was read.
    pub(super) fn drain(&mut self, reports: &mut Reports) -> bool {
        for number in 0..STREAMS.len() {
            let mut drained = 0;
            while drained < MOST_IN_PIPE && self.pipes[number].is_some() {
                if !reports.has_room() {
                    return false;
                }
                match self.pump(number, reports) {
                    Some(count) => drained += count,
                    None => break,
                }
            }
            self.pipes[number] = None;
        }
        true
    }

    fn record(&mut self, stream: Stream, count: usize, reports: &mut Reports) {
        let room = usize::try_from(self.limit - self.kept).unwrap_or(usize::MAX);
        let kept = count.min(room);
        if kept > 0 {
            put_output(reports.buffer(), self.clock.now_ms(), stream, &self.buffer[..kept]);
            self.kept += kept as u64;
        }
        if kept < count {
            self.drop_some((count - kept) as u64, reports);
        }
    }

    fn drop_some(&mut self, count: u64, reports: &mut Reports) {
        if self.dropped == 0 {
            let notice = format!("\n[output limit of {} bytes reached; the rest is dropped]\n", self.limit);
            put_output(reports.buffer(), self.clock.now_ms(), Stream::Notice, notice.as_bytes());
        }
        self.dropped += count;
        let now = Instant::now();
        if self.beat_at.is_none_or(|at| now >= at) {
            reports.push(&Report::Dropping);
            self.beat_at = Some(now + BEAT);
        }
    }
}

/// The time of day at the start plus a monotonic clock.
struct Clock {
    started_ms: u64,
    started: Instant,
}

impl Clock {
    fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started_ms: milliseconds(since), started: Instant::now() }
    }

    fn now_ms(&self) -> u64 {
        self.started_ms + milliseconds(self.started.elapsed())
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
