//! Lives as columns, for statements that write many jobs at once.

use jobhall_core::{Held, Job, JobId, Key, Life, State, StopWhy, Tenure, Time, WaitFor};
use jobhall_store::{KeyPlace, key_place};

use crate::row::{StoredStop, StoredWait, number, to_json};
use crate::shapes::Shapes;
use crate::trouble::Trouble;
use crate::wire::Step;

/// The text that stands for a (type, key). A type has no `/`, so no two pairs have the same.
pub(crate) fn key_text(job_type: &str, key: &str) -> String {
    format!("{job_type}/{key}")
}

/// The key text of a job, if it has a key.
pub(crate) fn key_of(job: &Job) -> Option<String> {
    job.spec.key.as_ref().map(Key::as_str).map(|key| key_text(job.spec.job_type.as_str(), key))
}

/// Columns of `jobs`, in the order of the parameters of `insert_job`, `change_job` and `put_job`.
#[derive(Default)]
pub(crate) struct Lives<'a> {
    id: Vec<i64>,
    rev: Vec<i32>,
    state: Vec<i16>,
    claim: Vec<i32>,
    attempt: Vec<i32>,
    lost: Vec<i32>,
    snoozed: Vec<i32>,
    unaccepted: Vec<i32>,
    run_at: Vec<i64>,
    updated_at: Vec<i64>,
    lease: Vec<Option<Vec<u8>>>,
    worker: Vec<Option<&'a str>>,
    assigned_at: Vec<Option<i64>>,
    accepted_at: Vec<Option<i64>>,
    started_at: Vec<Option<i64>>,
    behind: Vec<Option<i64>>,
    outcome: Vec<Option<i16>>,
    ended_at: Vec<Option<i64>>,
    cancel: Vec<Option<String>>,
    again: Vec<Option<&'a str>>,
    error: Vec<Option<String>>,
    value: Vec<Option<&'a str>>,
    hold: Vec<Option<bool>>,
    depends: Vec<Option<bool>>,
    waits: Vec<Option<String>>,
    waited_ms: Vec<Option<i64>>,
    early: Vec<Option<String>>,
    live_key: Vec<Option<String>>,
    next_key: Vec<Option<String>>,
    expected: Vec<i32>,
    free: Vec<bool>,
    /// Whether there is something particular about one of them, or one has a key to take.
    odd: bool,
}

impl<'a> Lives<'a> {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// A job with its place on its key.
    pub(crate) fn push_job(&mut self, job: &'a Job) -> Result<(), Trouble> {
        let place = key_place(&job.life.state);
        let key = key_of(job);
        self.odd |= key.is_some();
        self.live_key.push(key.clone().filter(|_| place == KeyPlace::Live));
        self.next_key.push(key.filter(|_| place == KeyPlace::Next));
        self.push(job.id, &job.life)
    }

    /// A change that is believed to meet this rev.
    pub(crate) fn push_change(&mut self, id: JobId, expected: u32, life: &'a Life) -> Result<(), Trouble> {
        self.expected.push(expected.cast_signed());
        self.free.push(key_place(&life.state) == KeyPlace::Free);
        self.push(id, life)
    }

    fn push(&mut self, id: JobId, life: &'a Life) -> Result<(), Trouble> {
        self.id.push(number(id));
        self.rev.push(life.rev.cast_signed());
        self.state.push(life.state.name() as i16);
        self.claim.push(life.claim.cast_signed());
        self.attempt.push(life.attempt.cast_signed());
        self.lost.push(life.lost.into());
        self.snoozed.push(life.snoozed.cast_signed());
        self.unaccepted.push(life.unaccepted.into());
        self.run_at.push(life.run_at.as_ms());
        self.updated_at.push(life.updated_at.as_ms());
        self.again.push(life.again.as_ref().map(|again| again.params.as_str()));
        self.hold.push(life.hold.then_some(true));
        self.push_tenure(life.state.tenure());
        self.push_end(&life.state);
        self.odd |= !life.is_plain();
        self.push_held(&life.state)
    }

