//! The worker's end of a session.

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{
    Application, AttemptId, Indicator, JobId, LeaseId, NewJob, Report, StateName, Submitted, WorkerName,
};
use tokio::sync::oneshot;

use super::mailbox::{self, mailbox};
use super::{Command, Driver, Engine, gone};
use jobhall_kernel::{Assignment, Ended, SessionId, VacancyId};
use jobhall_kernel::{AttemptRef, AttemptRequest, HallRequest, NewRecord, SessionRequest, TypedRequest};
use jobhall_kernel::{Noted, OpenedSession, Rejected, Waited, WorkerChange, WorkerConfig};

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
    /// How long it lives without a renewal.
    pub lease_ms: u64,
    /// Attempts brought by the worker that continue.
    pub kept: Vec<AttemptId>,
    /// Attempts brought by the worker that are lost.
    pub lost: Vec<AttemptId>,
    events: mailbox::Receiver,
}

/// What a worker opens a session with.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The worker's name, from its credential.
    pub worker: WorkerName,
    /// Its abilities.
    pub abilities: Abilities,
    /// The jobs it accepts.
    pub accepts: Accepts,
    /// The attempts it still has.
    pub attempts: Vec<(AttemptId, LeaseId)>,
    /// How long the session lives without a renewal, at most the server's lease; none: as long as that.
    pub lease_ms: Option<u64>,
    /// Whether the worker's process began anew: its sessions without a connection end at once.
    pub fresh: bool,
}

impl Engine {
    /// Opens a session for a worker, with the server's lease and the attempts that it still has.
    pub async fn open_session(
        &self,
        worker: WorkerName,
        abilities: Abilities,
        accepts: Accepts,
        attempts: Vec<(AttemptId, LeaseId)>,
    ) -> Result<Session, Rejected> {
        let (lease_ms, fresh) = (None, false);
        self.open(Opening { worker, abilities, accepts, attempts, lease_ms, fresh }).await
    }

    /// Opens a session for a worker.
    pub async fn open(&self, opening: Opening) -> Result<Session, Rejected> {
        let (to, answer) = oneshot::channel();
        let (tell, events) = mailbox();
        let named = opening.worker.clone();
        let open = move |to| {
            let Opening { worker, abilities, accepts, attempts, lease_ms, fresh } = opening;
            let request =
                HallRequest::OpenSession { worker, abilities, accepts, attempts, lease_ms, fresh, to };
            TypedRequest::Hall(request)
        };
        let waiter = |driver: &mut Driver, result: Result<OpenedSession, Rejected>| {
            if let Ok(opened) = &result {
                driver.sessions.insert(opened.session, tell);
            }
            // The caller may have given up meanwhile.
            let _ = to.send(result);
        };
        self.send(Command::Ask(Box::new(|driver, now| driver.ask(now, open, Box::new(waiter))))).await?;
        let OpenedSession { session, lease_ms, kept, lost } = answer.await.unwrap_or_else(|_| Err(gone()))?;
        Ok(Session { engine: self.clone(), id: session, worker: named, lease_ms, kept, lost, events })
    }

    /// Renews a session.
    pub async fn renew(&self, session: SessionId) -> Result<Noted, Rejected> {
        self.ask(move |to| TypedRequest::Session(session, SessionRequest::Renew { to })).await
    }

    /// The connection of a session is lost; its leases remain valid until they expire.
    pub async fn disconnect(&self, session: SessionId) -> Result<Noted, Rejected> {
        self.ask(move |to| TypedRequest::Session(session, SessionRequest::Disconnect { to })).await
    }

    /// The worker leaves; its attempts are lost.
    pub async fn close_session(&self, session: SessionId) -> Result<Noted, Rejected> {
        self.ask(move |to| TypedRequest::Session(session, SessionRequest::CloseSession { to })).await
    }

