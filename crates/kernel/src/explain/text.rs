//! The reasons in words.

use std::fmt;

use jobhall_core::{Class, JobId, StateName, Time, WorkerName};

use super::{Blocker, Explanation, Why, workers};

/// How times and durations are written.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// A time.
    pub time: fn(Time) -> String,
    /// A duration in milliseconds.
    pub duration: fn(u64) -> String,
}

impl Format {
    /// Both in milliseconds.
    const MS: Format = Format { time: |at| format!("{} ms", at.as_ms()), duration: |ms| format!("{ms} ms") };
}

impl Why {
    /// The reason in words.
    #[must_use]
    pub fn text(&self, format: Format) -> String {
        let Format { time, duration } = format;
        match self {
            Why::NotDue(at) => format!("scheduled to start at {}", time(*at)),
            Why::Window { windows, opens } => {
                format!("its windows are closed until {}: {windows}", time(*opens))
            }
            Why::Jitter { schedule, run_at } => {
                format!("schedule {schedule} spreads its jobs and starts this one at {}", time(*run_at))
            }
            Why::Backoff { run_at, error } => {
                format!("waiting to retry at {}, after: {}", time(*run_at), error.reason)
            }
            Why::WaitsExternal { until, attempt } => {
                format!("attempt {attempt} waits for an outcome from outside until {}", time(*until))
            }
            Why::LongerThanExpected { expected_ms, worked_ms } => {
                let (worked, expected) = (duration(*worked_ms), duration(*expected_ms));
                format!("longer than expected: {worked}; jobs of its type usually take {expected}")
            }
            Why::Limited(why) => why.words(format),
            Why::NoWorkers(wanted) => format!("no worker is connected; {}", needed(wanted)),
            Why::NoMatchingWorker(workers) => workers::no_match(workers),
            Why::NoVacancy(workers) => format!("no matching worker has a free slot: {}", names(workers)),
            Why::WorkersPaused { paused, draining } => workers::no_new_jobs(paused, draining),
            Why::TooLarge(resources) => {
                let lines = resources.iter().map(|resource| format!("\n  {resource}"));
                format!("it uses more than any worker has{}", lines.collect::<String>())
            }
            Why::UsedUp(workers) => {
                let lines = workers.iter().map(|worker| format!("\n  {worker}"));
                format!("other jobs use what it would use{}", lines.collect::<String>())
            }
            Why::ReservedForOther { worker, job } => {
                format!("what is free on worker {worker} is reserved for job {job}, which has waited long")
            }
            Why::Reserved(worker) => format!(
                "worker {worker} is reserved for it, because it has waited long: later jobs leave enough for it"
            ),
            Why::Avoids(workers) => {
                format!("it avoids workers that it was assigned to before: {}", names(workers))
            }
            Why::KeyHeld(holder) => {
                let Blocker { job, state, .. } = holder;
                let line = blocked_by(holder, format);
                format!("its key is held by job {job} ({state}), which must end first{line}")
            }
            Why::Dependencies { first, more } => {
                let job = |Blocker { job, state, .. }: &Blocker| format!("job {job} ({state})");
                let jobs: Vec<_> = first.iter().map(job).collect();
                let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
                let lines: String = first.iter().map(|first| blocked_by(first, format)).collect();
                format!("it depends on {}{more}, which must end first{lines}", jobs.join(", "))
            }
            Why::DependenciesEnded => {
                "its dependencies have ended, and its release is being processed".to_owned()
            }
            Why::GroupCancelled(group) => format!("its group {group} is being cancelled"),
            Why::Dispatching => "it is being assigned to a worker".to_owned(),
            Why::NotAccepted(worker) => {
                format!("it is assigned to worker {worker}, which has not accepted it yet")
            }
            Why::Running(worker) => format!("worker {worker} runs it"),
            Why::Silent { worker, silent_ms, until, ends, returned } => {
                let from = if *returned { "the earlier session of " } else { "" };
                let end = if *ends { "the job ends as crashed" } else { "taken back" };
                let (s, until) = (silent_ms / 1_000, time(*until));
                format!("no heartbeat from {from}{worker} for {s} s; {end} at {until} unless it returns")
            }
            Why::Lost { attempts, most, worker, run_at } => {
                let attempts = if *attempts == 1 {
                    "1 attempt was".to_owned()
                } else {
                    format!("{attempts} attempts were")
                };
                let last = worker
                    .as_ref()
                    .map_or(String::new(), |worker| format!(", the last one on worker {worker}"));
                let again =
                    run_at.map_or(String::new(), |at| format!("; it is retried from {} on", time(at)));
                format!("{attempts} lost{last}{again}; with {most} lost attempts it ends as crashed")
            }
            Why::Cancelling(worker) => {
                format!("a cancel was requested; worker {worker} has not confirmed yet")
            }
            Why::WaitsForJobs { jobs, open } => {
                let line = |(id, state): &(JobId, StateName)| format!("\n  job {id} is {state}");
                let jobs: String = jobs.iter().map(line).collect();
                format!("it waits for its sub-jobs; {open} of them have not ended{jobs}")
            }
            Why::WaitsForRoom(worker) => format!(
                "the jobs that it waited for have ended; it continues when worker {worker} has a free slot"
            ),
            Why::TimingOut { worker, why } => {
                format!("it has timed out: {why}; worker {worker} has not confirmed yet")
            }
            Why::StorageUnavailable => {
                "the store failed to write a moment ago; matching is paused".to_owned()
            }
            Why::Paused(what) => format!("{what} is paused; resume it"),
            Why::OnHold => "it is on hold; release it".to_owned(),
            Why::Ended(ended) => ended.to_string(),
            Why::Succeeded => "it has succeeded".to_owned(),
        }
    }
}

/// Why a job that another one waits for is not running, as a line.
fn blocked_by(blocker: &Blocker, format: Format) -> String {
    let text = blocker.why.as_ref().map(|why| why.text(format)).unwrap_or_default();
    text.lines().next().map_or(String::new(), |line| format!("\n  job {}: {line}", blocker.job))
}

/// What a worker must match to take a job of this class.
fn needed(class: &Class) -> String {
    let Class { queue, job_type, needs, uses } = class;
    let mut text = format!("it needs one that runs type {job_type} in queue {queue}");
    if !needs.as_str().is_empty() {
        text += &format!(", with {needs}");
    }
    if !uses.is_empty() {
        text += &format!(", with {uses} free");
    }
    text
}

fn names(workers: &[WorkerName]) -> String {
    workers.iter().map(WorkerName::as_str).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Format::MS))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} is {}", self.id, self.state)?;
        self.why.iter().try_for_each(|why| write!(f, "\n{why}"))
    }
}
