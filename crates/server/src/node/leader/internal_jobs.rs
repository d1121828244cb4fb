//! Internal jobs: small jobs of applications that the leader runs itself, in a session of its own. They run no code of
//! users.
//!
//! The session has a name and an ability that no other worker can have. A job whose needs name that ability
//! ([`jobhall_core::needs::SERVER`]) runs nowhere else.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jobhall_core::needs::{Abilities, Accepts, SERVER};
use jobhall_core::{AttemptId, Failure, LeaseId, Report, TypeName, WorkerName};
use jobhall_engine::{Assignment, Engine, Opening, Rejected, Session, SessionEvent};
use jobhall_protocol::Code;
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use crate::error::ApiError;
use crate::server::app::told;

/// How many internal jobs run at a time.
const SLOTS: i64 = 16;
/// Time until a session that was refused or has ended is opened again.
const REOPEN: Duration = Duration::from_secs(1);

type Handler = Arc<dyn Fn(Assignment) -> BoxFuture<'static, Report> + Send + Sync>;

/// The functions that run internal jobs, by type.
#[derive(Clone, Default)]
pub struct InternalJobs {
    handlers: BTreeMap<TypeName, Handler>,
}

impl fmt::Debug for InternalJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.handlers.keys()).finish()
    }
}

impl InternalJobs {
    /// Adds the function that runs jobs of this type. The future is dropped when the job is cancelled or times out, and
    /// when this node no longer leads.
    #[must_use]
    pub fn with<F>(
        mut self,
        job_type: TypeName,
        run: impl Fn(Assignment) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Report> + Send + 'static,
    {
        self.handlers.insert(job_type, Arc::new(move |assignment| Box::pin(run(assignment))));
        self
    }
}

/// Refuses a name that only the server's own worker has.
pub(crate) fn check_name(name: &str) -> Result<(), ApiError> {
    if name == SERVER {
        return Err(ApiError::new(
            Code::Forbidden,
            format!("worker name {SERVER} is reserved for the server"),
        ));
    }
    Ok(())
}

/// Runs internal jobs until the leader ends.
pub(crate) async fn run(jobs: InternalJobs, engine: Engine, close: watch::Receiver<bool>) {
    if jobs.handlers.is_empty() {
        return;
    }
    loop {
        match open(&jobs, &engine).await {
            Ok(session) => {
                let mut running = Running {
                    jobs: &jobs,
                    session,
                    tasks: JoinSet::new(),
                    attempts: HashMap::new(),
                    taken: 0,
                };
                let ended = tokio::select! {
                    ended = running.serve() => Some(ended),
                    () = told(close.clone()) => None,
                };
                // Attempts that have not ended are lost with the session, and run again.
                let closed = running.session.close().await;
                let Some(ended) = ended else { return };
                tracing::warn!(?closed, "the session of internal jobs has ended: {ended}");
            }
            Err(Rejected::Stopped(_)) => return,
            Err(refused) => tracing::warn!("the session of internal jobs was refused: {refused}"),
        }
        tokio::select! {
            () = told(close.clone()) => return,
            () = tokio::time::sleep(REOPEN) => {}
        }
    }
}

async fn open(jobs: &InternalJobs, engine: &Engine) -> Result<Session, Rejected> {
    let types: Vec<_> = jobs.handlers.keys().map(TypeName::as_str).collect();
    let broken = |error: &dyn fmt::Display| Rejected::Stopped(error.to_string());
    let worker = WorkerName::new(SERVER).map_err(|error| broken(&error))?;
    let accepts =
        Accepts::parse(&format!("type in ({})", types.join(","))).map_err(|error| broken(&error))?;
    let opening = Opening {
        worker,
        abilities: Abilities::of_server(),
        accepts,
        attempts: Vec::new(),
        lease_ms: None,
        fresh: true,
    };
    engine.open(opening).await
}

/// A session of internal jobs.
struct Running<'a> {
    jobs: &'a InternalJobs,
    session: Session,
    tasks: JoinSet<Report>,
    attempts: HashMap<AttemptId, (LeaseId, AbortHandle)>,
    /// How many jobs were assigned to this session.
    taken: i64,
}

