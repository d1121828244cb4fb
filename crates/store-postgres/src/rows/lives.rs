//! Job status as columns, for statements that write many jobs at once.

use jobhall_core::{Job, JobId, JobStatus, Key, Lease, Leased, State, StopWhy, Time, WaitFor};
use jobhall_store::{KeyPlace, key_place};

use crate::connect::wire::{LeaseBytes, Step};
use crate::error::PgError;
use crate::rows::row::{StoredStop, StoredWait, number, stored_progress, to_json};
use crate::rows::shapes::Shapes;

/// The text for a (type, key). A type contains no `/`, so the text is unique.
pub(crate) fn key_text(job_type: &str, key: &str) -> String {
    format!("{job_type}/{key}")
}

/// The key text of a job, if it has a key.
pub(crate) fn key_of(job: &Job) -> Option<String> {
    job.spec.key.as_ref().map(Key::as_str).map(|key| key_text(job.spec.job_type.as_str(), key))
}

/// Rows of `jobs` to write.
#[derive(Default)]
pub(crate) struct Lives<'a> {
    rows: Vec<Row<'a>>,
    /// Whether a row has a rare column, or a key to take.
    odd: bool,
}

struct Row<'a> {
    id: JobId,
    status: &'a JobStatus,
    /// The whole job, if it takes its place on its key.
    job: Option<&'a Job>,
    /// The expected rev of a change.
    expected: u32,
}

impl<'a> Lives<'a> {
    /// Whether there are no rows to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a job with its place on its key.
    pub(crate) fn push_job(&mut self, job: &'a Job) {
        self.odd |= job.spec.key.is_some() || !job.status.is_plain();
        self.rows.push(Row { id: job.id, status: &job.status, job: Some(job), expected: 0 });
    }

    /// Adds a change with this expected rev.
    pub(crate) fn push_change(&mut self, id: JobId, expected: u32, status: &'a JobStatus) {
        self.odd |= !status.is_plain();
        self.rows.push(Row { id, status, job: None, expected });
    }

    /// New jobs. If no row is odd, half the columns are not sent, and the rest is sent as shapes.
    pub(crate) fn inserted(&self) -> Result<Vec<Step>, PgError> {
        if self.odd || self.rows.iter().any(|row| row.status.state.ended_at().is_some()) {
            return Ok(vec![self.placed(include_str!("../sql/insert_job.sql"))?]);
        }
        let parts = Shapes::of(&self.rows, lived_alike);
        Ok(parts.iter().map(|part| shaped(part, include_str!("../sql/insert_plain.sql"))).collect())
    }

    /// Changes with their expected revs. If no row is odd, the rare columns are cleared without sending them.
    pub(crate) fn changed(&self) -> Result<Vec<Step>, PgError> {
        if self.odd {
            let step = self.columns(include_str!("../sql/change_job.sql"))?;
            let step = step.with(self.column(|row| row.expected.cast_signed()));
            return Ok(vec![step.with(self.column(|row| row.frees())).with(self.count())]);
        }
        let ended = |row: &Row<'a>| (row.ended_at(), row.outcome(), row.value());
        let parts = Shapes::of(&self.rows, |a, b| {
            a.expected == b.expected && ended(a) == ended(b) && lived_alike(a, b)
        });
        let steps = parts.iter().map(|part| {
            let step = shaped(part, include_str!("../sql/change_plain.sql"));
            let step =
                step.with(part.each(Row::outcome)).with(part.each(Row::ended_at)).with(part.each(Row::value));
            let step = step.with(part.each(|row| row.expected.cast_signed()));
            step.with(part.each(Row::frees)).with(part.count())
        });
        Ok(steps.collect())
    }

    /// For `insert_job` and `put_job`.
    pub(crate) fn placed(&self, sql: &'static str) -> Result<Step, PgError> {
        let step = self.columns(sql)?;
        let step = step.with(self.column(|row| row.key(KeyPlace::Live)));
        Ok(step.with(self.column(|row| row.key(KeyPlace::Next))).with(self.count()))
    }

