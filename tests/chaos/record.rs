//! What clients and workers sent and received, as values of the engine, so that the simulator's checkers can read it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use jobhall_client::ClientError;
use jobhall_core::{
    AttemptId, EventName, IllegalTransition, JobId, Json, LeaseId, NewJob, StateName, Time, WorkerName,
};
use jobhall_engine::{Answer, AttemptRef, Rejected, Request};
use jobhall_protocol::{self as wire, Code};
use rand::RngExt as _;
use rand::rngs::StdRng;

/// One observation.
#[derive(Clone, Debug)]
pub enum Entry {
    /// Sent, whether or not it arrived.
    Sent(Request),
    /// Answered at this time.
    Heard(Request, Result<Answer, Rejected>, u64),
    /// Assigned to a worker of the test that polled at this time.
    Assigned(AttemptId, LeaseId, Json, u64),
}

/// All observations.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// In the order of observation.
    pub entries: Vec<Entry>,
    /// Jobs that a client knows.
    pub jobs: Vec<u64>,
    /// Completed jobs, as they were shown the first time.
    pub completed: BTreeMap<u64, serde_json::Value>,
    /// The log of an attempt whose outcome was acknowledged.
    pub logs: BTreeMap<AttemptId, Vec<u8>>,
    /// Ends of jobs that were received in the event stream.
    pub events: BTreeMap<u64, String>,
    /// Start and end of each change of leadership.
    pub changes: Vec<(Time, Time)>,
    /// Counts of events.
    pub tally: BTreeMap<&'static str, u64>,
}

/// The shared record.
#[derive(Clone, Debug)]
pub struct Record {
    book: Arc<Mutex<Book>>,
    begun: Instant,
}

impl Record {
    pub fn new() -> Record {
        Record { book: Arc::default(), begun: Instant::now() }
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// The current time on the clock of the test.
    pub fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap()
    }

    pub fn sent(&self, request: &Request) {
        self.book().entries.push(Entry::Sent(request.clone()));
    }

    pub fn heard(&self, request: Request, answer: Result<Answer, Rejected>) {
        let at = self.now();
        self.book().entries.push(Entry::Heard(request, answer, at));
    }

    pub fn count(&self, what: &'static str) {
        *self.book().tally.entry(what).or_default() += 1;
    }

    /// Records an error if it has a known outcome: after a broken connection the outcome of the request is unknown.
    pub fn refused(&self, request: Request, error: &ClientError) {
        let ClientError::Problem(problem) = error else {
            assert!(matches!(error, ClientError::Unreachable { .. }), "{request:?}: {error}");
            return self.count("unknown, the connection broke");
        };
        let refused = match (problem.code, &request) {
            (
                Code::LeaseLost,
                Request::Report { of: AttemptRef { attempt, .. }, .. }
                | Request::Accept { of: AttemptRef { attempt, .. }, .. },
            ) => Rejected::LeaseLost(*attempt),
            (Code::NotFound, request) => Rejected::NoSuchJob(job_of(request)),
            (Code::KeyHeld, Request::Submit { submit }) => {
                let holder = problem.detail.rsplit(' ').next().and_then(|id| id.parse().ok()).unwrap();
                Rejected::KeyHeld { job_type: submit.jobs[0].job_type.clone(), holder: job_id(holder) }
            }
            (Code::IdempotencyKeyReused, _) => Rejected::IdempotencyKeyReused,
            (Code::Conflict, Request::Cancel { .. }) => Rejected::Event(IllegalTransition::Illegal {
                state: StateName::Succeeded,
                event: EventName::Cancel,
            }),
            (Code::Conflict, _) => Rejected::Event(IllegalTransition::NotRequested),
            (Code::Unavailable, _) => return self.count("unknown, the hall was stopping"),
            (Code::NoLeader, _) => return self.count("not done, no node led"),
            (Code::OutcomeUnknown, _) => return self.count("unknown, the leadership was lost"),
            (code, request) => panic!("{code:?} is no answer to {request:?}: {problem}"),
        };
        self.count("refused");
        self.heard(request, Err(refused));
    }

    /// A job that a client knows.
    pub fn any_job(&self, random: &mut StdRng) -> Option<u64> {
        let book = self.book();
        // Mostly a recent one: jobs that ended long ago are less interesting.
        let (all, few) = (book.jobs.len(), book.jobs.len().min(40));
        let from = if random.random_range(0..4) == 0 { 0 } else { all - few };
        (all > 0).then(|| book.jobs[random.random_range(from..all)])
    }
}

fn job_of(request: &Request) -> JobId {
    match request {
        Request::Cancel { id, .. } | Request::Retry { id, .. } | Request::Show { id } => *id,
        Request::Report { of: AttemptRef { attempt, .. }, .. }
        | Request::Accept { of: AttemptRef { attempt, .. }, .. } => attempt.job,
        other => panic!("not found is no answer to {other:?}"),
    }
}

pub fn job_id(id: u64) -> JobId {
    JobId::new(id).unwrap()
}

pub fn state(name: &str) -> StateName {
    StateName::ALL.into_iter().find(|state| state.as_str() == name).unwrap()
}

/// The name of every worker here: that of the administrator's token.
pub fn worker() -> WorkerName {
    WorkerName::new("admin").unwrap()
}

/// The job as the engine reads it, without what is not compared: the server completes the retry policy, and the start
/// time may have changed when the job is read.
pub fn asked(job: &wire::SubmitJob) -> NewJob {
    NewJob { retry: None, run_at: None, ..NewJob::try_from(job).unwrap() }
}
