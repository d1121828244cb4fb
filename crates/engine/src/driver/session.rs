//! The worker's end of a session.

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{AttemptId, Indicator, JobId, LeaseId, Report, WorkerName};
use tokio::sync::oneshot;

use super::mailbox::{self, mailbox};
use super::{Command, Engine, Reply, gone, unexpected};
use jobhall_kernel::Request;
use jobhall_kernel::{Answer, Rejected};
use jobhall_kernel::{Assignment, Ended, SessionId, VacancyId};

/// An event for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A job was assigned. Boxed, to keep a waiting session small.
    Assigned(Box<Assignment>),
    /// Stop this attempt: a cancel was requested.
    Cancel(AttemptId),
    /// Stop this attempt: it has timed out.
    TimeOut(AttemptId),
    /// This attempt resumes: these jobs, for which it waited, have ended.
    Resumed(AttemptId, Vec<JobId>),
    /// This attempt is no longer held by the worker: stop it.
    Revoked(AttemptId),
    /// A vacancy has ended.
    VacancyEnded(VacancyId, Ended),
    /// The session has ended.
    Ended,
}

/// A worker's session.
pub struct Session {
    engine: Engine,
    id: SessionId,
    worker: WorkerName,
    /// Attempts brought by the worker that continue.
    pub kept: Vec<AttemptId>,
    /// Attempts brought by the worker that are lost.
    pub lost: Vec<AttemptId>,
    events: mailbox::Receiver,
}

impl Engine {
    /// Opens a session for a worker, with the attempts that it still has.
    pub async fn open_session(
        &self,
        worker: WorkerName,
        abilities: Abilities,
        accepts: Accepts,
        attempts: Vec<(AttemptId, LeaseId)>,
    ) -> Result<Session, Rejected> {
        let (to, answer) = oneshot::channel();
        let (tell, events) = mailbox();
        let request = Request::OpenSession { worker: worker.clone(), abilities, accepts, attempts };
        self.send(Command::Ask(request, Reply::Session(to, tell))).await?;
        match answer.await.unwrap_or_else(|_| Err(gone()))? {
            Answer::Session { session, kept, lost } => {
                Ok(Session { engine: self.clone(), id: session, worker, kept, lost, events })
            }
            other => Err(unexpected(&other)),
        }
    }
}

impl Session {
    /// Its id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The next event for the worker; none if the engine has stopped or the session has ended.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        self.events.next().await
    }

    /// Like [`Session::next`], several at once.
    pub async fn next_many(&mut self, into: &mut Vec<SessionEvent>, most: usize) -> usize {
        self.events.next_many(into, most).await
    }

    /// Opens a vacancy for this many jobs.
    pub async fn vacancy(&self, slots: u32, wait_ms: u64) -> Result<VacancyId, Rejected> {
        match self.engine.ask(Request::Vacancy { session: self.id, slots, wait_ms }).await? {
            Answer::Vacancy(id) => Ok(id),
            other => Err(unexpected(&other)),
        }
    }

    /// Withdraws a vacancy. Assignments in flight still arrive, before its end.
    pub async fn end_vacancy(&self, vacancy: VacancyId) -> Result<Answer, Rejected> {
        self.engine.ask(Request::EndVacancy { session: self.id, vacancy }).await
    }

    /// Sets the total number of jobs that may be assigned, counted from the beginning of the session.
    pub async fn credit(&self, total: i64) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Credit { session: self.id, total }).await
    }

    /// Renews the session.
    pub async fn renew(&self) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Renew(self.id)).await
    }

    /// Accepts an assignment.
    pub async fn accept(&self, attempt: AttemptId, lease: LeaseId) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Accept { worker: self.worker.clone(), attempt, lease }).await
    }

    /// Reports progress.
    pub async fn progress(
        &self,
        attempt: AttemptId,
        lease: LeaseId,
        indicators: Vec<Indicator>,
    ) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Progress { worker: self.worker.clone(), attempt, lease, indicators }).await
    }

    /// Reports the outcome of an attempt.
    pub async fn report(
        &self,
        attempt: AttemptId,
        lease: LeaseId,
        report: Report,
    ) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Report { worker: self.worker.clone(), attempt, lease, report }).await
    }

    /// Reports the outcomes of many attempts; the answers are returned together, in order.
    pub async fn report_many(
        &self,
        reports: Vec<(AttemptId, LeaseId, Report)>,
    ) -> Result<Vec<Result<Answer, Rejected>>, Rejected> {
        let request = |(attempt, lease, report)| Request::Report {
            worker: self.worker.clone(),
            attempt,
            lease,
            report,
        };
        self.engine.ask_many(reports.into_iter().map(request).collect()).await
    }

    /// The connection is lost; the leases remain valid until they expire.
    pub async fn disconnect(&self) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Disconnect(self.id)).await
    }

    /// The worker leaves; its attempts are lost.
    pub async fn close(self) -> Result<Answer, Rejected> {
        self.engine.ask(Request::CloseSession(self.id)).await
    }
}
