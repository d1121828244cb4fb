//! Why a job is not running: in words, and as data that names the thing to change.

mod workers;

use std::fmt;

use jobhall_core::{
    Failure, GroupId, JobId, ScheduleName, State, StateName, StopRequest, StopWhy, Time, WaitFor, Waiting,
    Windows, WorkerName,
};

use crate::api::answer::Rejected;
use crate::jobs::entry::{Entry, Placed};
use crate::kernel::Kernel;
use crate::limits::LimitOf;
use crate::limits::LimitWhy;

pub use workers::{TooLarge, UsedUp, WorkerWhy};

/// Maximum number of jobs that are listed one by one.
const FEW: usize = 5;
/// Maximum number of jobs in an explanation.
const SOME: usize = 20;

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its start time has not come.
    NotDue(Time),
    /// Its windows are closed.
    Window {
        /// Its windows.
        windows: Windows,
        /// When one of them opens.
        opens: Time,
    },
    /// Its schedule delays it after the tick.
    Jitter {
        /// The schedule.
        schedule: ScheduleName,
        /// When it starts.
        run_at: Time,
    },
    /// It is retried later, after this error.
    Backoff {
        /// When it is retried.
        run_at: Time,
        /// The error of the last attempt.
        error: Failure,
    },
    /// It waits for the end of the job that holds its key.
    KeyHeld(JobId),
    /// Dependencies have not ended.
    Dependencies {
        /// The first few of them, with their states.
        first: Vec<(JobId, StateName)>,
        /// The number of further ones.
        more: usize,
    },
    /// Its dependencies have ended, and it is about to be released or to end with them.
    DependenciesEnded,
    /// Its group is being cancelled.
    GroupCancelled(GroupId),
    /// No worker is connected.
    NoWorkers,
    /// No connected worker matches.
    NoMatchingWorker(Vec<WorkerWhy>),
    /// It uses more than any worker has.
    TooLarge(Vec<TooLarge>),
    /// Workers match, but none has a vacancy.
    NoVacancy(Vec<WorkerName>),
    /// Workers match, but other jobs use the resources it needs.
    UsedUp(Vec<UsedUp>),
    /// A worker matches, but its free resources are reserved for a job that has waited long.
    ReservedForOther {
        /// The worker.
        worker: WorkerName,
        /// The job that the worker is reserved for.
        job: JobId,
    },
    /// It has waited long: this worker is reserved for it until it fits.
    Reserved(WorkerName),
    /// It avoids these workers, and another matching worker is connected.
    Avoids(Vec<WorkerName>),
    /// It is being assigned to a worker.
    Dispatching,
    /// It is assigned to a worker that has not accepted it.
    NotAccepted(WorkerName),
    /// A worker holds it.
    Running(WorkerName),
    /// Its attempt waits for sub-jobs.
    WaitsForJobs {
        /// The first of the sub-jobs that have not ended, with their states.
        jobs: Vec<(JobId, StateName)>,
        /// The number of sub-jobs that have not ended.
        open: usize,
    },
    /// The sub-jobs of its attempt have ended, but its worker has no free slot for it.
    WaitsForRoom(WorkerName),
    /// Its work continues outside, and its outcome must be reported from there.
    WaitsExternal {
        /// When it times out.
        until: Time,
        /// The number of the attempt.
        attempt: u32,
    },
    /// It has timed out and the worker has not stopped it yet.
    TimingOut {
        /// The worker.
        worker: WorkerName,
        /// Which time limit was exceeded.
        why: String,
    },
    /// It takes longer than expected for its type.
    LongerThanExpected {
        /// The expected duration.
        expected_ms: u64,
        /// The duration so far.
        worked_ms: u64,
    },
    /// A cancel was requested and the worker has not stopped it yet.
    Cancelling(WorkerName),
    /// The store failed to write a moment ago; matching is paused.
    StorageUnavailable,
    /// Its queue or its type is paused.
    Paused(LimitOf),
    /// It is held.
    OnHold,
    /// It waits for a limit.
    Limited(Box<LimitWhy>),
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
    /// The reasons, most immediate first.
    pub why: Vec<Why>,
}

impl Kernel {
    pub(crate) fn explain(&self, id: JobId) -> Result<Box<Explanation>, Rejected> {
        let entry = self.jobs.get(id).ok_or(Rejected::NoSuchJob(id))?;
        let explanation =
            Explanation { id, state: entry.status.get().name(self.env.wall()), why: self.why(id, entry) };
        Ok(Box::new(explanation))
    }

