//! How leases end: by a report of the holder, by expiry, or by a cancel, and in no other way.

use jobhall_core::{Failure, Job, JobId, Json, LeaseId, Leased, Outcome, Report, State, StopWhy, WorkerName};

use super::told::until;
use super::{Checker, Invariant};

/// How a claim ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub lease: LeaseId,
    pub worker: WorkerName,
    pub by: By,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum By {
    /// Reported by the holder.
    Success(Outcome, Json),
    /// Reported by the holder.
    Failure(Outcome, Failure),
    /// Any report of the holder, after a cancel.
    Cancel,
    /// The holder sent no renewal in time.
    Silence,
    /// The holder never accepted.
    TakenBack,
    /// The holder has started external work.
    External,
    /// The attempt timed out, and the holder reported anything except a success, or nothing.
    Time,
}

impl End {
    /// Whether a report repeats the one that ended the claim.
    pub fn repeats(&self, lease: LeaseId, worker: &WorkerName, report: &Report) -> bool {
        self.by.is(report) && self.lease == lease && self.worker == *worker
    }
}

impl By {
    /// Whether this report may have ended a claim in this way.
    pub fn is(&self, report: &Report) -> bool {
        match self {
            By::Success(outcome, value) => match report {
                Report::Succeeded(given) | Report::Skipped(given) => {
                    *outcome == report.outcome() && given == value
                }
                _ => false,
            },
            By::Failure(outcome, failure) => {
                *outcome == report.outcome() && report.failure() == Some(failure)
            }
            By::Cancel => true,
            By::Time => !report.outcome().is_success(),
            By::Silence | By::TakenBack | By::External => false,
        }
    }
}

impl Checker {
    /// Checks the effect of a transition on the lease.
    pub(super) fn lease_moved(&mut self, before: &Job, after: &Job) {
        let id = before.id;
        match (before.status.state.leased(), after.status.state.leased()) {
            (None, Some(held)) => {
                self.base.insert(id, before.status.attempt);
                let (new, claimed) =
                    (self.leases.insert(held.lease.id), after.status.claim > before.status.claim);
                self.must(new && claimed, Invariant::Lease, &[id], || {
                    format!("job {id} is leased without a new claim and lease: {:?}", after.status)
                });
            }
            (Some(old), Some(new)) => {
                let same = old.lease.id == new.lease.id
                    && old.lease.worker == new.lease.worker
                    && before.status.claim == after.status.claim
                    && (!old.is_cancelled() || new.is_cancelled());
                self.must(same, Invariant::Lease, &[id], || {
                    format!("job {id} changed its holder without a claim: {old:?} to {new:?}")
                });
            }
            (Some(held), None) => self.lease_ended(held, before, after),
            (None, None) if until(&before.status).is_some() => self.external_moved(before, after),
            (None, None) => {}
        }
        self.outcome_kept(before, after);
        self.params_moved(before, after);
        if after.status.state.is_terminal() {
            self.seen.push(("ends", after.status.state.name().as_str()));
        }
        match after.status.state.error().map(|failure| failure.reason.as_str()) {
            Some("too_many_lost_leases") => self.seen.push(("ends", "too many lost leases")),
            Some("at_most_once") => self.seen.push(("ends", "lost, at most once")),
            Some("unaccepted") => self.seen.push(("ends", "unaccepted")),
            _ if after.status.lost > before.status.lost => self.seen.push(("ends", "lost")),
            _ if after.status.unaccepted > before.status.unaccepted => self.seen.push(("ends", "taken back")),
            _ => {}
        }
    }

