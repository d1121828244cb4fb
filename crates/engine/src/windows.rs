//! Windows: a job is among the ready only while one of its windows is open.
//!
//! A job that comes outside of them, or is not taken before they close, waits for the next opening, and stands in line
//! as if it had been asked for then. Its `run_at` says so, in memory only: it follows from what is stored and the clock,
//! and a restart comes to the same.

use jobhall_core::{JobId, JobStatus, Time, Windows};

use crate::entry::Entry;
use crate::kernel::Kernel;

/// The windows of an open job that has some.
#[derive(Debug)]
pub(crate) struct Timed {
    pub windows: Windows,
    /// When it stops being ready, while it is.
    pub closes: Option<Time>,
    /// The time that was stored for it, once its windows moved it.
    pub stored_run_at: Option<Time>,
}

impl Timed {
    /// Nothing for a job that may start at any time.
    pub fn of(windows: &Windows) -> Option<Box<Timed>> {
        (!windows.is_always())
            .then(|| Box::new(Timed { windows: windows.clone(), closes: None, stored_run_at: None }))
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

    /// Moves its time to the next opening, or to that of the present one where an earlier was missed.
    pub(crate) fn keep_to_windows(&mut self, now: Time) {
        let Some(timed) = &mut self.timed else { return };
        let stored = *timed.stored_run_at.get_or_insert(self.life.run_at);
        self.life.run_at = timed.windows.start_of(stored, now);
    }

    /// Its life as it goes to the store where nothing else changes its time: not moved by its windows.
    pub(crate) fn unmoved(&self) -> JobStatus {
        let stored = self.timed.as_ref().and_then(|timed| timed.stored_run_at);
        JobStatus { run_at: stored.unwrap_or(self.life.run_at), ..self.life.clone() }
    }

    /// It has another life, whose time was not moved yet.
    pub(crate) fn time_is_stored(&mut self) {
        if let Some(timed) = &mut self.timed {
            timed.stored_run_at = None;
        }
    }
}

impl Kernel {
    /// The wall clock was set back: openings that seemed to be over may be ahead again, also those of ready jobs, whose
    /// rank would lie in the future.
    pub(crate) fn look_at_windows_again(&mut self) {
        let waiting = self.deadlines.due.iter().chain(&self.deadlines.closing).map(|&(_, id)| id);
        let moved = |id: &JobId| {
            let timed = self.open.get(&id.get()).and_then(|entry| entry.timed.as_ref());
            timed.is_some_and(|timed| timed.stored_run_at.is_some())
        };
        for id in waiting.filter(moved).collect::<Vec<_>>() {
            self.replace(id);
        }
    }

    /// A job could be started, if nothing else keeps it: it waits for the next opening when its windows close.
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
