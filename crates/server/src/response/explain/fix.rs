//! What to do about a reason, as commands where there are any.

use jobhall_core::{JobId, Outcome};
use jobhall_engine::{EndWhy, LimitOf, Why, WorkerWhy, unserved};

/// What changes this; none if nothing has to be done.
pub(super) fn fix(id: JobId, why: &Why) -> Option<String> {
    let fix = match why {
        Why::NotDue(_) | Why::Window { .. } | Why::Jitter { .. } | Why::Backoff { .. } => {
            format!("run it immediately with `jobhall job run-now {id}`")
        }
        Why::KeyHeld(holder) => format!("see `jobhall job explain {}`", holder.job),
        Why::Dependencies { first, .. } => format!("see `jobhall job explain {}`", first.first()?.job),
        Why::WaitsForJobs { jobs, .. } => format!("see `jobhall job explain {}`", jobs.first()?.0),
        Why::NoWorkers(_) => "start a worker with `jobhall worker`".to_owned(),
        Why::NoMatchingWorker(workers) => no_match(id, workers),
        Why::WorkersPaused { paused, .. } => match paused.first() {
            Some(worker) => format!("resume it with `jobhall worker resume {worker}`"),
            None => "start the worker again, or another one".to_owned(),
        },
        Why::TooLarge(_) => {
            format!("start a larger worker, or change the job with `jobhall job edit {id} --uses …`")
        }
        Why::NoVacancy(_) | Why::UsedUp(_) => {
            "wait until a job ends, or start another worker; `jobhall worker list` shows what is in use"
                .to_owned()
        }
        Why::NotAccepted(worker) | Why::Silent { worker, .. } => {
            format!("check whether worker {worker} is alive: see `jobhall worker show {worker}`")
        }
        Why::Lost { .. } => {
            format!("check why its workers were lost, for example out of memory: see `jobhall job show {id}`")
        }
        Why::WaitsExternal { .. } => "report its outcome with `jobhall job complete`".to_owned(),
        Why::StorageUnavailable => "see the log of the server, and check its disk or database".to_owned(),
        Why::Paused(LimitOf::Queue(queue)) => format!("resume it with `jobhall queue resume {queue}`"),
        Why::Paused(LimitOf::Type(name)) => {
            format!("resume it with `jobhall type set {name} --paused false`")
        }
        Why::OnHold => format!("release it with `jobhall job release {id}`"),
        Why::Limited(limited) => match &limited.of {
            LimitOf::Queue(queue) => format!("change the limit with `jobhall queue set {queue} --limit …`"),
            LimitOf::Type(name) => format!("change the limit with `jobhall type set {name} --limit …`"),
        },
        Why::Ended(ended) => of_ended(id, ended),
        Why::DependenciesEnded
        | Why::GroupCancelled(_)
        | Why::ReservedForOther { .. }
        | Why::Reserved(_)
        | Why::Avoids(_)
        | Why::Dispatching
        | Why::Running(_)
        | Why::WaitsForRoom(_)
        | Why::TimingOut { .. }
        | Why::LongerThanExpected { .. }
        | Why::Cancelling(_)
        | Why::Succeeded => return None,
    };
    Some(fix)
}

fn no_match(id: JobId, workers: &[WorkerWhy]) -> String {
    match unserved(workers) {
        Some("queue") => "start a worker that takes jobs of this queue, or whose token is for it".to_owned(),
        Some(_) => {
            format!("start a worker that runs this type, or check the type with `jobhall job show {id}`")
        }
        None => {
            format!("start a worker that matches, or change the job with `jobhall job edit {id} --needs …`")
        }
    }
}

fn of_ended(id: JobId, ended: &EndWhy) -> String {
    let again = format!("run it again with `jobhall job retry {id}`");
    match ended.outcome {
        Outcome::Lost if ended.error.reason == "at_most_once" => {
            format!("check whether its work was done, then {again}")
        }
        Outcome::Lost => format!("check why its workers were lost: see `jobhall job show {id}`; {again}"),
        _ if ended.ran => format!("see `jobhall job log {id}`; {again}"),
        _ => again,
    }
}

/// A job that ended with another one, which has the error.
pub(super) fn of_dependent(id: JobId, root: JobId, end: &EndWhy) -> String {
    format!("{}, then run this one with `jobhall job retry {id}`", of_ended(root, end))
}
