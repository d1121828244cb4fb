//! Why a job is not running: in words, and as data that names the thing to change.

use std::collections::BTreeMap;
use std::fmt;

use jobhall_core::needs::Unmet;
use jobhall_core::{Failure, GroupId, JobId, State, StateName, Time, WorkerName};

use crate::answer::{Answer, Refused};
use crate::desk::Desk;
use crate::entry::{Entry, Placed};

/// Jobs that are named one by one.
const FEW: usize = 5;

/// Why one worker does not take the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerWhy {
    /// The worker.
    pub worker: WorkerName,
    /// Terms of the job's needs that it does not meet.
    pub needs: Vec<Unmet>,
    /// Terms of its own accepts that the job does not meet.
    pub accepts: Vec<Unmet>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its time has not come.
    NotDue(Time),
    /// It is tried again later, after this error.
    Backoff {
        /// When.
        run_at: Time,
        /// The error of the last attempt.
        error: Failure,
    },
    /// It waits for the end of the job that holds its key.
    KeyHeld(JobId),
    /// Jobs that it comes after have not ended.
    Dependencies {
        /// The first few of them, with where they stand.
        first: Vec<(JobId, StateName)>,
        /// How many more there are.
        more: usize,
    },
    /// Its group is being cancelled.
    GroupCancelled(GroupId),
    /// No worker is connected.
    NoWorkers,
    /// No connected worker suits.
    NoneSuits(Vec<WorkerWhy>),
    /// Workers suit, but none has a vacancy.
    NoVacancy(Vec<WorkerName>),
    /// It is being handed to a worker.
    OnItsWay,
    /// A worker has been offered it and has not said yes.
    NotAccepted(WorkerName),
    /// It is with a worker.
    InWork(WorkerName),
    /// A cancel was requested and the worker has not obeyed yet.
    Cancelling(WorkerName),
    /// The store could not write a moment ago; matching rests.
    StorageRests,
    /// It is completed.
    Completed(StateName),
}

/// Why a job is not running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The job.
    pub id: JobId,
    /// Its state.
    pub state: StateName,
    /// The reasons, the nearest first.
    pub why: Vec<Why>,
}

impl Desk {
    pub(crate) fn explain(&self, id: JobId) -> Result<Answer, Refused> {
        let entry = self.open.get(&id.get()).ok_or(Refused::NoSuchJob(id))?;
        let explanation = Explanation { id, state: entry.life.name(self.now.wall), why: self.why(entry) };
        Ok(Answer::Explained(Box::new(explanation)))
    }

    pub(crate) fn explain_completed(&mut self, id: JobId) -> Result<Answer, Refused> {
        let (job, _) = self.cached.get(&id).ok_or(Refused::NoSuchJob(id))?;
        let state = job.life.state.name();
        Ok(Answer::Explained(Box::new(Explanation { id, state, why: vec![Why::Completed(state)] })))
    }

    fn why(&self, entry: &Entry) -> Vec<Why> {
        if let Some(part) = entry.member.as_ref().filter(|_| entry.life.state.held().is_none())
            && self.groups().cancel(part.group).is_some()
        {
            return vec![Why::GroupCancelled(part.group)];
        }
        match &entry.life.state {
            State::Blocked(blocked) => {
                let behind = blocked.holder.map(Why::KeyHeld);
                behind.into_iter().chain(self.why_blocked(entry)).collect()
            }
            State::Queued(error) if entry.life.run_at > self.now.wall => match error {
                Some(error) => vec![Why::Backoff { run_at: entry.life.run_at, error: (**error).clone() }],
                None => vec![Why::NotDue(entry.life.run_at)],
            },
            State::Queued(_) => self.why_waiting(entry),
            State::Assigned(held) | State::Accepted(held) | State::Running(held) => {
                let worker = held.tenure.worker.clone();
                vec![match (held.is_cancelled(), &entry.life.state) {
                    (true, _) => Why::Cancelling(worker),
                    (false, State::Assigned(_)) => Why::NotAccepted(worker),
                    (false, _) => Why::InWork(worker),
                }]
            }
            State::Waiting(waiting) => vec![Why::InWork(waiting.held.tenure.worker.clone())],
            state => vec![Why::Completed(state.name())],
        }
    }

