//! Detection of cycles of waiting attempts, which would wait forever. A join can close such a cycle, so the kernel
//! searches for one whenever an attempt begins to wait, or waits for more: the youngest job of the cycle fails, and
//! the others continue.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{Decision, Dice, Event, Failure, JobId, Report, State, Verdict, When, transition};

use crate::commits::step::Then;
use crate::kernel::{JobTask, JobWork, Kernel};

impl Kernel {
    /// Breaks the cycle that this wait has closed, if any.
    pub(crate) fn break_cycle(&mut self, id: JobId) {
        let Some(cycle) = self.cycle(id) else { return };
        let waiting = cycle.iter().filter(|id| self.relations.waits.contains_key(id));
        let Some(&youngest) = waiting.max() else { return };
        let words: Vec<_> = cycle.iter().chain([&id]).map(|id| format!("job {id}")).collect();
        let failure = Failure::new("wait_cycle", words.join(" waits for "));
        if let Some(entry) = self.jobs.get(youngest) {
            let claim = entry.status.claim();
            self.enqueue(JobWork::Cycle(claim, Box::new(failure)).on(youngest));
        }
    }

    /// The path from a job back to itself, over the jobs that each waits for.
    fn cycle(&self, start: JobId) -> Option<Vec<JobId>> {
        let mut from: BTreeMap<JobId, JobId> = BTreeMap::new();
        let mut seen = BTreeSet::from([start]);
        let mut to_see = vec![start];
        while let Some(id) = to_see.pop() {
            for next in self.waits_for(id) {
                if next == start {
                    let mut way = vec![id];
                    while let Some(before) = from.get(&way[way.len() - 1]) {
                        way.push(*before);
                    }
                    way.reverse();
                    return Some(way);
                }
                if seen.insert(next) {
                    from.insert(next, id);
                    to_see.push(next);
                }
            }
        }
        None
    }

    /// The jobs that must end before this one continues.
    fn waits_for(&self, id: JobId) -> Vec<JobId> {
        let Some(entry) = self.jobs.get(id) else { return Vec::new() };
        match entry.status.state() {
            State::Waiting(_) => self
                .relations
                .waits
                .get(&id)
                .map(|wait| wait.open.iter().copied().collect())
                .unwrap_or_default(),
            State::Blocked(blocked) => {
                let after = entry.spec.as_ref().filter(|_| blocked.dependencies);
                let after = after.into_iter().flat_map(|spec| spec.after.iter().copied());
                after.chain(blocked.holder).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Fails the youngest job of a cycle, regardless of its policy: a retry would close the cycle again.
    pub(crate) fn fail_for_cycle(&mut self, claim: u32, failure: &Failure, task: JobTask) {
        let Some(entry) = self.jobs.get(task.id).filter(|entry| entry.status.claim() == claim) else {
            return;
        };
        let (Some(held), Some(spec)) = (entry.status.state().leased(), &entry.spec) else { return };
        if !entry.waits_for_jobs() {
            return;
        }
        let report = Report::Failed(failure.clone(), Some(Verdict { when: When::Never, params: None }));
        let (lease, retry, dice) = (held.lease.id, &spec.retry, Dice(0));
        let event = Event::Report { claim, lease, report: &report, retry, dice };
        if let Ok(Decision::Step(step)) = transition(&entry.status.get(), &event, self.env.wall()) {
            self.send_step(task, *step, Then::Revoke);
        }
    }
}
