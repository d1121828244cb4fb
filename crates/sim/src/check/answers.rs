//! Checks that answers are true.

use jobhall_core::{AttemptId, JobId, LeaseId, Report, State, StateName, Submitted, WorkerName};
use jobhall_kernel::{
    Answer, AttemptRef, GroupCreated, Noted, Rejected, Request, Shown, WHOLE_ATTEMPTS, Waited,
};

use super::ends::{By, End};
use super::shelf::Shelf;
use super::{Checker, Invariant};

impl Checker {
    /// Checks an answer of the kernel; returns the request.
    pub fn answers(
        &mut self,
        shelf: &impl Shelf,
        ticket: u64,
        answer: &Result<Answer, Rejected>,
    ) -> Option<Request> {
        let first = self.answered.insert(ticket);
        let Some((request, _)) = self.waiting.remove(&ticket) else {
            let text = if first { "there was no such request" } else { "it was answered before" };
            let text = format!("an answer to request {}, but {text}: {answer:?}", ticket);
            self.fail(Invariant::Answer, &[], text);
            return None;
        };
        if let Request::Wait { of, .. } = &request {
            let over = match answer {
                Ok(Answer::Waited(waited)) => Some(waited.over),
                _ => None,
            };
            self.wait_over(ticket, of.attempt, over);
        }
        match answer {
            Ok(good) => self.good(shelf, &request, good),
            Err(refused) => self.refused(shelf, &request, refused),
        }
        Some(request)
    }

    fn good(&mut self, shelf: &impl Shelf, request: &Request, answer: &Answer) {
        match (request, answer) {
            (Request::Submit { submit }, Answer::Submitted(answers)) => {
                self.submitted(shelf, submit, answers);
            }
            (Request::Retry { id, .. }, Answer::Submitted(answers)) => self.retried(shelf, *id, answers),
            (Request::Cancel { id, .. }, Answer::State(state)) => self.cancel_known(shelf, *id, *state),
            (Request::Report { of: AttemptRef { worker, attempt, lease }, report, .. }, Answer::State(_)) => {
                self.report_known(*attempt, *lease, worker, report);
            }
            (
                Request::Accept { of: AttemptRef { worker, attempt, lease } }
                | Request::Progress { of: AttemptRef { worker, attempt, lease }, .. },
                Answer::State(_),
            ) => self.word_taken(*attempt, *lease, worker),
            (Request::CreateGroup { submit, .. }, Answer::GroupCreated(GroupCreated { id, jobs, .. })) => {
                let stored = self.groups.contains_key(id);
                self.must(stored, Invariant::Stored, &[], || {
                    format!("group {id} is acknowledged, not stored")
                });
                self.submitted(shelf, submit, jobs);
            }
            (Request::RetryGroup { id: old, .. }, Answer::GroupCreated(GroupCreated { id, .. })) => {
                self.group_retried(*old, *id);
            }
            (
                Request::CloseGroup { id } | Request::CancelGroup { id, .. } | Request::ShowGroup { id },
                Answer::Group(shown),
            ) => {
                let good = shown.group.id == *id && shown.counts.total() >= shown.counts.open();
                self.must(good, Invariant::Answer, &[], || format!("group {id} is shown as {shown:?}"));
            }
            (Request::Started { .. }, Answer::State(_)) => {}
            (Request::Complete { id, report, .. }, Answer::State(_)) => self.finish_known(*id, report),
            (Request::Call { .. }, Answer::Submitted(answers)) => self.called(shelf, answers),
            (
                Request::Wait { of: AttemptRef { attempt, .. }, .. },
                Answer::Waited(Waited { jobs, over: true }),
            ) => {
                self.waited(shelf, attempt.job, jobs);
            }
            (Request::Wait { .. }, Answer::Waited(_)) => {}
            (Request::Show { id }, Answer::Shown(shown)) => self.shown(shelf, *id, shown),
            (Request::Explain { id }, Answer::Explained(explanation)) => {
                let good = explanation.id == *id && !explanation.why.is_empty();
                self.must(good, Invariant::Answer, &[*id], || format!("has no explanation: {explanation:?}"));
            }
            (Request::Renew { session }, Answer::Noted(Noted)) => {
                let now = self.now.mono;
                if let Some(seen) = self.sessions.get_mut(session) {
                    seen.renewed = now;
                }
            }
            (Request::Disconnect { session }, Answer::Noted(Noted)) => {
                if let Some(seen) = self.sessions.get_mut(session) {
                    seen.connected = false;
                }
            }
            (Request::CloseSession { .. }, Answer::Noted(Noted))
            | (Request::OpenSession { .. }, Answer::Session(_))
            | (Request::Vacancy { .. }, Answer::Vacancy(_))
            | (Request::EndVacancy { .. } | Request::Credit { .. }, Answer::Noted(Noted))
            | (
                Request::SetType { .. } | Request::SetSchedule { .. } | Request::SetQueue { .. },
                Answer::Rev(_),
            )
            | (
                Request::Edit { .. }
                | Request::RunNow { .. }
                | Request::Hold { .. }
                | Request::Release { .. },
                Answer::State(_),
            ) => {}
            (Request::RunSchedule { .. }, Answer::Submitted(answers)) => {
                self.acknowledged.extend(answers.iter().map(|answer| answer.id));
            }
            (request, answer) => {
                let text = format!("{request:?} is answered by {answer:?}");
                self.fail(Invariant::Answer, &[], text);
            }
        }
    }

