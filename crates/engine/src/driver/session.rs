//! A worker's end of its session.

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{AttemptId, JobId, LeaseId, Report, WorkerName};
use tokio::sync::oneshot;

use super::mailbox::{self, mailbox};
use super::{Command, Engine, Reply, gone, unexpected};
use crate::answer::{Answer, Rejected};
use crate::effect::{Assignment, Ended, SessionId, VacancyId};
use crate::request::{Indicator, Request};

/// What a worker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// Here is a job. In a box, so that the room of a session that waits is small.
    Assigned(Box<Assignment>),
    /// Stop this attempt: a cancel was requested.
    Cancel(AttemptId),
    /// Stop this attempt: its time is over.
    TimeOut(AttemptId),
    /// This attempt goes on: these jobs, for which it waited, are over.
    Resumed(AttemptId, Vec<JobId>),
    /// This attempt is no longer yours: stop it.
    Revoked(AttemptId),
    /// A vacancy is over.
    VacancyEnded(VacancyId, Ended),
    /// The session is over.
    Ended,
}

/// A worker's session.
pub struct Session {
    engine: Engine,
    id: SessionId,
    worker: WorkerName,
    /// Attempts brought along that go on.
    pub kept: Vec<AttemptId>,
    /// Attempts brought along that are lost.
    pub lost: Vec<AttemptId>,
    events: mailbox::Receiver,
}

impl Engine {
    /// A worker comes, with the attempts that it still has.
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
    /// Its number.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// What the worker is told next; none when the engine has stopped or the session is over.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        self.events.next().await
    }

    /// As [`Session::next`], several at once.
    pub async fn next_many(&mut self, into: &mut Vec<SessionEvent>, most: usize) -> usize {
        self.events.next_many(into, most).await
    }

    /// The worker can take so many jobs now.
    pub async fn vacancy(&self, slots: u32, wait_ms: u64) -> Result<VacancyId, Rejected> {
        match self.engine.ask(Request::Vacancy { session: self.id, slots, wait_ms }).await? {
            Answer::Vacancy(id) => Ok(id),
            other => Err(unexpected(&other)),
        }
    }

    /// Withdraws a vacancy. What is on its way to it still comes, before its end is told.
    pub async fn end_vacancy(&self, vacancy: VacancyId) -> Result<Answer, Rejected> {
        self.engine.ask(Request::EndVacancy { session: self.id, vacancy }).await
    }

    /// So many jobs in all may be assigned, counted from the beginning of the session.
    pub async fn credit(&self, total: i64) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Credit { session: self.id, total }).await
    }

    /// The worker is still there.
    pub async fn renew(&self) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Renew(self.id)).await
    }

    /// The worker has the job.
    pub async fn accept(&self, attempt: AttemptId, lease: LeaseId) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Accept { worker: self.worker.clone(), attempt, lease }).await
    }

    /// The worker tells how far it is.
    pub async fn progress(
        &self,
        attempt: AttemptId,
        lease: LeaseId,
        indicators: Vec<Indicator>,
    ) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Progress { worker: self.worker.clone(), attempt, lease, indicators }).await
    }

    /// The attempt has ended.
    pub async fn report(
        &self,
        attempt: AttemptId,
        lease: LeaseId,
        report: Report,
    ) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Report { worker: self.worker.clone(), attempt, lease, report }).await
    }

    /// Many attempts have ended; the answers come together, in order.
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

    /// The connection is gone, the leases stay until they end.
    pub async fn disconnect(&self) -> Result<Answer, Rejected> {
        self.engine.ask(Request::Disconnect(self.id)).await
    }

    /// The worker leaves for good; what it still has is lost.
    pub async fn close(self) -> Result<Answer, Rejected> {
        self.engine.ask(Request::CloseSession(self.id)).await
    }
}
