//! Windows: a job is among the ready only while one of its windows is open.
//!
//! A job that comes outside of them, or is not taken before they close, waits for the next opening. Its `run_at` says
//! so, in memory only: it follows from what is stored and the clock, and a restart comes to the same.

use jobhall_core::{JobId, Time, Windows};

use crate::desk::Desk;
use crate::entry::Entry;

/// The windows of an open job that has some.
#[derive(Debug)]
pub(crate) struct Timed {
    pub windows: Windows,
    /// When it stops being ready, while it is.
    pub closes: Option<Time>,
}

impl Timed {
    /// Nothing for a job that may start at any time.
    pub fn of(windows: &Windows) -> Option<Box<Timed>> {
        (!windows.is_always()).then(|| Box::new(Timed { windows: windows.clone(), closes: None }))
    }
}

impl Entry {
    /// Whether it may not be started at this moment: its time lies ahead, or its windows are closed.
    pub(crate) fn too_early(&self, now: Time) -> bool {
        self.life.run_at > now || self.closed(now)
    }

    /// Whether its windows are closed.
    pub(crate) fn closed(&self, now: Time) -> bool {
        self.timed.as_ref().is_some_and(|timed| !timed.windows.open_at(now))
    }

    /// Lets it wait for the next opening where it would start outside of its windows.
    pub(crate) fn keep_to_windows(&mut self, now: Time) {
        let Some(timed) = &self.timed else { return };
        let start = self.life.run_at.max(now);
        if !timed.windows.open_at(start) {
            self.life.run_at = timed.windows.next_open(start);
        }
    }
}

impl Desk {
    /// A job is among the ready: it leaves them when its windows close.
    pub(crate) fn watch_closing(&mut self, id: JobId) {
        let now = self.now.wall;
        let Some(entry) = self.open.get_mut(&id.get()) else { return };
        let Some(timed) = entry.timed.as_mut() else { return };
        timed.closes = timed.windows.closes_at(now);
        if let Some(at) = timed.closes {
            self.deadlines.closing.insert((at, id));
        }
    }

    /// It is there no longer.
    pub(crate) fn unwatch_closing(&mut self, id: JobId) {
        let timed = self.open.get_mut(&id.get()).and_then(|entry| entry.timed.as_mut());
        if let Some(at) = timed.and_then(|timed| timed.closes.take()) {
            self.deadlines.closing.remove(&(at, id));
        }
    }
}
