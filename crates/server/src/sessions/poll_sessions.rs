//! Engine sessions of workers that use long polls: the attempts of each session, and the polls that are waiting.
//!
//! A worker that uses only requests has no connection that could hold its leases. The session that a long poll opened
//! is therefore kept here after the response, with a task that reads the events of the engine: a cancel is recorded
//! until the next renewal, and a revoked attempt is removed. A session without attempts is closed. This state is a
//! hint: the engine decides on every message of a worker, and after a restart renewals rebuild the state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{AttemptId, LeaseId, WorkerName};
use jobhall_engine::{Engine, Opening, Rejected, Session, SessionEvent, SessionId};
use jobhall_protocol::{Renewed, Worker};
use tokio::runtime::Handle;

pub(crate) struct PollSessions {
    engine: Engine,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    held: HashMap<AttemptId, PolledAttempt>,
    /// Attempts per session.
    left: HashMap<SessionId, usize>,
    waiting: HashMap<SessionId, Waiting>,
}

struct PolledAttempt {
    session: SessionId,
    worker: WorkerName,
    lease: LeaseId,
    cancel: bool,
    abilities: Arc<str>,
}

struct Waiting {
    worker: WorkerName,
    abilities: Arc<str>,
    slots: u32,
}

impl PollSessions {
    pub(crate) fn new(engine: Engine) -> PollSessions {
        PollSessions { engine, book: Mutex::default() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session for a long poll, which waits until [`PollSessions::waited`].
    pub(crate) async fn wait(
        &self,
        worker: &WorkerName,
        abilities: Abilities,
        accepts: Accepts,
        (slots, lease_ms, fresh): (u32, Option<u64>, bool),
    ) -> Result<Session, Rejected> {
        let text = abilities.to_string().into();
        if fresh {
            self.end_held(worker).await;
        }
        let (worker, attempts) = (worker.clone(), Vec::new());
        let opening = Opening { worker: worker.clone(), abilities, accepts, attempts, lease_ms, fresh };
        let session = self.engine.open(opening).await?;
        let waiting = Waiting { worker, abilities: text, slots };
        self.book().waiting.insert(session.id(), waiting);
        Ok(session)
    }

    /// The process of a worker began anew: ends the sessions that hold attempts of its earlier polls.
    pub(crate) async fn end_held(&self, worker: &WorkerName) {
        let sessions: BTreeSet<_> = {
            let book = self.book();
            book.held.values().filter(|held| held.worker == *worker).map(|held| held.session).collect()
        };
        for session in sessions {
            // One that has ended meanwhile needs nothing more.
            let _ = self.engine.close_session(session).await;
        }
    }

    /// Ends the wait of a long poll.
    pub(crate) fn waited(&self, session: SessionId) {
        self.book().waiting.remove(&session);
    }

    /// Keeps a session for the attempts it holds.
    pub(crate) fn keep(
        self: &Arc<PollSessions>,
        mut session: Session,
        worker: &WorkerName,
        abilities: &Arc<str>,
        attempts: &[(AttemptId, LeaseId)],
    ) {
        let id = session.id();
        for &(attempt, lease) in attempts {
            let (worker, abilities) = (worker.clone(), abilities.clone());
            self.book().add(attempt, PolledAttempt { session: id, worker, lease, cancel: false, abilities });
        }
        let poll_sessions = self.clone();
        tokio::spawn(async move {
            while let Some(event) = session.next().await {
                match event {
                    SessionEvent::Cancel(attempt) | SessionEvent::TimeOut(attempt) => {
                        poll_sessions.note_cancel(attempt);
                    }
                    SessionEvent::Revoked(attempt) => poll_sessions.forget_from(id, attempt),
                    SessionEvent::Ended => break,
                    SessionEvent::Assigned(_)
                    | SessionEvent::VacancyEnded(..)
                    | SessionEvent::Resumed(..) => {}
                }
            }
            poll_sessions.book().end(id);
        });
    }

    fn note_cancel(&self, attempt: AttemptId) {
        if let Some(held) = self.book().held.get_mut(&attempt) {
            held.cancel = true;
        }
    }

    /// Removes an attempt that ended.
    pub(crate) fn forget(&self, attempt: AttemptId) {
        let empty = self.book().remove(attempt);
        self.close(empty);
    }

    /// Removes an attempt from this session. Another session may have the attempt by now.
    fn forget_from(&self, session: SessionId, attempt: AttemptId) {
        let mut book = self.book();
        let own = book.held.get(&attempt).is_some_and(|held| held.session == session);
        let empty = if own { book.remove(attempt) } else { None };
        drop(book);
        self.close(empty);
    }

    /// Ends a session. Attempts that it has not accepted return to the queue.
    pub(crate) fn close(&self, session: Option<SessionId>) {
        // Without a runtime the process is exiting, and sessions end with it.
        if let (Some(session), Ok(runtime)) = (session, Handle::try_current()) {
            let engine = self.engine.clone();
            runtime.spawn(async move { engine.close_session(session).await });
        }
    }

    /// Whether a cancel of this attempt was requested.
    pub(crate) fn is_cancelled(&self, attempt: AttemptId) -> bool {
        self.book().held.get(&attempt).is_some_and(|held| held.cancel)
    }

    /// Whether this worker was assigned this attempt with this lease, as far as this server knows.
    pub(crate) fn knows(&self, attempt: AttemptId, lease: LeaseId, worker: &WorkerName) -> bool {
        self.session_of(attempt, lease, worker).is_some()
    }

    fn session_of(&self, attempt: AttemptId, lease: LeaseId, worker: &WorkerName) -> Option<SessionId> {
        let book = self.book();
        let held = book.held.get(&attempt)?;
        (held.lease == lease && held.worker == *worker).then_some(held.session)
    }

    /// Renews the attempts that a worker names. Attempts unknown here, for example after a restart, get a new
    /// session.
    pub(crate) async fn renew(
        self: &Arc<PollSessions>,
        worker: &WorkerName,
        attempts: Vec<(AttemptId, LeaseId)>,
    ) -> Result<Renewed, Rejected> {
        let mut alive: HashMap<SessionId, bool> = HashMap::new();
        let (mut renewed, mut unknown) = (Renewed::default(), Vec::new());
        for (attempt, lease) in attempts {
            let session = self.session_of(attempt, lease, worker);
            if let Some(session) = session
                && !alive.contains_key(&session)
            {
                alive.insert(session, self.renew_session(session).await?);
            }
            if session.is_some_and(|session| alive.get(&session) == Some(&true)) {
                renewed.kept.push(attempt.to_string());
                renewed.cancel.extend(self.is_cancelled(attempt).then(|| attempt.to_string()));
            } else {
                unknown.push((attempt, lease));
            }
        }
        if !unknown.is_empty() {
            self.bring_back(worker, unknown, &mut renewed).await?;
        }
        Ok(renewed)
    }

    /// Renews a session; returns whether it exists.
    async fn renew_session(&self, session: SessionId) -> Result<bool, Rejected> {
        match self.engine.renew(session).await {
            Ok(_) => Ok(true),
            Err(Rejected::NoSuchSession) => Ok(false),
            Err(refused) => Err(refused),
        }
    }

    async fn bring_back(
        self: &Arc<PollSessions>,
        worker: &WorkerName,
        attempts: Vec<(AttemptId, LeaseId)>,
        renewed: &mut Renewed,
    ) -> Result<(), Rejected> {
        let (abilities, accepts) = (Abilities::default(), Accepts::default());
        let session = self.engine.open_session(worker.clone(), abilities, accepts, attempts.clone()).await?;
        renewed.lost.extend(session.lost.iter().map(ToString::to_string));
        // The session holds leases and takes no jobs.
        session.disconnect().await?;
        // The worker renews by requests, so the missing connection does not make it silent.
        self.renew_session(session.id()).await?;
        let kept: Vec<_> =
            attempts.into_iter().filter(|(attempt, _)| session.kept.contains(attempt)).collect();
        for (attempt, _) in &kept {
            renewed.kept.push(attempt.to_string());
            let shown = self.engine.show(attempt.job).await?;
            let cancel = shown.job.status.state.leased().is_some_and(|held| held.stop.is_some());
            renewed.cancel.extend(cancel.then(|| attempt.to_string()));
        }
        if kept.is_empty() {
            session.close().await?;
        } else {
            self.keep(session, worker, &"".into(), &kept);
        }
        Ok(())
    }

    /// Workers that wait for a job or hold an attempt, by name.
    pub(crate) fn workers(&self) -> Vec<Worker> {
        let book = self.book();
        let mut workers = BTreeMap::new();
        let new = |name: &WorkerName| Worker { connected: true, ..Worker::named(name.to_string()) };
        // Of several sessions of a worker, the first one says what its abilities are.
        let mut told: HashMap<&WorkerName, SessionId> = HashMap::new();
        let mut tells = |name, session: SessionId| {
            let first = *told.entry(name).and_modify(|first| *first = session.min(*first)).or_insert(session);
            first == session
        };
        for (attempt, held) in &book.held {
            let worker = workers.entry(held.worker.clone()).or_insert_with_key(&new);
            worker.attempts.push(attempt.to_string());
            if tells(&held.worker, held.session) {
                worker.abilities = held.abilities.to_string();
            }
        }
        for (session, waiting) in &book.waiting {
            let worker = workers.entry(waiting.worker.clone()).or_insert_with_key(&new);
            worker.slots += waiting.slots;
            if tells(&waiting.worker, *session) {
                worker.abilities = waiting.abilities.to_string();
            }
        }
        workers.into_values().map(sorted).collect()
    }
}

fn sorted(mut worker: Worker) -> Worker {
    worker.attempts.sort();
    worker
}

impl Book {
    fn add(&mut self, attempt: AttemptId, held: PolledAttempt) {
        let session = held.session;
        *self.left.entry(session).or_default() += 1;
        if let Some(before) = self.held.insert(attempt, held) {
            // The previous session of the attempt has ended, or is about to end.
            self.take_one(before.session);
        }
    }

    /// Removes an attempt; returns its session if the session has no attempts left.
    fn remove(&mut self, attempt: AttemptId) -> Option<SessionId> {
        let held = self.held.remove(&attempt)?;
        self.take_one(held.session).then_some(held.session)
    }

    fn take_one(&mut self, session: SessionId) -> bool {
        let Some(left) = self.left.get_mut(&session) else { return false };
        *left -= 1;
        let empty = *left == 0;
        if empty {
            self.left.remove(&session);
        }
        empty
    }

    fn end(&mut self, session: SessionId) {
        self.held.retain(|_, held| held.session != session);
        self.left.remove(&session);
    }
}