    fn lease_ended(&mut self, held: &Leased, before: &Job, after: &Job) {
        let id = before.id;
        let Some(by) = by(before, after) else {
            let text = format!(
                "job {id} lost its lease without a reason: {:?} to {:?}",
                before.status, after.status
            );
            return self.fail(Invariant::Lease, &[id], text);
        };
        let lease = &held.lease;
        let end = End { lease: lease.id, worker: lease.worker.clone(), by: by.clone() };
        self.holder_said(id, before.status.claim, &end);
        self.must(by != By::Cancel || held.is_cancelled(), Invariant::Cancel, &[id], || {
            format!("job {id} is cancelled without a request")
        });
        let base = self.base.get(&id).copied().unwrap_or(0);
        let counted = if by == By::TakenBack { base } else { base + 1 };
        let silent_cancel = by == By::Silence && matches!(after.status.state, State::Cancelled(_));
        self.must(after.status.attempt == counted || silent_cancel, Invariant::Lease, &[id], || {
            format!(
                "job {id} ended a claim by {by:?} with attempt {}, it began at {base}",
                after.status.attempt
            )
        });
        self.ends.insert((id, before.status.claim), end);
    }

    /// A claim that was ended by a report was ended by its holder.
    pub(super) fn holder_said(&mut self, id: JobId, claim: u32, end: &End) {
        let said = self.reports.get(&(id, claim));
        let told = said
            .is_some_and(|all| all.iter().any(|said| end.repeats(said.lease, &said.worker, &said.report)));
        let told = told || self.said_started(id, claim, end);
        // The server fails a job that waits for itself through other jobs.
        let cycle = matches!(&end.by, By::Failure(_, failure) if failure.reason == "wait_cycle");
        let needs_word = !cycle && !matches!(end.by, By::Silence | By::TakenBack | By::Time);
        self.must(told || !needs_word, Invariant::Lease, &[id], || {
            format!("{id}-{claim}: its holder {} never reported {:?}", end.worker, end.by)
        });
    }

    /// Params change only by the report of the attempt that ends.
    fn params_moved(&mut self, before: &Job, after: &Job) {
        if before.spec.params == after.spec.params {
            return;
        }
        let said = self.reports.get(&(before.id, before.status.claim));
        let told = said.is_some_and(|all| {
            all.iter().any(|said| match &said.report {
                Report::Failed(_, Some(v)) | Report::Crashed(_, Some(v)) | Report::TimedOut(_, Some(v)) => {
                    v.params.as_ref() == Some(&after.spec.params)
                }
                _ => false,
            })
        });
        let id = before.id;
        self.must(told, Invariant::Stored, &[id], || {
            format!("job {id} has unknown params: {:?}", after.spec.params)
        });
    }
}

/// What ended a lease, according to the two rows.
fn by(before: &Job, after: &Job) -> Option<By> {
    let (old, new) = (&before.status, &after.status);
    let lost = new.lost == old.lost + 1;
    let taken_back = new.unaccepted == old.unaccepted + 1;
    match &new.state {
        State::Waiting(_) => Some(By::External),
        State::Succeeded(success) => Some(By::Success(success.outcome, success.value.clone())),
        State::Cancelled(defeat) if defeat.outcome == Outcome::Lost => Some(By::Silence),
        State::Cancelled(defeat) if defeat.last.is_none() => Some(By::TakenBack),
        State::Cancelled(_) => Some(By::Cancel),
        State::Failed(_) | State::Crashed(_) | State::Queued(_) if lost => Some(By::Silence),
        State::Failed(_) | State::Crashed(_) | State::Queued(_) if taken_back => Some(By::TakenBack),
        State::Crashed(_) | State::Queued(_) if out_of_time(before, after) => Some(By::Time),
        State::Failed(defeat) | State::Crashed(defeat) => {
            Some(By::Failure(defeat.outcome, defeat.failure.clone()))
        }
        State::Queued(error) => past(before, after, error.as_deref()?),
        _ => None,
    }
}

/// Whether the failure is that of the pending stop.
fn out_of_time(before: &Job, after: &Job) -> bool {
    let stop = before.status.state.leased().and_then(|held| held.stop.as_ref());
    let stop = stop.filter(|stop| stop.why == StopWhy::TimeOut);
    stop.is_some_and(|stop| after.status.state.error() == Some(&stop.failure))
}

/// A retried attempt: the row has only its failure; the history has the outcome.
fn past(before: &Job, after: &Job, failure: &Failure) -> Option<By> {
    let outcome = Outcome::ALL.into_iter().find(|outcome| failure.reason == outcome.as_str())?;
    (after.status.claim == before.status.claim).then(|| By::Failure(outcome, failure.clone()))
}
