//! Why a job is not running: in words, and as data that names the thing to change.

mod ended;
mod text;
mod workers;

use jobhall_core::bounds::LOST_LEASES;
use jobhall_core::{
    Class, Failure, GroupId, JobId, JobStatus, ScheduleName, State, StateName, StopRequest, StopWhy, Time,
    WaitFor, Waiting, Windows, WorkerName,
};

use crate::api::answer::Rejected;
use crate::jobs::entry::{Entry, Placed};
use crate::kernel::Kernel;
use crate::limits::LimitOf;
use crate::limits::LimitWhy;

pub use ended::EndWhy;
pub use text::Format;
pub use workers::{TooLarge, UsedUp, WorkerWhy, unserved};

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
    KeyHeld(Blocker),
    /// Dependencies have not ended.
    Dependencies {
        /// The first few of them.
        first: Vec<Blocker>,
        /// The number of further ones.
        more: usize,
    },
    /// Its dependencies have ended, and it is about to be released or to end with them.
    DependenciesEnded,
    /// Its group is being cancelled.
    GroupCancelled(GroupId),
    /// No worker is connected. This is what a worker must match.
    NoWorkers(Box<Class>),
    /// No connected worker matches.
    NoMatchingWorker(Vec<WorkerWhy>),
    /// It uses more than any worker has.
    TooLarge(Vec<TooLarge>),
    /// Workers match, but none has a vacancy.
    NoVacancy(Vec<WorkerName>),
    /// Workers match, but an operator has paused or drains them.
    WorkersPaused {
        /// Those that are paused.
        paused: Vec<WorkerName>,
        /// Those that finish their jobs and exit.
        draining: Vec<WorkerName>,
    },
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
    /// Its worker has sent no heartbeat for longer than usual.
    Silent {
        /// The worker.
        worker: WorkerName,
        /// The time since its last heartbeat.
        silent_ms: u64,
        /// When its lease ends, unless the worker returns.
        until: Time,
        /// Whether the job then ends, instead of being retried.
        ends: bool,
        /// Whether the worker has another session, which does not have this job.
        returned: bool,
    },
    /// Attempts ended because their workers were lost.
    Lost {
        /// The number of these attempts; they do not count against `max_attempts`.
        attempts: u16,
        /// The number with which the job ends as crashed.
        most: u16,
        /// The worker of the last one; none if another attempt began after it.
        worker: Option<WorkerName>,
        /// When the job is retried; none if that attempt has begun.
        run_at: Option<Time>,
    },
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
    /// It has ended without success.
    Ended(Box<EndWhy>),
    /// It has succeeded.
    Succeeded,
}