    pub(crate) fn explain_completed(&mut self, id: JobId) -> Result<Box<Explanation>, Rejected> {
        let (job, _) = self.jobs.completed(id).ok_or(Rejected::NoSuchJob(id))?;
        let state = job.status.state.name();
        Ok(Box::new(Explanation { id, state, why: vec![Why::Completed(state)] }))
    }

    fn why(&self, id: JobId, entry: &Entry) -> Vec<Why> {
        if let Some(part) = entry.member().filter(|_| entry.status.state().leased().is_none())
            && self.groups.cancel(part.group).is_some()
        {
            return vec![Why::GroupCancelled(part.group)];
        }
        match entry.status.state() {
            State::Queued(_) if entry.status.get().hold => self.why_reserved(id, entry),
            State::Blocked(blocked) => {
                let behind = blocked.holder.map(Why::KeyHeld);
                let after = if blocked.dependencies { self.why_blocked(entry) } else { None };
                let ended = (behind.is_none() && after.is_none()).then_some(Why::DependenciesEnded);
                behind.into_iter().chain(after).chain(ended).collect()
            }
            State::Queued(error) if entry.status.run_at() > self.env.wall() => {
                vec![self.why_early(entry, error.as_deref())]
            }
            State::Queued(_) => self.why_waiting(id, entry),
            State::Assigned(held) | State::Accepted(held) | State::Running(held) => {
                let worker = held.lease.worker.clone();
                let why = match (&held.stop, entry.status.state()) {
                    (Some(stop), _) => stopping(worker, stop),
                    (None, State::Assigned(_)) => Why::NotAccepted(worker),
                    (None, _) => Why::Running(worker),
                };
                [why].into_iter().chain(self.why_long(id)).collect()
            }
            State::Waiting(waiting) => {
                [self.why_suspended(id, entry, waiting)].into_iter().chain(self.why_long(id)).collect()
            }
            state => vec![Why::Completed(state.name())],
        }
    }

    /// The first few open dependencies of a blocked job.
    fn why_blocked(&self, entry: &Entry) -> Option<Why> {
        let after = entry.spec.as_ref().map_or(&[][..], |spec| &spec.after);
        let name = |id: &JobId| Some((*id, self.jobs.get(*id)?.status.get().name(self.env.wall())));
        let mut open: Vec<_> = after.iter().filter_map(name).collect();
        let more = open.len().saturating_sub(FEW);
        open.truncate(FEW);
        (!open.is_empty()).then_some(Why::Dependencies { first: open, more })
    }

    fn why_suspended(&self, id: JobId, entry: &Entry, waiting: &Waiting) -> Why {
        let worker = waiting.held.lease.worker.clone();
        let open = self.relations.awaited_by(id).filter(|open| !open.is_empty());
        match (&waiting.held.stop, waiting.on, open) {
            (_, WaitFor::External { until }, _) => {
                Why::WaitsExternal { until, attempt: entry.status.get().attempt }
            }
            (Some(stop), WaitFor::Jobs, _) => stopping(worker, stop),
            (None, WaitFor::Jobs, None) => Why::WaitsForRoom(worker),
            (None, WaitFor::Jobs, Some(open)) => {
                let state = |id: &JobId| Some((*id, self.jobs.get(*id)?.status.get().name(self.env.wall())));
                Why::WaitsForJobs {
                    jobs: open.iter().take(SOME).filter_map(state).collect(),
                    open: open.len(),
                }
            }
        }
    }

    fn why_long(&self, id: JobId) -> Option<Why> {
        let (expected_ms, worked_ms) = (self.expected_ms(id)?, self.worked_ms(id)?);
        Some(Why::LongerThanExpected { expected_ms, worked_ms })
    }

    /// Why the start time of a job has not come.
    fn why_early(&self, entry: &Entry, error: Option<&Failure>) -> Why {
        let (now, run_at) = (self.env.wall(), entry.status.run_at());
        let windows = entry.timed().map(|timed| &timed.windows);
        if let Some(windows) =
            windows.filter(|windows| !windows.open_at(now) && windows.next_open(now) == run_at)
        {
            return Why::Window { windows: windows.clone(), opens: run_at };
        }
        let schedule = entry.spec.as_ref().and_then(|spec| spec.schedule.clone());
        match (error, schedule) {
            (Some(error), _) => Why::Backoff { run_at, error: error.clone() },
            (None, Some(schedule)) => Why::Jitter { schedule, run_at },
            (None, None) => Why::NotDue(run_at),
        }
    }