impl Running<'_> {
    /// Returns why the session ended.
    async fn serve(&mut self) -> String {
        let mut renewals = tokio::time::interval(Duration::from_millis((self.session.lease_ms / 3).max(1)));
        loop {
            let free = SLOTS - i64::try_from(self.attempts.len()).unwrap_or(SLOTS);
            let stepped = match self.session.credit(self.taken + free).await {
                Ok(_) => self.step(&mut renewals).await,
                Err(refused) => Err(refused.to_string()),
            };
            if let Err(ended) = stepped {
                return ended;
            }
        }
    }

    async fn step(&mut self, renewals: &mut tokio::time::Interval) -> Result<(), String> {
        tokio::select! {
            event = self.session.next() => match event {
                None | Some(SessionEvent::Ended) => Err("its lease has ended".to_owned()),
                Some(SessionEvent::Assigned(assignment)) => self.start(*assignment).await,
                Some(SessionEvent::Cancel(attempt)) => self.end(attempt, Report::Cancelled).await,
                Some(SessionEvent::TimeOut(attempt)) => {
                    let failure = Failure::new("timed_out", "the internal job took longer than allowed");
                    self.end(attempt, Report::TimedOut(failure, None)).await
                }
                Some(SessionEvent::Revoked(attempt)) => {
                    self.stop(attempt);
                    Ok(())
                }
                Some(SessionEvent::Resumed(..) | SessionEvent::VacancyEnded(..)) => Ok(()),
            },
            Some(ended) = self.tasks.join_next_with_id() => self.ended(ended).await,
            _ = renewals.tick() => self.session.renew().await.map(drop).map_err(|refused| refused.to_string()),
        }
    }

    async fn start(&mut self, assignment: Assignment) -> Result<(), String> {
        self.taken += 1;
        let (attempt, lease) = (assignment.attempt, assignment.lease);
        if self.session.accept(attempt, lease).await.is_err() {
            // It was cancelled meanwhile.
            return Ok(());
        }
        let Some(handler) = self.jobs.handlers.get(&assignment.spec.job_type) else {
            let failure = Failure::new("unknown_type", "the server has no function for this type");
            return self.report(attempt, lease, Report::Crashed(failure, None)).await;
        };
        let task = self.tasks.spawn(handler(assignment));
        self.attempts.insert(attempt, (lease, task));
        Ok(())
    }

    /// A job has returned, panicked or was stopped.
    async fn ended(&mut self, ended: Result<(Id, Report), JoinError>) -> Result<(), String> {
        let (id, report) = match ended {
            Ok((id, report)) => (id, report),
            Err(error) => {
                let failure = Failure::new("panicked", error.to_string());
                (error.id(), Report::Crashed(failure, None))
            }
        };
        // One that was stopped is not there any more.
        let found = self.attempts.iter().find(|(_, (_, task))| task.id() == id);
        match found.map(|(attempt, _)| *attempt) {
            Some(attempt) => self.end(attempt, report).await,
            None => Ok(()),
        }
    }

    fn stop(&mut self, attempt: AttemptId) -> Option<LeaseId> {
        let (lease, task) = self.attempts.remove(&attempt)?;
        task.abort();
        Some(lease)
    }

    async fn end(&mut self, attempt: AttemptId, report: Report) -> Result<(), String> {
        match self.stop(attempt) {
            Some(lease) => self.report(attempt, lease, report).await,
            None => Ok(()),
        }
    }

    /// An outcome that cannot be stored is lost with the session, and the job runs again.
    async fn report(&self, attempt: AttemptId, lease: LeaseId, report: Report) -> Result<(), String> {
        match self.session.report(attempt, lease, report).await {
            Err(refused @ (Rejected::Storage { .. } | Rejected::Stopped(_))) => Err(refused.to_string()),
            Err(refused) => {
                tracing::warn!(%attempt, "the outcome of an internal job was refused: {refused}");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}