    fn refused(&mut self, shelf: &impl Shelf, request: &Request, refused: &Rejected) {
        match (request, refused) {
            (_, Rejected::Contended) => {
                let text =
                    format!("the only kernel of the hall has no contender, but gave up on {request:?}");
                self.fail(Invariant::Answer, &[], text);
            }
            (_, Rejected::NoSuchJob(id)) => {
                let there = shelf.row(*id);
                self.must(there.is_none(), Invariant::Stored, &[*id], || {
                    format!("no such job, says the answer to {request:?}, but it is stored: {:?}", there)
                });
            }
            (
                Request::Report { of: AttemptRef { worker, attempt, lease }, report, .. },
                Rejected::LeaseLost(_),
            ) => {
                let end = self.ends.get(&(attempt.job, attempt.claim));
                if end.is_some_and(|end| end.by == By::Silence) {
                    self.seen.push(("orders", "report after its lease was lost"));
                }
                let repeats = end.is_some_and(|end| end.repeats(*lease, worker, report));
                // The kernel compares a late report with the newest ended attempts only.
                let newer = (attempt.job, attempt.claim + 1)..=(attempt.job, u32::MAX);
                let is_recent = self.ends.range(newer).count() < WHOLE_ATTEMPTS;
                let there = repeats && is_recent && shelf.row(attempt.job).is_some();
                self.must(!there, Invariant::Lease, &[attempt.job], || {
                    format!("{attempt}: a repetition of the report that ended it is refused: {report:?}")
                });
            }
            (Request::Complete { id, attempt, report }, Rejected::Event(_)) => {
                self.finish_refused(shelf, *id, *attempt, report);
            }
            (Request::Cancel { id, .. }, Rejected::Event(refusal)) => {
                let row = shelf.row(*id);
                let done = row.is_some_and(|row| matches!(row.status.state, State::Cancelled(_)));
                self.must(!done, Invariant::Cancel, &[*id], || {
                    format!("job {id} is cancelled, but a repeated cancel is refused: {refusal}")
                });
            }
            (Request::Submit { submit }, Rejected::KeyHeld { job_type, holder }) => {
                let of_type = submit.jobs.iter().any(|job| job.job_type == *job_type);
                let held = self.rows.get(holder).is_none_or(|row| row.spec.job_type == *job_type);
                self.must(of_type && held, Invariant::Key, &[*holder], || {
                    format!("{holder} is reported to hold a key of {job_type}")
                });
            }
            (Request::Submit { submit }, Rejected::IdempotencyKeyReused) => {
                let name = submit.name.as_ref().map(|name| (name.scope.clone(), name.key.clone(), name.body));
                let other = name.is_some_and(|(scope, key, body)| {
                    self.names
                        .get(&(scope, key))
                        .is_some_and(|all| all.iter().any(|named| named.body != body))
                });
                self.must(other, Invariant::Key, &[], || "an unused idempotency key is refused".to_owned());
            }
            _ => {}
        }
    }