/// An open job that another one waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The job.
    pub job: JobId,
    /// Its state.
    pub state: StateName,
    /// The first reason why it is not running; none for the blocker of a blocker.
    pub why: Option<Box<Why>>,
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
        let explanation = Explanation {
            id,
            state: entry.status.get().name(self.env.wall()),
            why: self.why(id, entry, true),
        };
        Ok(Box::new(explanation))
    }

    pub(crate) fn explain_completed(&mut self, id: JobId) -> Result<Box<Explanation>, Rejected> {
        let (job, _) = self.jobs.completed(id).ok_or(Rejected::NoSuchJob(id))?;
        let why = EndWhy::of(job).map_or(Why::Succeeded, |ended| Why::Ended(Box::new(ended)));
        Ok(Box::new(Explanation { id, state: job.status.state.name(), why: vec![why] }))
    }

    /// `deep`: also why the jobs that it waits for are not running.
    fn why(&self, id: JobId, entry: &Entry, deep: bool) -> Vec<Why> {
        if let Some(part) = entry.member().filter(|_| entry.status.state().leased().is_none())
            && self.groups.cancel(part.group).is_some()
        {
            return vec![Why::GroupCancelled(part.group)];
        }
        let mut why = self.why_now(id, entry, deep);
        why.extend(why_lost(&entry.status.get()));
        why
    }

    fn why_now(&self, id: JobId, entry: &Entry, deep: bool) -> Vec<Why> {
        match entry.status.state() {
            State::Queued(_) if entry.status.get().hold => self.why_reserved(id, entry),
            State::Blocked(blocked) => {
                let behind = blocked.holder.and_then(|id| self.blocker(id, deep)).map(Why::KeyHeld);
                let after = if blocked.dependencies { self.why_blocked(entry, deep) } else { None };
                let ended = (behind.is_none() && after.is_none()).then_some(Why::DependenciesEnded);
                behind.into_iter().chain(after).chain(ended).collect()
            }
            State::Queued(error) if entry.status.run_at() > self.env.wall() => {
                vec![self.why_early(entry, error.as_deref())]
            }
            State::Queued(_) => self.why_waiting(id, entry),
            State::Assigned(held) | State::Accepted(held) | State::Running(held) => {
                let worker = held.lease.worker.clone();
                let silent = self.why_silent(id, entry);
                let why = match (&held.stop, entry.status.state()) {
                    (Some(stop), _) => Some(stopping(worker, stop)),
                    (None, _) if silent.is_some() => None,
                    (None, State::Assigned(_)) => Some(Why::NotAccepted(worker)),
                    (None, _) => Some(Why::Running(worker)),
                };
                silent.into_iter().chain(why).chain(self.why_long(id)).collect()
            }
            State::Waiting(waiting) => {
                let why = self.why_suspended(id, entry, waiting);
                self.why_silent(id, entry).into_iter().chain([why]).chain(self.why_long(id)).collect()
            }
            // An open job is not completed.
            State::Succeeded(_) | State::Failed(_) | State::Crashed(_) | State::Cancelled(_) => Vec::new(),
        }
    }

    /// The first few open dependencies of a blocked job.
    fn why_blocked(&self, entry: &Entry, deep: bool) -> Option<Why> {
        let after = entry.spec.as_ref().map_or(&[][..], |spec| &spec.after);
        let open: Vec<_> = after.iter().filter(|id| self.jobs.get(**id).is_some()).collect();
        let first: Vec<_> = open.iter().take(FEW).filter_map(|id| self.blocker(**id, deep)).collect();
        let more = open.len() - first.len();
        (!first.is_empty()).then_some(Why::Dependencies { first, more })
    }

    /// An open job, and why it is not running if `deep` is set.
    fn blocker(&self, job: JobId, deep: bool) -> Option<Blocker> {
        let entry = self.jobs.get(job)?;
        // The dependencies are part of the spec, which may not be in memory.
        let is_known = entry.spec.is_some() || !matches!(entry.status.state(), State::Blocked(_));
        let why = if deep && is_known { self.why(job, entry, false) } else { Vec::new() };
        let state = entry.status.get().name(self.env.wall());
        Some(Blocker { job, state, why: why.into_iter().next().map(Box::new) })
    }

    /// The worker of a live attempt has sent no heartbeat for longer than usual.
    fn why_silent(&self, id: JobId, entry: &Entry) -> Option<Why> {
        let session = self.fleet.session(self.fleet.holder(id)?)?;
        let (silent_ms, until) = self.silence(session)?;
        let is_last = entry.status.get().lost + 1 >= LOST_LEASES;
        let at_most_once = entry.spec.as_ref().is_some_and(|spec| spec.retry.at_most_once);
        let began = !matches!(entry.status.state(), State::Assigned(_));
        Some(Why::Silent {
            worker: session.worker.clone(),
            silent_ms,
            until,
            ends: began && (is_last || at_most_once),
            returned: self.silence_of(&session.worker).is_none(),
        })
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

/// Attempts that were lost, apart from those that failed.
fn why_lost(status: &JobStatus) -> Option<Why> {
    let (worker, run_at) = match &status.state {
        State::Queued(error) => (error.as_deref().and_then(Failure::lost_worker), Some(status.run_at)),
        _ => (None, None),
    };
    (status.lost > 0).then_some(Why::Lost { attempts: status.lost, most: LOST_LEASES, worker, run_at })
}

fn stopping(worker: WorkerName, stop: &StopRequest) -> Why {
    match stop.why {
        StopWhy::Cancel => Why::Cancelling(worker),
        StopWhy::TimeOut => Why::TimingOut { worker, why: stop.failure.explanation.clone() },
    }
}
