//! One command, from its start to the end of the last process it left.
//!
//! ```text
//!   running ──end──▶ leftovers? ──none──▶ drain the pipes ──▶ ended
//!      │                 │ TERM, then the grace period            ▲
//!      └──stop: TERM─────┴──────▶ grace over: KILL until none is left
//! ```

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitStatus, waitid};

use super::output::Output;
use super::socket::Reports;
use super::spawn::Spawned;
use super::tree::{self, FIRST_PAUSE, GIVE_UP, LONGEST_PAUSE, Seen};
use crate::slots::command::Command;
use crate::slots::ended::{Ended, Status};

/// Interval at which ended orphans are reaped while the command runs.
const REAP_EVERY: Duration = Duration::from_secs(1);

/// The command that a slot runs.
pub(super) struct Job {
    pub(super) run: u64,
    main: Pid,
    pub(super) end: OwnedFd,
    pub(super) output: Output,
    started: Instant,
    leftover_grace: Duration,
    end_of_main: Option<EndOfMain>,
    processor: Duration,
    ending: Option<Ending>,
    survivors: Seen,
    left: u64,
    gone: bool,
}

struct EndOfMain {
    status: Status,
    duration: Duration,
}

/// The tree was asked to end.
struct Ending {
    kill_at: Instant,
    killing: bool,
    pause: Duration,
}

impl Job {
    pub(super) fn new(run: u64, command: &Command, spawned: Spawned) -> Self {
        Self {
            run,
            main: spawned.pid,
            end: spawned.end,
            output: Output::new(spawned.stdout, spawned.stderr, command.output_limit),
            started: Instant::now(),
            leftover_grace: command.leftover_grace,
            end_of_main: None,
            processor: Duration::ZERO,
            ending: None,
            survivors: Seen::new(),
            left: 0,
            gone: false,
        }
    }

    /// Whether the command itself runs.
    pub(super) fn main_runs(&self) -> bool {
        self.end_of_main.is_none()
    }

    /// Whether the tree was asked to end, so that it must be checked repeatedly.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// The time until the next check.
    pub(super) fn patience(&self) -> Option<Duration> {
        match &self.ending {
            _ if self.gone => None,
            Some(ending) if self.main_runs() => {
                let until_kill = ending.kill_at.saturating_duration_since(Instant::now());
                Some(if until_kill.is_zero() { ending.pause } else { until_kill.min(REAP_EVERY) })
            }
            Some(ending) => Some(ending.pause),
            None => Some(REAP_EVERY),
        }
    }

    /// Asks the whole tree to end, and kills it after `grace`. A later call can only shorten the time.
    pub(super) fn stop(&mut self, grace: Duration) {
        let kill_at = Instant::now() + grace;
        if let Some(ending) = &mut self.ending {
            ending.kill_at = ending.kill_at.min(kill_at);
        } else if !self.gone {
            self.begin_to_end(kill_at);
        }
    }

    fn begin_to_end(&mut self, kill_at: Instant) {
        self.ending = Some(Ending { kill_at, killing: false, pause: FIRST_PAUSE });
        let asked = tree::ask_to_end();
        if !self.main_runs() {
            self.survivors.extend(asked);
        }
    }

    /// Checks the tree and does what is due; returns the end when the tree has ended and all output was queued.
    pub(super) fn advance(&mut self, reports: &mut Reports) -> Option<Ended> {
        if !self.gone {
            self.look();
        }
        (self.gone && self.output.drain(reports)).then(|| self.ended())
    }

    fn look(&mut self) {
        let none_left = self.reap();
        if none_left {
            self.gone = true;
            return;
        }
        if !self.main_runs() && self.ending.is_none() {
            self.begin_to_end(Instant::now() + self.leftover_grace);
        }
        self.kill_when_due();
    }

    fn kill_when_due(&mut self) {
        let now = Instant::now();
        let Some(ending) = &mut self.ending else { return };
        ending.pause = (ending.pause * 2).min(LONGEST_PAUSE);
        if now < ending.kill_at {
            return;
        }
        if !ending.killing {
            ending.killing = true;
            ending.pause = FIRST_PAUSE;
        }
        let killed = tree::kill();
        if now >= ending.kill_at + GIVE_UP {
            self.left = killed.len() as u64;
            self.gone = true;
        }
        let main = self.main.as_raw_nonzero().get();
        self.survivors.extend(killed.into_iter().filter(|process| process.pid != main));
    }

    /// Reaps children; returns true if no process of the command is left.
    fn reap(&mut self) -> bool {
        if self.main_runs() && has_ended(self.main) {
            self.processor = tree::processor_time(self.main);
        }
        let (main, started) = (self.main, self.started);
        let end_of_main = &mut self.end_of_main;
        tree::reap(|pid, status| {
            if pid == main {
                *end_of_main = Some(EndOfMain { status: told(status), duration: started.elapsed() });
            }
        })
    }

    fn ended(&mut self) -> Ended {
        let end = self.end_of_main.take();
        let duration = end.as_ref().map_or_else(|| self.started.elapsed(), |end| end.duration);
        Ended {
            status: end.map_or(Status::Stuck, |end| end.status),
            duration,
            processor: self.processor,
            output_bytes: self.output.kept,
            dropped_bytes: self.output.dropped,
            survivors_killed: (self.survivors.len() as u64).saturating_sub(self.left),
            survivors_left: self.left,
        }
    }
}

/// Whether the process has ended and was not reaped yet.
fn has_ended(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)))
}

fn told(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Exit(code),
        (None, Some(signal)) => Status::Signal(signal),
        (None, None) => Status::NotStarted { reason: "unknown exit status".to_owned() },
    }
}