    fn push_tenure(&mut self, tenure: Option<&'a Tenure>) {
        self.lease.push(tenure.map(|tenure| tenure.lease.0.to_be_bytes().to_vec()));
        self.worker.push(tenure.map(|tenure| tenure.worker.as_str()));
        self.assigned_at.push(tenure.map(|tenure| tenure.assigned_at.as_ms()));
        self.accepted_at.push(tenure.and_then(|tenure| tenure.accepted_at).map(Time::as_ms));
        self.started_at.push(tenure.and_then(|tenure| tenure.started_at).map(Time::as_ms));
        let waited_ms = tenure.map_or(0, |tenure| tenure.waited_ms);
        self.waited_ms.push(Some(waited_ms.cast_signed()).filter(|&ms| ms > 0));
    }

    /// What a blocked or a completed job has.
    fn push_end(&mut self, state: &'a State) {
        let (behind, outcome, value) = match state {
            State::Blocked(blocked) => (blocked.holder.map(number), None, None),
            State::Succeeded(success) => (None, Some(success.outcome), Some(success.value.as_str())),
            State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => {
                (None, Some(defeat.outcome), None)
            }
            _ => (None, None, None),
        };
        let depends = matches!(state, State::Blocked(blocked) if blocked.dependencies);
        self.behind.push(behind);
        self.outcome.push(outcome.map(|outcome| outcome as i16));
        self.ended_at.push(state.ended_at().map(Time::as_ms));
        self.value.push(value.filter(|&value| value != "null"));
        self.depends.push(depends.then_some(true));
    }

    /// What comes with an attempt, also with one that waits for the outside.
    fn push_held(&mut self, state: &State) -> Result<(), Trouble> {
        let held = match state {
            State::Waiting(waiting) => Some(&waiting.held),
            state => state.held(),
        };
        let error = state.held().and_then(|held| held.error.as_ref()).or(state.error());
        self.cancel.push(held.map(stored_stop).transpose()?.flatten());
        self.error.push(error.map(to_json).transpose()?);
        self.waits.push(stored_wait(state)?);
        self.early.push(held.and_then(|held| held.early.as_ref()).map(to_json).transpose()?);
        Ok(())
    }

