//! Windows: a job is ready only while one of its windows is open.
//!
//! A job that arrives outside of them, or is not taken before they close, waits for the next opening, and is ranked as
//! if it had been requested for that time. Its `run_at` is changed accordingly, in memory only: it follows from the
//! stored data and the clock, so a restart computes the same.

use jobhall_core::{JobId, JobStatus, Time, Windows};

use crate::jobs::entry::Entry;
use crate::kernel::Kernel;
use crate::upkeep::Deadline;

/// The windows of an open job that has some.
#[derive(Debug)]
pub(crate) struct Timed {
    pub windows: Windows,
    /// When it stops being ready, while it is ready.
    pub closes: Option<Time>,
    /// Its stored `run_at`, if its windows changed the one in memory.
    pub stored_run_at: Option<Time>,
}

impl Timed {
    /// None for a job that may start at any time.
    pub fn of(windows: &Windows) -> Option<Box<Timed>> {
        (!windows.is_always())
            .then(|| Box::new(Timed { windows: windows.clone(), closes: None, stored_run_at: None }))
    }
}

impl Entry {
    /// Whether it may not start at this time: its start time is in the future, or its windows are closed.
    pub(crate) fn too_early(&self, now: Time) -> bool {
        self.life.run_at > now || self.closed(now)
    }

    /// Whether its windows are closed.
    pub(crate) fn closed(&self, now: Time) -> bool {
        self.timed.as_ref().is_some_and(|timed| !timed.windows.open_at(now))
    }

    /// Moves its `run_at` to the next opening, or to the current one if an earlier opening was missed.
    pub(crate) fn keep_to_windows(&mut self, now: Time) {
        let Some(timed) = &mut self.timed else { return };
        let stored = *timed.stored_run_at.get_or_insert(self.life.run_at);
        self.life.run_at = timed.windows.start_of(stored, now);
    }

    /// Its status for the store if nothing else changes its `run_at`: without the change by its windows.
    pub(crate) fn unmoved(&self) -> JobStatus {
        let stored = self.timed.as_ref().and_then(|timed| timed.stored_run_at);
        JobStatus { run_at: stored.unwrap_or(self.life.run_at), ..self.life.clone() }
    }

    /// It has a new status, whose `run_at` was not changed by its windows yet.
    pub(crate) fn time_is_stored(&mut self) {
        if let Some(timed) = &mut self.timed {
            timed.stored_run_at = None;
        }
    }
}

impl Kernel {
    /// The wall clock was set back: openings in the past may be in the future again, also those of ready jobs, whose
    /// rank would then be in the future.
    pub(crate) fn look_at_windows_again(&mut self) {
        let waiting = self.deadlines.windowed();
        let moved = |id: &JobId| {
            let timed = self.jobs.get(*id).and_then(|entry| entry.timed.as_ref());
            timed.is_some_and(|timed| timed.stored_run_at.is_some())
        };
        for id in waiting.filter(moved).collect::<Vec<_>>() {
            self.replace(id);
        }
    }

    /// Watches the windows of a ready job: when they close, it waits for the next opening.
    pub(crate) fn watch_closing(&mut self, id: JobId) {
        let now = self.env.wall();
        let Some(entry) = self.jobs.get_mut(id) else { return };
        let Some(timed) = entry.timed.as_mut() else { return };
        timed.closes = timed.windows.closes_at(now);
        if let Some(at) = timed.closes {
            self.deadlines.set(Deadline::Closing(at, id));
        }
    }

    /// Stops watching its windows.
    pub(crate) fn unwatch_closing(&mut self, id: JobId) {
        let timed = self.jobs.get_mut(id).and_then(|entry| entry.timed.as_mut());
        if let Some(at) = timed.and_then(|timed| timed.closes.take()) {
            self.deadlines.clear(Deadline::Closing(at, id));
        }
    }
}
