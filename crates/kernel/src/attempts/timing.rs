//! How long an attempt has been working, and when it times out.
//!
//! The time is measured on the monotonic clock and is suspended while the attempt waits for others. Only a restart
//! uses the stored times instead; the time of the last report is then unknown, and starts from the restart.

use jobhall_core::{
    AttemptId, Decision, Event, Failure, JobId, JobStatus, State, StopWhy, Timeouts, transition,
};

use crate::api::effect::{Effect, SessionId};
use crate::api::time::Mono;
use crate::commits::step::Then;
use crate::jobs::entry::Entry;
use crate::kernel::{JobTask, Kernel};
use crate::upkeep::Deadline;

/// The reason of a failure caused by a time-out.
const TIMED_OUT: &str = "timed_out";

/// The timing of an attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    /// Working time up to `running`.
    worked_ms: u64,
    /// Since when it is working; none before the attempt is accepted and while it waits.
    running: Option<Mono>,
    /// When the attempt last reported; while it waits, how long before that.
    heard: Mono,
    silent_ms: u64,
    /// When a stop was sent to its worker because of a time-out.
    stopped: Option<Mono>,
    /// When it is checked next.
    pub at: Option<Mono>,
}

impl Timing {
    fn worked(&self, now: Mono) -> u64 {
        self.worked_ms + self.running.map_or(0, |since| now.0.saturating_sub(since.0))
    }

    fn start(&mut self, now: Mono) {
        if self.running.is_none() {
            self.running = Some(now);
            self.heard = Mono(now.0.saturating_sub(self.silent_ms));
        }
    }

    fn stand_still(&mut self, now: Mono) {
        self.worked_ms = self.worked(now);
        self.silent_ms = now.0.saturating_sub(self.heard.0);
        self.running = None;
    }

    /// When the attempt is checked: it times out, or its worker's grace period ends.
    fn next(&self, timeouts: &Timeouts, force_ms: u64) -> Option<Mono> {
        if let Some(stopped) = self.stopped {
            return Some(stopped.plus_ms(force_ms));
        }
        let since = self.running?;
        let total = since.plus_ms(timeouts.total().saturating_sub(self.worked_ms));
        let silence = timeouts.silence_ms.map(|ms| self.heard.plus_ms(ms));
        Some(silence.map_or(total, |silence| silence.min(total)))
    }

    /// Which time limit has been exceeded at this time, as the job's error.
    fn over(&self, timeouts: &Timeouts, now: Mono) -> Option<Failure> {
        self.running?;
        let silent_ms = now.0.saturating_sub(self.heard.0);
        let words = match timeouts.silence_ms {
            _ if self.worked(now) >= timeouts.total() => {
                format!("the attempt took longer than {} ms", timeouts.total())
            }
            Some(ms) if silent_ms >= ms => format!("there was no output or progress for {ms} ms"),
            _ => return None,
        };
        Some(Failure::new(TIMED_OUT, words))
    }
}

impl Entry {
    /// Whether its attempt waits for sub-jobs.
    pub(crate) fn waits_for_jobs(&self) -> bool {
        matches!(self.status.state(), State::Waiting(_)) && self.status.state().leased().is_some()
    }
}

/// How long the attempt had been working when it was stored, by the stored times.
fn worked_by(status: &JobStatus, now: jobhall_core::Time) -> u64 {
    let (until, lease) = match &status.state {
        State::Waiting(waiting) if status.state.leased().is_some() => (waiting.since, &waiting.held.lease),
        state => match state.lease() {
            Some(lease) => (now, lease),
            None => return 0,
        },
    };
    lease.accepted_at.map_or(0, |at| until.since(at).saturating_sub(lease.waited_ms))
}

impl Kernel {
    fn timeouts(&self, entry: &Entry) -> Option<Timeouts> {
        let spec = entry.spec.as_ref()?;
        Some(spec.timeouts.or(self.settings.type_config(&spec.job_type).timeouts))
    }

    /// How long the live attempt of a job has been working.
    pub(crate) fn worked_ms(&self, id: JobId) -> Option<u64> {
        let entry = self.jobs.get(id)?;
        match self.fleet.hold(id) {
            Some(hold) => Some(hold.timing.worked(self.env.mono())),
            None => entry.status.state().lease().map(|_| worked_by(&entry.status.get(), self.env.wall())),
        }
    }

    /// The expected duration of this job's type, if its attempt takes longer.
    pub(crate) fn expected_ms(&self, id: JobId) -> Option<u64> {
        let spec = self.jobs.get(id)?.spec.as_ref()?;
        let expected_ms = self.settings.type_config(&spec.job_type).expected_ms?;
        self.worked_ms(id).filter(|worked_ms| *worked_ms > expected_ms).map(|_| expected_ms)
    }

    /// The attempt works from now on. If its time limit is not near, it is checked when it is stored.
    pub(crate) fn start_clock(&mut self, id: JobId) {
        let now = self.env.mono();
        let Some(hold) = self.fleet.hold_mut(id) else { return };
        hold.timing.start(now);
        let timing = hold.timing;
        let Some(timeouts) = self.jobs.get(id).and_then(|entry| self.timeouts(entry)) else { return };
        let next = timing.next(&timeouts, self.env.config().force_ms);
        if next.is_some_and(|at| at <= now.plus_ms(self.env.config().save_ms)) {
            self.watch_clock(id);
        }
    }

