//! Sub-jobs of attempts: requested one by one or several at once, and waited for by one request or by several.

use jobhall_core::{AttemptId, JobId, Submitted};
use jobhall_kernel::{AttemptRef, Request};

use super::Step;
use crate::simulation::Sim;
use crate::simulation::event::Purpose;
use crate::workers::manner::{Task, passed};

/// Added to the number of a sub-job for the one that is requested with it.
const PAIRED: u64 = 10;

impl Sim {
    /// Requests the nth sub-job; with several at once, every second request has two.
    pub(super) fn call_sub_jobs(&mut self, at: usize, of: AttemptRef, n: u64) {
        let attempt = of.attempt;
        let params = self.workers[at].runs[&attempt].params.clone();
        let task = Task { seed: self.script.seed, attempt, params: &params, calm: false };
        let several = self.script.several && n % 2 == 1;
        let numbers = [n, n + PAIRED].into_iter().take(if several { 2 } else { 1 });
        let jobs = numbers.map(|n| (format!("call {n}"), task.sub_job(n))).collect();
        if several {
            self.tally.add("waits", "several jobs in one call");
        }
        self.ask_as(at, Request::Call { of, jobs, by: None }, Purpose::Call(attempt));
    }

    /// The attempt knows these sub-jobs from now on.
    pub(super) fn called(&mut self, at: usize, attempt: AttemptId, made: &[Submitted]) {
        let Some(run) = self.workers[at].runs.get_mut(&attempt) else { return };
        for Submitted { id, .. } in made {
            if !run.sub_jobs.contains(id) {
                run.sub_jobs.push(*id);
            }
        }
    }

    /// Waits for all sub-jobs; or by two requests, each for a part of those that it knows.
    pub(super) fn wait_for_sub_jobs(&mut self, at: usize, of: &AttemptRef) {
        let attempt = of.attempt;
        let Some(run) = self.workers[at].runs.get_mut(&attempt) else { return };
        run.waits = true;
        let known = if self.script.several { run.sub_jobs.clone() } else { Vec::new() };
        let mut roll = self.roll(&[32, self.ms, attempt.job.get()]);
        let half = known.len().div_ceil(2).max(1);
        let mut parts: Vec<Option<Vec<JobId>>> = known.chunks(half).map(|part| Some(part.to_vec())).collect();
        match parts.len() {
            0 => parts.push(None),
            1 => {}
            _ => self.tally.add("waits", "several at once"),
        }
        for jobs in parts {
            let wait_ms = *roll.pick(&[0, 3_000]);
            self.ask_as(at, Request::Wait { of: of.clone(), jobs, wait_ms }, Purpose::Wait(attempt));
        }
    }

    /// A waiting attempt reports that again, in case the message was lost.
    pub(super) fn wait_again(&mut self, at: usize) {
        let waiting = self.workers[at].runs.iter().filter(|(_, run)| run.waits);
        let waiting: Vec<_> = waiting.map(|(&attempt, _)| attempt).collect();
        let status = self.workers[at].status;
        for attempt in waiting {
            self.worker_later(at, status, 1, Step::Wait(attempt));
        }
    }

    /// The wait of an attempt is over because these jobs have ended. It reports, or waits for the others.
    pub(super) fn goes_on(&mut self, at: usize, attempt: AttemptId, ended: &[JobId]) {
        let (status, calm, several) = (self.workers[at].status, self.calm, self.script.several);
        let Some(run) = self.workers[at].runs.get_mut(&attempt).filter(|run| run.waits) else { return };
        run.waits = false;
        run.sub_jobs.retain(|job| !ended.contains(job));
        let left = if several { run.sub_jobs.len() } else { 0 };
        if calm {
            run.report = passed(attempt);
        }
        self.tally.add("workers", "continued after a wait");
        let (job, claim) = (attempt.job.get(), u64::from(attempt.claim));
        let in_ms = self.roll(&[33, job, claim]).below(800);
        let again = left > 0 && self.roll(&[38, job, claim, left as u64]).percent(60);
        if again {
            self.tally.add("waits", "waited again");
        }
        let next = if again { Step::Wait(attempt) } else { Step::Report(attempt) };
        self.worker_later(at, status, in_ms, next);
    }
}
