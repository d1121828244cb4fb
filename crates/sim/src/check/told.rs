//! External outcomes: each ends the attempt that it names, once, whether it arrives before or after the worker
//! reports that the work has started. After a cancel it ends nothing.

use jobhall_core::{Job, JobId, JobStatus, Report, State, StateName, WaitFor};

use super::ends::{By, End};
use super::shelf::Shelf;
use super::{Checker, Invariant};

impl Checker {
    /// Jobs that wait for an external outcome.
    pub fn waits_external(&self) -> Vec<JobId> {
        let outside = self.rows.values().filter(|row| until(&row.status).is_some());
        outside.map(|row| row.id).collect()
    }

    /// A job with external work changed.
    pub(super) fn external_moved(&mut self, before: &Job, after: &Job) {
        let id = before.id;
        match &after.status.state {
            State::Waiting(_) => {}
            State::Cancelled(defeat) => {
                let known = self.is_known_cancel(before, defeat);
                self.must(known, Invariant::Cancel, &[id], || {
                    format!("job {id}: cancelled without a request")
                });
                self.seen.push(("outside", "cancelled"));
                // From then on a report of the worker that started the work is acknowledged, as after any cancel.
                if let Some(end) = self.ends.get_mut(&(id, before.status.claim)) {
                    end.by = By::Cancel;
                }
            }
            _ if timed_out(&after.status) => {
                self.seen.push(("outside", "not completed in time"));
                if let Some(end) = self.ends.get_mut(&(id, before.status.claim)) {
                    end.by = By::Time;
                }
            }
            _ => {
                let told = self.told.get(&id).and_then(|all| all.iter().find(|it| matches(after, it)));
                let Some(report) = told.cloned() else {
                    let text = format!("job {id} had external work and became {:?}", after.status.state);
                    return self.fail(Invariant::External, &[id], format!("{text}, which was not reported"));
                };
                self.taken.entry(id).or_default().push(report);
                self.seen.push(("outside", "completed after the start"));
            }
        }
    }

    /// A leased job moved: an outcome that is stored for it was reported externally.
    pub(super) fn outcome_kept(&mut self, before: &Job, after: &Job) {
        let early = |job: &Job| job.status.state.leased().and_then(|held| held.early.clone());
        let (Some(kept), id) = (early(after), before.id) else { return };
        if early(before).is_some() {
            return;
        }
        let told = self.told.get(&id).is_some_and(|all| all.contains(&kept));
        self.must(told, Invariant::External, &[id], || {
            format!("job {id} keeps {kept:?}, which was not reported")
        });
        self.taken.entry(id).or_default().push(*kept);
        self.seen.push(("outside", "completed before the start"));
    }

    /// Whether a lease ended because its holder reported that it started external work, or by its external outcome.
    pub(super) fn said_started(&self, id: JobId, claim: u32, end: &End) -> bool {
        let said = self.started_external.get(&(id, claim));
        match &end.by {
            By::External | By::Cancel => {
                said.is_some_and(|all| all.contains(&(end.lease, end.worker.clone())))
            }
            // An earlier external outcome ends it, whether its worker reports that or its lease expires.
            by => self.taken.get(&id).into_iter().flatten().any(|report| by.is(report)),
        }
    }

    /// An acknowledged outcome is the one that was applied.
    pub(super) fn finish_known(&mut self, id: JobId, report: &Report) {
        let known = self.taken.get(&id).is_some_and(|all| all.contains(report));
        self.must(known, Invariant::External, &[id], || {
            format!("job {id}: {report:?} is acknowledged, but was never accepted")
        });
    }

    /// A refused outcome is not the one that ended the job.
    pub(super) fn finish_refused(
        &mut self,
        shelf: &impl Shelf,
        id: JobId,
        attempt: Option<u32>,
        report: &Report,
    ) {
        let Some(row) = shelf.row(id) else { return };
        let meant = attempt.is_none_or(|attempt| attempt == row.status.attempt);
        let taken = self.taken.get(&id).is_some_and(|all| all.contains(report));
        let ended = row.status.state.is_terminal() && meant && taken && matches(&row, report);
        self.must(!ended, Invariant::External, &[id], || {
            format!("job {id}: {report:?} ended it, but is refused when it is repeated")
        });
        if row.status.state.name() == StateName::Cancelled {
            self.seen.push(("outside", "completed after a cancel"));
        }
    }

    /// A job with external work does not time out too early.
    pub(super) fn external_in_time(&mut self, before: &Job, after: &JobStatus) {
        let (id, wall) = (before.id, self.now.wall);
        let Some(until) = until(&before.status).filter(|_| timed_out(after)) else { return };
        self.must(until <= wall, Invariant::Early, &[id], || {
            format!("job {id} is given up {} ms before its outcome was due", until.since(wall))
        });
    }
}

/// When a job with external work times out.
pub(super) fn until(status: &JobStatus) -> Option<jobhall_core::Time> {
    match &status.state {
        State::Waiting(waiting) => match waiting.on {
            WaitFor::External { until } => Some(until),
            WaitFor::Jobs => None,
        },
        _ => None,
    }
}

fn timed_out(status: &JobStatus) -> bool {
    let error = status.state.error();
    error.is_some_and(|error| error.explanation == "no outcome was reported in time")
}

/// Whether the state of a job matches this outcome.
fn matches(after: &Job, report: &Report) -> bool {
    match &after.status.state {
        State::Succeeded(success) => By::Success(success.outcome, success.value.clone()).is(report),
        State::Failed(defeat) | State::Crashed(defeat) => {
            By::Failure(defeat.outcome, defeat.failure.clone()).is(report)
        }
        State::Queued(Some(failure)) => report.failure() == Some(failure),
        _ => false,
    }
}