    /// All columns, in the order of the parameters of `insert_job`, `change_job` and `put_job`.
    fn columns(&self, sql: &'static str) -> Result<Step, PgError> {
        let step = Step::new(sql).with(self.column(|row| number(row.id)));
        let step =
            step.with(self.column(Row::rev)).with(self.column(Row::state)).with(self.column(Row::claim));
        let step = step.with(self.column(Row::attempt)).with(self.column(Row::lost));
        let step = step.with(self.column(Row::snoozed)).with(self.column(Row::unaccepted));
        let step = step.with(self.column(Row::run_at)).with(self.column(Row::updated_at));
        let step = step.with(self.column(Row::lease_id)).with(self.column(Row::worker));
        let step = step.with(self.column(Row::assigned_at)).with(self.column(Row::accepted_at));
        let step = step.with(self.column(Row::started_at)).with(self.column(Row::behind));
        let step = step.with(self.column(Row::outcome)).with(self.column(Row::ended_at));
        let step =
            step.with(self.texts(Row::cancel)?).with(self.column(Row::again)).with(self.texts(Row::error)?);
        let step =
            step.with(self.column(Row::value)).with(self.column(Row::hold)).with(self.column(Row::depends));
        let step = step.with(self.texts(Row::waits)?).with(self.column(Row::waited_ms));
        Ok(step.with(self.texts(Row::early)?).with(self.texts(Row::progress)?))
    }

    fn column<T>(&self, of: impl Fn(&Row<'a>) -> T) -> Vec<T> {
        self.rows.iter().map(of).collect()
    }

    fn texts(&self, of: impl Fn(&Row<'a>) -> Text) -> Result<Vec<Option<String>>, PgError> {
        self.rows.iter().map(of).collect()
    }

    fn count(&self) -> i64 {
        i64::try_from(self.rows.len()).unwrap_or(i64::MAX)
    }
}

/// The columns of jobs that are not odd, except for their end.
fn shaped<'a>(part: &Shapes<'_, Row<'a>>, sql: &'static str) -> Step {
    let step = Step::new(sql).with(part.rows(|row| number(row.id))).with(part.rows(Row::lease_id));
    let step = step.with(part.numbers()).with(part.each(Row::rev)).with(part.each(Row::state));
    let step = step.with(part.each(Row::claim)).with(part.each(Row::attempt)).with(part.each(Row::lost));
    let step = step.with(part.each(Row::snoozed)).with(part.each(Row::unaccepted));
    let step =
        step.with(part.each(Row::run_at)).with(part.each(Row::updated_at)).with(part.each(Row::worker));
    let step = step.with(part.each(Row::assigned_at)).with(part.each(Row::accepted_at));
    step.with(part.each(Row::started_at))
}

/// Whether two jobs that are not odd differ only in id, lease and end.
fn lived_alike(a: &Row<'_>, b: &Row<'_>) -> bool {
    let counted = |row: &Row<'_>| {
        let JobStatus { rev, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at, .. } = row.status;
        (
            (*updated_at, *run_at, *rev, *claim),
            (*attempt, *lost, *snoozed, *unaccepted),
            row.status.state.name(),
        )
    };
    let held = |row: &Row<'_>| (row.assigned_at(), row.accepted_at(), row.started_at());
    counted(a) == counted(b) && held(a) == held(b) && a.worker() == b.worker()
}

type Text = Result<Option<String>, PgError>;

impl<'a> Row<'a> {
    fn rev(&self) -> i32 {
        self.status.rev.cast_signed()
    }

    fn state(&self) -> i16 {
        self.status.state.name() as i16
    }

    fn claim(&self) -> i32 {
        self.status.claim.cast_signed()
    }

    fn attempt(&self) -> i32 {
        self.status.attempt.cast_signed()
    }

    fn lost(&self) -> i32 {
        self.status.lost.into()
    }

    fn snoozed(&self) -> i32 {
        self.status.snoozed.cast_signed()
    }

    fn unaccepted(&self) -> i32 {
        self.status.unaccepted.into()
    }

    fn run_at(&self) -> i64 {
        self.status.run_at.as_ms()
    }