    /// Ends all sessions of a worker; its attempts are lost.
    pub async fn end_worker(&self, worker: WorkerName) -> Result<Noted, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::EndWorker { worker, to })).await
    }

    /// What operators have ordered of a worker, or of all workers.
    pub async fn worker_configs(
        &self,
        worker: Option<WorkerName>,
    ) -> Result<Vec<(WorkerName, WorkerConfig)>, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::WorkerConfigs { worker, to })).await
    }

    /// Pauses, resumes or drains a worker.
    pub async fn change_worker(&self, worker: WorkerName, change: WorkerChange) -> Result<Noted, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::ChangeWorker { worker, change, to })).await
    }

    /// Accepts an assignment.
    pub async fn accept(&self, of: AttemptRef) -> Result<StateName, Rejected> {
        self.ask(|to| TypedRequest::Attempt(of, AttemptRequest::Accept { to })).await
    }

    /// Reports progress.
    pub async fn progress(&self, of: AttemptRef, indicators: Vec<Indicator>) -> Result<StateName, Rejected> {
        self.ask(|to| TypedRequest::Attempt(of, AttemptRequest::Progress { indicators, to })).await
    }

    /// Reports that the work was started and continues outside.
    pub async fn started(&self, of: AttemptRef) -> Result<StateName, Rejected> {
        self.ask(|to| TypedRequest::Attempt(of, AttemptRequest::Started { to })).await
    }

    /// Reports the outcome of an attempt.
    pub async fn report(&self, of: AttemptRef, report: Report) -> Result<StateName, Rejected> {
        self.report_with(of, report, Vec::new()).await
    }

    /// Reports the outcome of an attempt, and writes records in the same commit.
    pub async fn report_with(
        &self,
        of: AttemptRef,
        report: Report,
        records: Vec<NewRecord>,
    ) -> Result<StateName, Rejected> {
        self.ask(|to| TypedRequest::Attempt(of, AttemptRequest::Report { report, records, to })).await
    }

    /// Requests sub-jobs, all or nothing. See [`AttemptRequest::Call`].
    pub async fn call(
        &self,
        of: AttemptRef,
        jobs: Vec<(String, NewJob)>,
        by: Option<Application>,
    ) -> Result<Vec<Submitted>, Rejected> {
        self.ask(move |to| TypedRequest::Attempt(of, AttemptRequest::Call { jobs, by, to })).await
    }

    /// Lets an attempt wait for sub-jobs. See [`AttemptRequest::Wait`].
    pub async fn wait(
        &self,
        of: AttemptRef,
        jobs: Option<Vec<JobId>>,
        wait_ms: u64,
    ) -> Result<Waited, Rejected> {
        self.ask(move |to| TypedRequest::Attempt(of, AttemptRequest::Wait { jobs, wait_ms, to })).await
    }

    /// Checks that a job is a sub-job of the attempt's job.
    pub async fn check_sub_job(&self, of: AttemptRef, job: JobId) -> Result<Noted, Rejected> {
        self.ask(move |to| TypedRequest::Attempt(of, AttemptRequest::CheckSubJob { job, to })).await
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

    fn of(&self, attempt: AttemptId, lease: LeaseId) -> AttemptRef {
        AttemptRef { worker: self.worker.clone(), attempt, lease }
    }

    /// Opens a vacancy for this many jobs.
    pub async fn vacancy(&self, slots: u32, wait_ms: u64) -> Result<VacancyId, Rejected> {
        let id = self.id;
        let vacancy = move |to| TypedRequest::Session(id, SessionRequest::Vacancy { slots, wait_ms, to });
        self.engine.ask(vacancy).await
    }

    /// Withdraws a vacancy. Assignments in flight still arrive, before its end.
    pub async fn end_vacancy(&self, vacancy: VacancyId) -> Result<Noted, Rejected> {
        let id = self.id;
        self.engine.ask(move |to| TypedRequest::Session(id, SessionRequest::EndVacancy { vacancy, to })).await
    }

    /// Sets the total number of jobs that may be assigned, counted from the beginning of the session.
    pub async fn credit(&self, total: i64) -> Result<Noted, Rejected> {
        let id = self.id;
        self.engine.ask(move |to| TypedRequest::Session(id, SessionRequest::Credit { total, to })).await
    }

    /// Replaces what the session offers.
    pub async fn set_abilities(&self, abilities: Abilities, accepts: Accepts) -> Result<Noted, Rejected> {
        let (id, request) = (self.id, move |to| SessionRequest::SetAbilities { abilities, accepts, to });
        self.engine.ask(move |to| TypedRequest::Session(id, request(to))).await
    }

    /// Renews the session.
    pub async fn renew(&self) -> Result<Noted, Rejected> {
        self.engine.renew(self.id).await
    }

    /// Accepts an assignment.
    pub async fn accept(&self, attempt: AttemptId, lease: LeaseId) -> Result<StateName, Rejected> {
        self.engine.accept(self.of(attempt, lease)).await
    }

    /// Reports progress.
    pub async fn progress(
        &self,
        attempt: AttemptId,
        lease: LeaseId,
        indicators: Vec<Indicator>,
    ) -> Result<StateName, Rejected> {
        self.engine.progress(self.of(attempt, lease), indicators).await
    }

    /// Reports the outcome of an attempt.
    pub async fn report(
        &self,
        attempt: AttemptId,
        lease: LeaseId,
        report: Report,
    ) -> Result<StateName, Rejected> {
        self.engine.report(self.of(attempt, lease), report).await
    }

    /// Reports the outcomes of many attempts; the answers are returned together, in order.
    pub async fn report_many(
        &self,
        reports: Vec<(AttemptId, LeaseId, Report)>,
    ) -> Result<Vec<Result<StateName, Rejected>>, Rejected> {
        let request = |(attempt, lease, report)| {
            let of = self.of(attempt, lease);
            move |to| TypedRequest::Attempt(of, AttemptRequest::Report { report, records: Vec::new(), to })
        };
        self.engine.ask_each(reports.into_iter().map(request)).await
    }

    /// The connection is lost; the leases remain valid until they expire.
    pub async fn disconnect(&self) -> Result<Noted, Rejected> {
        self.engine.disconnect(self.id).await
    }

    /// The worker leaves; its attempts are lost.
    pub async fn close(self) -> Result<Noted, Rejected> {
        self.engine.close_session(self.id).await
    }
}