    /// New jobs. Where none of them is odd, half the columns are not sent, and the rest as shapes.
    pub(crate) fn inserted(self) -> Vec<Step<'a>> {
        if self.odd || self.ended_at.iter().any(Option::is_some) {
            return vec![self.placed(include_str!("sql/insert_job.sql"))];
        }
        let parts = Shapes::of(self.id.len(), |a, b| self.lived_alike(a, b));
        parts.iter().map(|part| self.shaped(part, include_str!("sql/insert_plain.sql"))).collect()
    }

    /// Changes that are believed to meet their revs. Where none of them is odd, the others are cleared unsent.
    pub(crate) fn changed(self) -> Vec<Step<'a>> {
        if self.odd {
            return vec![self.guarded(include_str!("sql/change_job.sql"))];
        }
        let alike = |a: usize, b: usize| {
            (self.outcome[a], self.ended_at[a], self.value[a])
                == (self.outcome[b], self.ended_at[b], self.value[b])
                && (self.expected[a], self.free[a]) == (self.expected[b], self.free[b])
                && self.lived_alike(a, b)
        };
        let parts = Shapes::of(self.id.len(), alike);
        let steps = parts.iter().map(|part| {
            let step = self.shaped(part, include_str!("sql/change_plain.sql"));
            let step = step.with(part.each(&self.outcome)).with(part.each(&self.ended_at));
            let step = step.with(part.each(&self.value)).with(part.each(&self.expected));
            step.with(part.each(&self.free)).with(part.count())
        });
        steps.collect()
    }

    /// Whether two jobs that are not odd differ in nothing but id, lease and end.
    fn lived_alike(&self, a: usize, b: usize) -> bool {
        let times = |row: usize| {
            let tenure = (self.assigned_at[row], self.accepted_at[row], self.started_at[row]);
            (self.updated_at[row], self.run_at[row], tenure)
        };
        let counted = |row: usize| {
            let passed = (self.lost[row], self.snoozed[row], self.unaccepted[row]);
            (self.rev[row], self.state[row], self.claim[row], self.attempt[row], passed)
        };
        times(a) == times(b) && counted(a) == counted(b) && self.worker[a] == self.worker[b]
    }

    fn shaped(&self, part: &Shapes, sql: &'static str) -> Step<'a> {
        let step = Step::new(sql).with(part.rows(&self.id)).with(part.rows(&self.lease));
        let step = step.with(part.numbers.clone()).with(part.each(&self.rev)).with(part.each(&self.state));
        let step = step.with(part.each(&self.claim)).with(part.each(&self.attempt));
        let step = step.with(part.each(&self.lost)).with(part.each(&self.snoozed));
        let step = step.with(part.each(&self.unaccepted)).with(part.each(&self.run_at));
        let step = step.with(part.each(&self.updated_at)).with(part.each(&self.worker));
        let step = step.with(part.each(&self.assigned_at)).with(part.each(&self.accepted_at));
        step.with(part.each(&self.started_at))
    }

    fn columns(self, sql: &'static str) -> (Step<'a>, Ends) {
        let step = Step::new(sql).with(self.id).with(self.rev).with(self.state).with(self.claim);
        let step = step.with(self.attempt).with(self.lost).with(self.snoozed).with(self.unaccepted);
        let step = step.with(self.run_at).with(self.updated_at).with(self.lease).with(self.worker);
        let step = step.with(self.assigned_at).with(self.accepted_at).with(self.started_at).with(self.behind);
        let step = step.with(self.outcome).with(self.ended_at).with(self.cancel).with(self.again);
        let step = step.with(self.error).with(self.value).with(self.hold).with(self.depends);
        let step = step.with(self.waits).with(self.waited_ms).with(self.early);
        let ends = Ends {
            live_key: self.live_key,
            next_key: self.next_key,
            expected: self.expected,
            free: self.free,
        };
        (step, ends)
    }

    /// For `insert_job` and `put_job`.
    pub(crate) fn placed(self, sql: &'static str) -> Step<'a> {
        let count = self.count();
        let (step, ends) = self.columns(sql);
        step.with(ends.live_key).with(ends.next_key).with(count)
    }

    /// For `change_job`.
    fn guarded(self, sql: &'static str) -> Step<'a> {
        let count = self.count();
        let (step, ends) = self.columns(sql);
        step.with(ends.expected).with(ends.free).with(count)
    }

    fn count(&self) -> i64 {
        i64::try_from(self.id.len()).unwrap_or(i64::MAX)
    }
}

/// The columns in which the statements differ.
struct Ends {
    live_key: Vec<Option<String>>,
    next_key: Vec<Option<String>>,
    expected: Vec<i32>,
    free: Vec<bool>,
}

fn stored_stop(held: &Held) -> Result<Option<String>, Trouble> {
    let Some(stop) = &held.stop else { return Ok(None) };
    let timed_out = stop.why == StopWhy::TimeOut;
    to_json(&StoredStop { at: stop.at.as_ms(), failure: stop.failure.clone(), timed_out }).map(Some)
}

fn stored_wait(state: &State) -> Result<Option<String>, Trouble> {
    let State::Waiting(waiting) = state else { return Ok(None) };
    let until = match waiting.on {
        WaitFor::Outside { until } => Some(until.as_ms()),
        WaitFor::Jobs => None,
    };
    to_json(&StoredWait { since: waiting.since.as_ms(), until }).map(Some)
}