    fn updated_at(&self) -> i64 {
        self.status.updated_at.as_ms()
    }

    fn lease(&self) -> Option<&'a Lease> {
        self.status.state.lease()
    }

    fn lease_id(&self) -> Option<LeaseBytes> {
        self.lease().map(|lease| LeaseBytes(lease.id.0.to_be_bytes()))
    }

    fn worker(&self) -> Option<&'a str> {
        self.lease().map(|lease| lease.worker.as_str())
    }

    fn assigned_at(&self) -> Option<i64> {
        self.lease().map(|lease| lease.assigned_at.as_ms())
    }

    fn accepted_at(&self) -> Option<i64> {
        self.lease().and_then(|lease| lease.accepted_at).map(Time::as_ms)
    }

    fn started_at(&self) -> Option<i64> {
        self.lease().and_then(|lease| lease.started_at).map(Time::as_ms)
    }

    fn waited_ms(&self) -> Option<i64> {
        self.lease().map(|lease| lease.waited_ms.cast_signed()).filter(|&ms| ms > 0)
    }

    fn behind(&self) -> Option<i64> {
        match &self.status.state {
            State::Blocked(blocked) => blocked.holder.map(number),
            _ => None,
        }
    }

    fn depends(&self) -> Option<bool> {
        matches!(&self.status.state, State::Blocked(blocked) if blocked.dependencies).then_some(true)
    }

    fn outcome(&self) -> Option<i16> {
        let outcome = match &self.status.state {
            State::Succeeded(success) => success.outcome,
            State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => defeat.outcome,
            _ => return None,
        };
        Some(outcome as i16)
    }

    fn ended_at(&self) -> Option<i64> {
        self.status.state.ended_at().map(Time::as_ms)
    }

    fn value(&self) -> Option<&'a str> {
        match &self.status.state {
            State::Succeeded(success) => Some(success.value.as_str()).filter(|&value| value != "null"),
            _ => None,
        }
    }

    fn again(&self) -> Option<&'a str> {
        self.status.again.as_ref().map(|again| again.params.as_str())
    }

    fn hold(&self) -> Option<bool> {
        self.status.hold.then_some(true)
    }

    /// The lease of an attempt, also of one that waits for external work.
    fn held(&self) -> Option<&'a Leased> {
        match &self.status.state {
            State::Waiting(waiting) => Some(&waiting.held),
            state => state.leased(),
        }
    }

    fn cancel(&self) -> Text {
        self.held().map_or(Ok(None), stored_stop)
    }

    fn error(&self) -> Text {
        let state = &self.status.state;
        let error = state.leased().and_then(|held| held.error.as_ref()).or(state.error());
        error.map(to_json).transpose()
    }

    fn waits(&self) -> Text {
        stored_wait(&self.status.state)
    }

    fn early(&self) -> Text {
        self.held().and_then(|held| held.early.as_ref()).map(to_json).transpose()
    }

    fn progress(&self) -> Text {
        stored_progress(self.lease().map_or(&[], |lease| &lease.progress))
    }

    /// Its key, if it has this place on it.
    fn key(&self, place: KeyPlace) -> Option<String> {
        self.job.filter(|_| key_place(&self.status.state) == place).and_then(key_of)
    }

    /// Whether it releases its key.
    fn frees(&self) -> bool {
        key_place(&self.status.state) == KeyPlace::Free
    }
}

fn stored_stop(held: &Leased) -> Result<Option<String>, PgError> {
    let Some(stop) = &held.stop else { return Ok(None) };
    let timed_out = stop.why == StopWhy::TimeOut;
    to_json(&StoredStop { at: stop.at.as_ms(), failure: stop.failure.clone(), timed_out }).map(Some)
}

fn stored_wait(state: &State) -> Result<Option<String>, PgError> {
    let State::Waiting(waiting) = state else { return Ok(None) };
    let until = match waiting.on {
        WaitFor::External { until } => Some(until.as_ms()),
        WaitFor::Jobs => None,
    };
    to_json(&StoredWait { since: waiting.since.as_ms(), until }).map(Some)
}
