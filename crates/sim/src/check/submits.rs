//! Checks that an acknowledged submit is stored as it was requested.

use jobhall_core::{Disposition, Job, JobId, NewJob, Reuse, State, Submitted, Time};
use jobhall_kernel::Submit;

use super::shelf::Shelf;
use super::{Checker, Invariant};
use crate::script::calendar;

impl Checker {
    pub(super) fn submitted(&mut self, shelf: &impl Shelf, submit: &Submit, answers: &[Submitted]) {
        let ids: Vec<_> = answers.iter().map(|answer| answer.id).collect();
        self.must(answers.len() == submit.jobs.len(), Invariant::Answer, &ids, || {
            format!("{} jobs are answered by {}", submit.jobs.len(), answers.len())
        });
        if let Some(name) = &submit.name {
            let known = self.names.get(&(name.scope.clone(), name.key.clone()));
            let same = known.is_some_and(|all| {
                all.iter().any(|named| named.body == name.body && named.answer == answers)
            });
            self.must(same, Invariant::Key, &ids, || {
                format!(
                    "the idempotency key {:?} is answered by {answers:?}, which was not stored for it",
                    name.key
                )
            });
        }
        for (wanted, answer) in submit.jobs.iter().zip(answers) {
            self.one_submitted(shelf, wanted, *answer, submit.name.is_some());
        }
    }

    fn one_submitted(&mut self, shelf: &impl Shelf, wanted: &NewJob, answer: Submitted, named: bool) {
        let id = answer.id;
        self.acknowledged.insert(id);
        let Some(row) = shelf.row(id) else {
            let gone = self.removed.contains(&id);
            return self
                .must(gone, Invariant::Stored, &[id], || format!("job {id} is acknowledged, not stored"));
        };
        let same_key = row.spec.job_type == wanted.job_type && row.spec.key == wanted.key;
        match answer.disposition {
            Disposition::Created | Disposition::Superseding if !named => self.as_asked(&row, wanted),
            Disposition::Created | Disposition::Superseding => {}
            Disposition::Reused => {
                let succeeded = matches!(row.status.state, State::Succeeded(_));
                self.must(succeeded, Invariant::Key, &[id], || {
                    format!("job {id} is reused: {:?}", row.status)
                });
                let above = match wanted.reuse {
                    Some(Reuse::Above(above)) => id > above,
                    _ => true,
                };
                self.must(above || named, Invariant::Key, &[id], || {
                    format!("job {id} is reused, but {:?} was asked for", wanted.reuse)
                });
            }
            Disposition::Joined | Disposition::JoinedOther | Disposition::Again => {}
        }
        self.must(same_key, Invariant::Key, &[id], || {
            format!("job {id} answers for {:?} {:?}, but is {:?}", wanted.job_type, wanted.key, row.spec)
        });
    }

    fn as_asked(&mut self, row: &Job, wanted: &NewJob) {
        let (id, spec) = (row.id, &row.spec);
        let same = spec.queue == wanted.queue
            && spec.needs == wanted.needs
            && spec.priority == wanted.priority
            && wanted.retry.is_none_or(|retry| retry == spec.retry)
            && (row.status.attempt > 0 || spec.params == wanted.params)
            && spec.windows == wanted.windows
            && (row.status.claim > 0 || wanted.run_at.is_none_or(|run_at| at_its_time(row, run_at)));
        self.must(same, Invariant::Stored, &[id], || format!("asked for {wanted:?}, stored is {spec:?}"));
    }

    pub(super) fn retried(&mut self, shelf: &impl Shelf, id: JobId, answers: &[Submitted]) {
        let Some(answer) = answers.first() else {
            return self.fail(Invariant::Answer, &[id], "a retry is answered by no job");
        };
        self.acknowledged.insert(answer.id);
        let (Some(new), Some(old)) = (shelf.row(answer.id), shelf.row(id)) else { return };
        let same = new.spec.retry_of == Some(id)
            && (&new.spec.job_type, &new.spec.key) == (&old.spec.job_type, &old.spec.key);
        self.must(same && new.id != id, Invariant::Stored, &[id, new.id], || {
            format!("the retry of {old:?} is {new:?}")
        });
        self.must(old.status.state.is_terminal(), Invariant::Final, &[id], || {
            format!("job {id} is retried, but open")
        });
    }
}

/// Whether the job starts at the requested time, or when a window opens after it.
fn at_its_time(row: &Job, asked: Time) -> bool {
    let run_at = row.status.run_at;
    run_at == asked || (!row.spec.windows.is_always() && run_at > asked && calendar::open(&row.spec, run_at))
}
