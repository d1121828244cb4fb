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
    pub fn of(windows: &Windows) -> Option<Timed> {
        (!windows.is_always()).then(|| Timed { windows: windows.clone(), closes: None, stored_run_at: None })
    }
}

impl Entry {
    /// Whether it may not start at this time: its start time is in the future, or its windows are closed.
    pub(crate) fn too_early(&self, now: Time) -> bool {
        self.status.run_at() > now || self.closed(now)
    }

    /// Whether its windows are closed.
    pub(crate) fn closed(&self, now: Time) -> bool {
        self.timed().is_some_and(|timed| !timed.windows.open_at(now))
    }

    /// Moves its `run_at` to the next opening, or to the current one if an earlier opening was missed.
    pub(crate) fn keep_to_windows(&mut self, now: Time) {
        let run_at = self.status.run_at();
        let Some(timed) = self.timed_mut() else { return };
        let stored = *timed.stored_run_at.get_or_insert(run_at);
        let start = timed.windows.start_of(stored, now);
        self.status.set_run_at(start);
    }

    /// Its status for the store if nothing else changes its `run_at`: without the change by its windows.
    pub(crate) fn unmoved(&self) -> JobStatus {
        let stored = self.timed().and_then(|timed| timed.stored_run_at);
        let status = self.status.get().into_owned();
        JobStatus { run_at: stored.unwrap_or(status.run_at), ..status }
    }

    /// It has a new status, whose `run_at` was not changed by its windows yet.
    pub(crate) fn time_is_stored(&mut self) {
        if let Some(timed) = self.timed_mut() {
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
            let timed = self.jobs.get(*id).and_then(|entry| entry.timed());
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
        let Some(timed) = entry.timed_mut() else { return };
        timed.closes = timed.windows.closes_at(now);
        if let Some(at) = timed.closes {
            self.deadlines.set(Deadline::Closing(at, id));
        }
    }

    /// Stops watching its windows.
    pub(crate) fn unwatch_closing(&mut self, id: JobId) {
        let timed = self.jobs.get_mut(id).and_then(|entry| entry.timed_mut());
        if let Some(at) = timed.and_then(|timed| timed.closes.take()) {
            self.deadlines.clear(Deadline::Closing(at, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use jobhall_core::JobSpec;

    use super::*;
    use crate::fixtures::{entry, spec, time};
    use crate::matching::board::Board;

    const HOUR: u64 = 3_600_000;

    /// A job that is requested for this hour, and may start from 12:00 to 13:00.
    fn noon(run_at: u64) -> Entry {
        let windows = Windows::parse("12:00-13:00").unwrap();
        let status = JobStatus::queued(time(0), time(run_at * HOUR));
        entry(&mut Board::default(), JobSpec { windows, ..spec() }, status)
    }

    #[test]
    fn a_job_without_windows_is_not_timed() {
        let texts = ["", "12:00-13:00"].map(|text| Timed::of(&Windows::parse(text).unwrap()).is_some());
        assert_eq!(texts, [false, true]);
    }

    #[test]
    fn a_job_is_too_early_before_its_time_and_while_its_windows_are_closed() {
        let plain = entry(&mut Board::default(), spec(), JobStatus::queued(time(0), time(5)));
        assert_eq!([4, 5].map(|ms| plain.too_early(time(ms))), [true, false]);
        assert!(!plain.closed(time(4)));
        let noon = noon(0);
        let early = [11, 12, 13].map(|hour| noon.too_early(time(hour * HOUR)));
        assert_eq!(early, [true, false, true]);
    }

    #[test]
    fn windows_move_the_start_and_keep_the_stored_one() {
        let mut entry = noon(3);
        entry.keep_to_windows(time(4 * HOUR));
        assert_eq!(entry.status.run_at(), time(12 * HOUR));
        entry.keep_to_windows(time(14 * HOUR));
        assert_eq!(entry.status.run_at(), time(36 * HOUR), "the next opening");
        assert_eq!(entry.unmoved().run_at, time(3 * HOUR));
        entry.keep_to_windows(time(4 * HOUR));
        assert_eq!(
            entry.status.run_at(),
            time(12 * HOUR),
            "computed from the stored start, not from the moved one"
        );
    }

    #[test]
    fn a_new_status_has_a_new_stored_start() {
        let mut entry = noon(3);
        entry.keep_to_windows(time(4 * HOUR));
        entry.status.set_run_at(time(5 * HOUR));
        entry.time_is_stored();
        assert_eq!(entry.unmoved().run_at, time(5 * HOUR));
        entry.keep_to_windows(time(6 * HOUR));
        assert_eq!(entry.unmoved().run_at, time(5 * HOUR));
    }

    #[test]
    fn a_job_without_windows_keeps_its_start() {
        let mut entry = entry(&mut Board::default(), spec(), JobStatus::queued(time(0), time(5)));
        entry.keep_to_windows(time(9));
        assert_eq!((entry.status.run_at(), entry.unmoved().run_at), (time(5), time(5)));
    }
}