    /// The first few open jobs that a blocked one comes after.
    fn why_blocked(&self, entry: &Entry) -> Option<Why> {
        let after = entry.spec.as_ref().map_or(&[][..], |spec| &spec.after);
        let name = |id: &JobId| Some((*id, self.open.get(&id.get())?.life.name(self.now.wall)));
        let mut open: Vec<_> = after.iter().filter_map(name).collect();
        let more = open.len().saturating_sub(FEW);
        open.truncate(FEW);
        (!open.is_empty()).then_some(Why::Dependencies { first: open, more })
    }

    fn why_waiting(&self, entry: &Entry) -> Vec<Why> {
        if self.rest_until.is_some() {
            return vec![Why::StorageRests];
        }
        if entry.placed == Placed::Nowhere {
            return vec![Why::OnItsWay];
        }
        let Some(class) = self.board.class(entry.class) else { return Vec::new() };
        let mut suits = Vec::new();
        let mut others = BTreeMap::new();
        let connected = self.sessions.values().filter(|session| session.connected);
        for session in connected {
            let Some((abilities, accepts)) = session.profile.and_then(|profile| self.board.profile(profile))
            else {
                continue;
            };
            let needs = class.needs.unmet(abilities);
            let accepts = accepts.unmet(class.queue.as_str(), class.job_type.as_str());
            let worker = session.worker.clone();
            if needs.is_empty() && accepts.is_empty() {
                suits.push(worker);
            } else {
                others.insert(worker.clone(), WorkerWhy { worker, needs, accepts });
            }
        }
        suits.sort();
        suits.dedup();
        match (suits.is_empty(), others.is_empty()) {
            (false, _) => vec![Why::NoVacancy(suits)],
            (true, false) => vec![Why::NoneSuits(others.into_values().collect())],
            (true, true) => vec![Why::NoWorkers],
        }
    }
}

impl fmt::Display for WorkerWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<_> = self.needs.iter().chain(&self.accepts).map(|unmet| unmet.to_string()).collect();
        write!(f, "worker {}: {}", self.worker, terms.join("; "))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotDue(at) => write!(f, "it is scheduled for {} ms", at.as_ms()),
            Why::Backoff { run_at, error } => {
                write!(f, "it is tried again at {} ms, after: {}", run_at.as_ms(), error.reason)
            }
            Why::KeyHeld(holder) => write!(f, "its key is held by job {holder}, which must end first"),
            Why::Dependencies { first, more } => {
                let jobs: Vec<_> = first.iter().map(|(id, state)| format!("job {id} ({state})")).collect();
                write!(f, "it comes after {}", jobs.join(", "))?;
                let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
                write!(f, "{more}, which must end first")
            }
            Why::GroupCancelled(group) => write!(f, "its group {group} is being cancelled"),
            Why::NoWorkers => write!(f, "no worker is connected"),
            Why::NoneSuits(workers) => {
                write!(f, "no connected worker suits")?;
                workers.iter().try_for_each(|worker| write!(f, "\n  {worker}"))
            }
            Why::NoVacancy(workers) => {
                let names: Vec<_> = workers.iter().map(WorkerName::as_str).collect();
                write!(f, "workers that suit have no vacancy: {}", names.join(", "))
            }
            Why::OnItsWay => write!(f, "it is being handed to a worker"),
            Why::NotAccepted(worker) => write!(f, "worker {worker} was offered it and has not accepted yet"),
            Why::InWork(worker) => write!(f, "worker {worker} has it"),
            Why::Cancelling(worker) => {
                write!(f, "a cancel was requested; worker {worker} has not confirmed yet")
            }
            Why::StorageRests => write!(f, "the store could not write a moment ago; matching rests"),
            Why::Completed(state) => write!(f, "it is completed: {state}"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} is {}", self.id, self.state)?;
        self.why.iter().try_for_each(|why| write!(f, "\n{why}"))
    }
}