    /// A job that an attempt requested is stored.
    fn called(&mut self, shelf: &impl Shelf, answers: &[Submitted]) {
        for made in answers {
            let there = shelf.row(made.id).is_some() || self.removed.contains(&made.id);
            self.must(there, Invariant::Stored, &[made.id], || format!("sub-job {} is not stored", made.id));
        }
    }

    /// An attempt that is notified that its wait is over waits for no open job.
    fn waited(&mut self, shelf: &impl Shelf, parent: JobId, jobs: &[JobId]) {
        for &id in jobs {
            let open = shelf.row(id).is_some_and(|row| !row.status.state.is_terminal());
            self.must(!open, Invariant::Answer, &[parent, id], || {
                format!("job {parent} is notified to continue, but job {id} is open")
            });
        }
    }

    fn cancel_known(&mut self, shelf: &impl Shelf, id: JobId, state: StateName) {
        let row = shelf.row(id);
        let held = row.as_ref().and_then(|row| row.status.state.leased());
        let good = match &row {
            Some(row) => {
                matches!(row.status.state, State::Cancelled(_)) || held.is_some_and(|h| h.is_cancelled())
            }
            None => self.removed.contains(&id),
        };
        self.must(good, Invariant::Cancel, &[id], || {
            format!("the cancel of job {id} is acknowledged as {state}, but the row is {row:?}")
        });
        if !self.cancelled.insert(id) {
            self.seen.push(("orders", "cancel repeated"));
        }
    }

    fn report_known(&mut self, attempt: AttemptId, lease: LeaseId, worker: &WorkerName, report: &Report) {
        let end = self.ends.get(&(attempt.job, attempt.claim));
        // An earlier external outcome is kept, regardless of the report of the worker that started the work.
        let told = |end: &End| self.taken.get(&attempt.job).into_iter().flatten().any(|it| end.by.is(it));
        let by = |end: &End| end.lease == lease && end.worker == *worker && told(end);
        if !end.is_some_and(|end| end.repeats(lease, worker, report) || by(end)) {
            let text =
                format!("{attempt}: {report:?} of {worker} is acknowledged, but what ended it is {end:?}");
            self.fail(Invariant::Lease, &[attempt.job], text);
        }
    }

    fn word_taken(&mut self, attempt: AttemptId, lease: LeaseId, worker: &WorkerName) {
        self.accepted.insert(attempt);
        if self.untold.contains_key(&attempt.job) {
            return;
        }
        let Some(row) = self.rows.get(&attempt.job) else { return };
        let held = row.status.state.leased();
        let current = row.status.claim == attempt.claim
            && held.is_some_and(|held| held.lease.id == lease && held.lease.worker == *worker);
        self.must(current, Invariant::Lease, &[attempt.job], || {
            format!("a message of {worker} about {attempt} is accepted, but it does not hold the lease")
        });
    }

    fn shown(&mut self, shelf: &impl Shelf, id: JobId, shown: &Shown) {
        self.must(shown.job.id == id, Invariant::Answer, &[id], || format!("shows job {}", shown.job.id));
        let Some(row) = shelf.row(id) else { return };
        if row.status.state.is_terminal() && shown.job.status.state.is_terminal() {
            let same = shown.job.status == row.status && shown.job.spec.params == row.spec.params;
            self.must(same, Invariant::Stored, &[id], || format!("shows {:?}, stored is {row:?}", shown.job));
        }
        self.must(shown.job.status.rev + 4 > row.status.rev || !self.exact, Invariant::Stored, &[id], || {
            format!("shows rev {} of job {id}, stored is {}", shown.job.status.rev, row.status.rev)
        });
    }
}
