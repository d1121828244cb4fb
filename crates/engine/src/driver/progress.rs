//! Publishing progress: at most ten times a second a job, and the last change is never left out.

use std::collections::VecDeque;

use jobhall_core::{IdMap, JobId};
use jobhall_kernel::Mono;

use super::Driver;
use crate::watch::Published;

/// Shortest time between two publications of a job.
const INTERVAL_MS: u64 = 100;

/// Jobs whose progress was published within the interval.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// Whether the job has changed since.
    recent: IdMap<JobId, bool>,
    /// When the interval of each of them ends, in order.
    ends: VecDeque<(Mono, JobId)>,
}

impl Throttle {
    /// A job has changed. Returns whether it is published now; otherwise it is when its interval ends.
    fn changed(&mut self, now: Mono, id: JobId) -> bool {
        if let Some(changed) = self.recent.get_mut(&id) {
            *changed = true;
            return false;
        }
        self.begin(now, id);
        true
    }

    fn begin(&mut self, now: Mono, id: JobId) {
        self.recent.insert(id, false);
        self.ends.push_back((now.plus_ms(INTERVAL_MS), id));
    }

    /// Takes a job that is published now because it changed during its interval.
    fn due(&mut self, now: Mono) -> Option<JobId> {
        while let Some(&(_, id)) = self.ends.front().filter(|(end, _)| *end <= now) {
            self.ends.pop_front();
            if self.recent.remove(&id) == Some(true) {
                self.begin(now, id);
                return Some(id);
            }
        }
        None
    }

    /// Milliseconds until the next interval ends.
    pub fn next_ms(&self, now: Mono) -> Option<u64> {
        self.ends.front().map(|(end, _)| end.0.saturating_sub(now.0))
    }
}

impl Driver {
    /// A live attempt has reported progress.
    pub(super) fn progressed(&mut self, id: JobId) {
        if self.published.receiver_count() > 0 && self.throttle.changed(self.clock.now().mono, id) {
            self.publish_progress(id);
        }
    }

    /// Publishes the last changes of the jobs whose interval is over.
    pub(super) fn publish_due(&mut self, now: Mono) {
        while let Some(id) = self.throttle.due(now) {
            self.publish_progress(id);
        }
    }

    /// Publishes the progress of a job, unless its attempt has ended.
    fn publish_progress(&mut self, id: JobId) {
        if let Some(progress) = self.kernel.progress(id) {
            let _ = self.published.send(Published::Progress(id, progress.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q22_ground_14_a_job_is_published_at_most_ten_times_a_second_and_the_last_change_is() {
        let (one, other) = (JobId::new(1).unwrap(), JobId::new(2).unwrap());
        let mut throttle = Throttle::default();
        let mut published = Vec::new();
        for ms in 0..1_000u64 {
            while let Some(id) = throttle.due(Mono(ms)) {
                published.push((ms, id));
            }
            if throttle.changed(Mono(ms), one) {
                published.push((ms, one));
            }
        }
        let times: Vec<u64> = published.iter().map(|(ms, _)| *ms).collect();
        assert_eq!(times, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert!(throttle.changed(Mono(999), other), "another job has its own interval");
        assert_eq!(throttle.next_ms(Mono(999)), Some(1));
        assert_eq!(throttle.due(Mono(1_000)), Some(one), "the last change");
        assert_eq!(throttle.due(Mono(2_000)), None);
        assert!(throttle.recent.is_empty() && throttle.next_ms(Mono(2_000)).is_none());
    }
}