    fn why_waiting(&self, id: JobId, entry: &Entry) -> Vec<Why> {
        if self.commits.resting_until().is_some() {
            return vec![Why::StorageUnavailable];
        }
        if matches!(entry.placed(), Placed::Nowhere | Placed::Unread) {
            return vec![Why::Dispatching];
        }
        let kept = self.why_reserved(id, entry);
        if kept.is_empty() { self.why_not_taken(id, entry) } else { kept }
    }
}

fn stopping(worker: WorkerName, stop: &StopRequest) -> Why {
    match stop.why {
        StopWhy::Cancel => Why::Cancelling(worker),
        StopWhy::TimeOut => Why::TimingOut { worker, why: stop.failure.explanation.clone() },
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotDue(at) => write!(f, "it is scheduled for {} ms", at.as_ms()),
            Why::Window { windows, opens } => {
                write!(f, "its windows are closed until {} ms: {windows}", opens.as_ms())
            }
            Why::Jitter { schedule, run_at } => {
                write!(f, "schedule {schedule} spreads its jobs and starts this one at {} ms", run_at.as_ms())
            }
            Why::Backoff { run_at, error } => {
                write!(f, "it is retried at {} ms, after: {}", run_at.as_ms(), error.reason)
            }
            Why::KeyHeld(holder) => write!(f, "its key is held by job {holder}, which must end first"),
            Why::Dependencies { first, more } => {
                let jobs: Vec<_> = first.iter().map(|(id, state)| format!("job {id} ({state})")).collect();
                write!(f, "it depends on {}", jobs.join(", "))?;
                let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
                write!(f, "{more}, which must end first")
            }
            Why::DependenciesEnded => {
                write!(f, "its dependencies have ended, and its release is being processed")
            }
            Why::GroupCancelled(group) => write!(f, "its group {group} is being cancelled"),
            Why::NoWorkers => write!(f, "no worker is connected"),
            Why::NoMatchingWorker(workers) => workers::no_match(workers, f),
            Why::NoVacancy(workers) => {
                let names: Vec<_> = workers.iter().map(WorkerName::as_str).collect();
                write!(f, "no matching worker has a free slot: {}", names.join(", "))
            }
            Why::TooLarge(resources) => {
                write!(f, "it uses more than any worker has")?;
                resources.iter().try_for_each(|resource| write!(f, "\n  {resource}"))
            }
            Why::UsedUp(workers) => {
                write!(f, "other jobs use what it would use")?;
                workers.iter().try_for_each(|worker| write!(f, "\n  {worker}"))
            }
            Why::ReservedForOther { worker, job } => {
                write!(f, "what is free on worker {worker} is reserved for job {job}, which has waited long")
            }
            Why::Reserved(worker) => {
                write!(
                    f,
                    "worker {worker} is reserved for it, because it has waited long: later jobs leave enough for it"
                )
            }
            Why::Avoids(workers) => {
                let names: Vec<_> = workers.iter().map(WorkerName::as_str).collect();
                write!(f, "it avoids workers that it was assigned to before: {}", names.join(", "))
            }
            Why::Dispatching => write!(f, "it is being assigned to a worker"),
            Why::NotAccepted(worker) => {
                write!(f, "it is assigned to worker {worker}, which has not accepted it yet")
            }
            Why::Running(worker) => write!(f, "worker {worker} runs it"),
            Why::Cancelling(worker) => {
                write!(f, "a cancel was requested; worker {worker} has not confirmed yet")
            }
            Why::WaitsForJobs { jobs, open } => {
                write!(f, "it waits for its sub-jobs; {open} of them have not ended")?;
                jobs.iter().try_for_each(|(id, state)| write!(f, "\n  job {id} is {state}"))
            }
            Why::WaitsForRoom(worker) => {
                write!(
                    f,
                    "the jobs that it waited for have ended; it continues when worker {worker} has a free slot"
                )
            }
            Why::WaitsExternal { until, attempt } => {
                write!(f, "attempt {attempt} waits for an outcome from outside until {} ms", until.as_ms())
            }
            Why::TimingOut { worker, why } => {
                write!(f, "it has timed out: {why}; worker {worker} has not confirmed yet")
            }
            Why::LongerThanExpected { expected_ms, worked_ms } => {
                write!(
                    f,
                    "longer than expected: {worked_ms} ms; jobs of its type usually take {expected_ms} ms"
                )
            }
            Why::StorageUnavailable => {
                write!(f, "the store failed to write a moment ago; matching is paused")
            }
            Why::Paused(what) => write!(f, "{what} is paused; resume it"),
            Why::OnHold => write!(f, "it is on hold; release it"),
            Why::Limited(why) => why.fmt(f),
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
