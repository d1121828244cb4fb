//! The open sessions and the attempts assigned to each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobhall_blobs::Stream;
use jobhall_core::{AttemptId, LeaseId, WorkerName};
use jobhall_engine::SessionId;
use jobhall_protocol::{Code, Worker};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// Maximum number of sessions.
const MOST: usize = 10_000;

pub(crate) struct Sessions {
    places: Arc<Semaphore>,
    /// The connected processes by the name of their worker, with their number of sessions.
    instances: Mutex<HashMap<WorkerName, (String, usize)>>,
    present: Mutex<HashMap<SessionId, Arc<Present>>>,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions {
            places: Arc::new(Semaphore::new(MOST)),
            present: Mutex::default(),
            instances: Mutex::default(),
        }
    }
}

/// The name of a worker, held by one process. Released on drop.
pub(super) struct HeldName {
    sessions: Arc<Sessions>,
    worker: WorkerName,
}

impl Drop for HeldName {
    fn drop(&mut self) {
        let mut instances = self.sessions.instances();
        let is_last = instances.get_mut(&self.worker).is_some_and(|(_, count)| {
            *count -= 1;
            *count == 0
        });
        if is_last {
            instances.remove(&self.worker);
        }
    }
}

pub(crate) struct Present {
    pub(super) worker: WorkerName,
    /// The name of its process, if that exits when the worker is drained.
    pub(super) process: Option<String>,
    /// Notified when the worker is drained.
    pub(super) finish: Notify,
    book: Mutex<Book>,
}

/// What a worker offers in a session, and the jobs assigned to it.
#[derive(Default)]
pub(super) struct Book {
    pub(super) abilities: String,
    /// Total number of jobs that the worker accepts in this session.
    pub(super) total: i64,
    /// Number of jobs assigned so far.
    pub(super) given: u64,
    pub(super) attempts: HashMap<AttemptId, Given>,
}

/// A current attempt.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub(super) lease: LeaseId,
    /// Whether the attempt may have a log.
    pub(super) logged: bool,
    /// Whether the attempt may have notes.
    pub(super) noted: bool,
}

impl Book {
    /// Removes ended attempts.
    pub(super) fn forget(&mut self, attempts: impl Iterator<Item = AttemptId>) {
        for attempt in attempts {
            self.attempts.remove(&attempt);
        }
    }
}

impl Present {
    pub(super) fn new(worker: WorkerName, abilities: String, process: Option<String>) -> Present {
        let book = Mutex::new(Book { abilities, ..Book::default() });
        Present { worker, process, finish: Notify::new(), book }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    /// Reserves a session.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let place = self.places.clone().try_acquire_owned();
        place.map_err(|_| {
            ApiError::new(Code::Unavailable, format!("{MOST} sessions are open, which is the limit"))
        })
    }

    /// Waits until no session is open.
    pub(crate) async fn ended(&self) {
        let all = u32::try_from(MOST).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }

    fn instances(&self) -> MutexGuard<'_, HashMap<WorkerName, (String, usize)>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the name of a worker for a process. Two processes under one name would look like one worker.
    pub(super) fn hold_name(
        self: &Arc<Sessions>,
        worker: &WorkerName,
        instance: &str,
    ) -> Result<HeldName, ApiError> {
        let mut instances = self.instances();
        let (holder, count) = instances.entry(worker.clone()).or_insert_with(|| (instance.to_owned(), 0));
        if holder != instance {
            let detail = format!(
                "a worker named {worker} is connected from another process; \
                 give each worker its own token (--join), or its own name if it uses an administrator's token"
            );
            return Err(ApiError::new(Code::Conflict, detail));
        }
        *count += 1;
        Ok(HeldName { sessions: self.clone(), worker: worker.clone() })
    }

    fn present(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Present>>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, session: SessionId, present: Arc<Present>) {
        self.present().insert(session, present);
    }

    pub(super) fn leave(&self, session: SessionId) {
        self.present().remove(&session);
    }

    /// The process of a connected worker, if it exits when the worker is drained.
    pub(crate) fn process(&self, worker: &WorkerName) -> Option<String> {
        let present = self.present();
        present.values().filter(|present| present.worker == *worker).find_map(|one| one.process.clone())
    }

    /// Makes a process finish its jobs and exit.
    pub(crate) fn finish(&self, worker: &WorkerName, process: &str) {
        let present = self.present();
        let of_process =
            |one: &&Arc<Present>| one.worker == *worker && one.process.as_deref() == Some(process);
        present.values().filter(of_process).for_each(|one| one.finish.notify_one());
    }

    /// Records that a log chunk arrived by an HTTP request.
    pub(crate) fn log_came(&self, attempt: AttemptId, stream: Stream) {
        for present in self.present().values() {
            if let Some(given) = present.book().attempts.get_mut(&attempt) {
                given.logged = true;
                given.noted |= stream == Stream::Note;
            }
        }
    }

    /// Removes an attempt whose outcome arrived by an HTTP request.
    pub(crate) fn forget(&self, attempt: AttemptId) {
        for present in self.present().values() {
            present.book().attempts.remove(&attempt);
        }
    }

    /// The given workers and those with a session, by name.
    pub(crate) fn workers(&self, others: Vec<Worker>) -> Vec<Worker> {
        let mut workers: BTreeMap<_, _> =
            others.into_iter().map(|worker| (worker.name.clone(), worker)).collect();
        // Of several sessions of a worker, the first one says what its abilities are.
        let mut told = BTreeSet::new();
        for (_, present) in self.present().iter().collect::<BTreeMap<_, _>>() {
            let name = present.worker.to_string();
            let worker = workers.entry(name.clone()).or_insert_with(|| Worker::named(name));
            worker.connected = true;
            let book = present.book();
            let free = book.total.saturating_sub_unsigned(book.given).max(0);
            let free = u32::try_from(free).unwrap_or(u32::MAX);
            worker.slots = worker.slots.saturating_add(free);
            if told.insert(&present.worker) {
                worker.abilities.clone_from(&book.abilities);
            }
            worker.attempts.extend(book.attempts.keys().map(ToString::to_string));
            worker.attempts.sort();
        }
        workers.into_values().collect()
    }
}
