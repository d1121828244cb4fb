//! A running command: its output, a way to stop it, and its end.
//!
//! There is no task in between: reading the next chunk of output reads the slot's socket. A slow reader slows the
//! command; nothing is buffered.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::slots::ended::{Chunk, Ended, Status, Stream};
use crate::slots::{Slot, Supervisor};
use crate::wire::{Order, Report};

/// A command in a slot. Dropping it before its end kills the command and all its processes immediately.
#[derive(Debug)]
pub struct Running {
    slot: Slot,
    /// None once the command has ended.
    supervisor: Option<Supervisor>,
    stopper: Stopper,
    pid: Option<u32>,
    started: Instant,
    last_output: Instant,
    output_bytes: u64,
    ended: Option<Ended>,
    /// Ends what a lost slot has left.
    clean_up: Option<JoinHandle<()>>,
}

/// What a running command says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Output(Chunk),
    /// All output that was written before the flush was asked for has been returned.
    Flushed,
}

/// Stops a command from elsewhere. No effect once it has ended.
#[derive(Clone, Debug)]
pub struct Stopper {
    writer: Weak<Mutex<OwnedWriteHalf>>,
    run: u64,
}

impl Stopper {
    /// Sends TERM to the whole tree, and KILL after `grace`; immediately if that is zero. A second call can only
    /// shorten the time.
    pub async fn stop(&self, grace: Duration) {
        let Some(writer) = self.writer.upgrade() else { return };
        let mut order = Vec::new();
        Order::encode_stop(&mut order, self.run, grace);
        // If the slot does not accept the order it is lost, which its reader reports.
        let _lost = writer.lock().await.write_all(&order).await;
    }
}

impl Running {
    pub(crate) fn new(slot: Slot, supervisor: Supervisor) -> Self {
        let stopper = Stopper { writer: Arc::downgrade(&supervisor.writer), run: supervisor.run };
        let now = Instant::now();
        Self {
            slot,
            supervisor: Some(supervisor),
            stopper,
            pid: None,
            started: now,
            last_output: now,
            output_bytes: 0,
            ended: None,
            clean_up: None,
        }
    }

    /// The next chunk of output; none when the command and all its processes have ended. Nothing is lost when the
    /// returned future is dropped.
    pub async fn next(&mut self) -> Option<Chunk> {
        loop {
            if let Said::Output(chunk) = self.listen().await? {
                return Some(chunk);
            }
        }
    }

    /// Asks for all output that was written so far: [`Running::listen`] returns it, and then [`Said::Flushed`], unless
    /// the command ends first.
    pub async fn flush(&self) {
        let Some(writer) = self.stopper.writer.upgrade() else { return };
        let mut order = Vec::new();
        Order::encode_flush(&mut order, self.stopper.run);
        // If the slot does not accept the order it is lost, which its reader reports.
        let _lost = writer.lock().await.write_all(&order).await;
    }

    /// The next chunk of output or answer to a flush; none as for [`Running::next`].
    pub async fn listen(&mut self) -> Option<Said> {
        loop {
            if let Some(clean_up) = &mut self.clean_up {
                let _is_best_effort = clean_up.await;
                self.clean_up = None;
            }
            let supervisor = self.supervisor.as_mut()?;
            match next_report(supervisor).await {
                Some(Report::Started { pid }) => self.pid = Some(pid),
                Some(Report::Output(chunk)) => {
                    self.last_output = Instant::now();
                    if chunk.stream != Stream::Notice {
                        self.output_bytes += chunk.bytes.len() as u64;
                    }
                    return Some(Said::Output(chunk));
                }
                Some(Report::Flushed) => return Some(Said::Flushed),
                Some(Report::Dropping) => self.last_output = Instant::now(),
                Some(Report::Ended(ended)) => self.end(ended),
                None => self.lose(),
            }
        }
    }

    /// Waits for the end; unread output is dropped.
    ///
    /// The slot is free again when this returns.
    pub async fn wait(mut self) -> Ended {
        while self.next().await.is_some() {}
        self.ended.take().unwrap_or_else(|| Ended::bare(Status::LeaderLost))
    }

    /// Sends TERM to the whole tree, and KILL after `grace`; see [`Stopper::stop`]. Continue to read output: the end
    /// comes after it.
    pub async fn stop(&self, grace: Duration) {
        self.stopper.stop(grace).await;
    }

    /// A handle that stops the command from elsewhere.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// The process id of the command, once its start was reported.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// The time since the last output, as far as the output has been read.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.last_output.elapsed()
    }

    /// When output was last read, or the command was sent to the slot.
    #[must_use]
    pub fn last_output(&self) -> Instant {
        self.last_output
    }

    fn end(&mut self, ended: Ended) {
        if let Some(supervisor) = self.supervisor.take().filter(|_| ended.survivors_left == 0) {
            self.slot.give_back(supervisor);
        }
        self.ended = Some(ended);
    }

    fn lose(&mut self) {
        self.clean_up = self.supervisor.take().map(|supervisor| self.slot.clean_up(supervisor));
        self.ended = Some(Ended {
            duration: self.started.elapsed(),
            output_bytes: self.output_bytes,
            ..Ended::bare(Status::LeaderLost)
        });
    }
}

/// None when the slot is lost, because it ended or sent an invalid report.
async fn next_report(supervisor: &mut Supervisor) -> Option<Report> {
    loop {
        if let Some(frame) = supervisor.frames.next().ok()? {
            return Report::decode(frame).ok();
        }
        match supervisor.reader.read_buf(supervisor.frames.space()).await {
            Ok(count) if count > 0 => {}
            _ => return None,
        }
    }
}