    /// The attempt waits from now on.
    pub(crate) fn stop_clock(&mut self, id: JobId) {
        let now = self.env.mono();
        if let Some(hold) = self.fleet.hold_mut(id) {
            hold.timing.stand_still(now);
        }
    }

    /// The attempt has reported something.
    pub(crate) fn heard(&mut self, id: JobId) {
        let now = self.env.mono();
        if let Some(hold) = self.fleet.hold_mut(id) {
            hold.timing.heard = now;
        }
    }

    /// At start: continues the timing from the stored times.
    pub(crate) fn restore_clock(&mut self, id: JobId) {
        let now = self.env.now();
        let (Some(entry), Some(hold)) = (self.jobs.get(id), self.fleet.hold_mut(id)) else {
            return;
        };
        let timing = &mut hold.timing;
        timing.worked_ms = worked_by(&entry.status.get(), now.wall);
        let held = entry.status.state().leased();
        if held.is_some_and(|held| held.stop.as_ref().is_some_and(|stop| stop.why == StopWhy::TimeOut)) {
            timing.stopped = Some(now.mono);
        }
        if matches!(entry.status.state(), State::Accepted(_) | State::Running(_)) {
            timing.start(now.mono);
        }
        self.watch_clock(id);
    }

    /// Schedules the check of the attempt's time limits.
    pub(crate) fn watch_clock(&mut self, id: JobId) {
        let Some(timeouts) = self.jobs.get(id).and_then(|entry| self.timeouts(entry)) else { return };
        let Some(hold) = self.fleet.hold_mut(id) else { return };
        let next = hold.timing.next(&timeouts, self.env.config().force_ms);
        let before = std::mem::replace(&mut hold.timing.at, next);
        if let Some(before) = before {
            self.deadlines.clear(Deadline::Timeout(before, id));
        }
        if let Some(next) = next {
            self.deadlines.set(Deadline::Timeout(next, id));
        }
    }

    /// An attempt is to be checked: it may have timed out.
    pub(crate) fn time_out(&mut self, claim: u32, task: JobTask) {
        let id = task.id;
        let dice = self.env.dice();
        let (Some(entry), Some(hold)) = (self.jobs.get(id), self.fleet.hold(id)) else {
            return;
        };
        let (Some(timeouts), Some(spec)) = (self.timeouts(entry), &entry.spec) else { return };
        let (timing, now) = (hold.timing, self.env.mono());
        let forced = timing.stopped.is_some_and(|at| at.plus_ms(self.env.config().force_ms) <= now);
        let over = timing.over(&timeouts, now);
        let Some(failure) = over.or_else(|| forced.then(|| Failure::new(TIMED_OUT, ""))) else {
            return self.watch_clock(id);
        };
        if entry.status.claim() != claim || (timing.stopped.is_some() && !forced) {
            return;
        }
        let event = Event::TimeOut { failure: &failure, retry: &spec.retry, dice, forced };
        match transition(&entry.status.get(), &event, self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_step(task, *step, Then::Revoke),
            // A cancel was requested meanwhile: the attempt may stop as long as its lease is valid.
            Ok(Decision::Same) | Err(_) => {}
        }
    }

    /// The stop of a timed-out attempt is stored: it is sent to the worker, whose grace period begins.
    pub(crate) fn stop_for_time(&mut self, session: SessionId, attempt: AttemptId) {
        let now = self.env.mono();
        if let Some(hold) = self.fleet.hold_mut(attempt.job) {
            hold.timing.stopped = Some(now);
        }
        self.watch_clock(attempt.job);
        self.effect(Effect::TimeOut(session, attempt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Timeouts = Timeouts { total_ms: Some(100), silence_ms: Some(30) };

    #[test]
    fn both_clocks_stand_still_while_the_attempt_waits() {
        let mut timing = Timing::default();
        timing.start(Mono(1_000));
        assert_eq!(timing.next(&LIMITS, 9), Some(Mono(1_030)));
        timing.stand_still(Mono(1_020));
        assert_eq!((timing.worked(Mono(9_000)), timing.next(&LIMITS, 9)), (20, None));
        assert!(timing.over(&LIMITS, Mono(9_000)).is_none());
        timing.start(Mono(9_000));
        assert_eq!(timing.next(&LIMITS, 9), Some(Mono(9_010)), "ten of thirty are left");
        assert!(timing.over(&LIMITS, Mono(9_009)).is_none());
        let silent = timing.over(&LIMITS, Mono(9_010)).unwrap();
        assert_eq!(silent.explanation, "there was no output or progress for 30 ms");
        timing.heard = Mono(9_070);
        assert!(timing.over(&LIMITS, Mono(9_079)).is_none());
        let slow = timing.over(&LIMITS, Mono(9_080)).unwrap();
        assert_eq!(
            (slow.reason.as_str(), slow.explanation.as_str()),
            ("timed_out", "the attempt took longer than 100 ms")
        );
    }
}
