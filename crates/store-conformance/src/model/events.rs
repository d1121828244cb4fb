//! Turns a sketch into an event, given the job it applies to.

use jobhall_core::{Dice, Event, Failure, Job, Json, LeaseId, Report, State, Time, Verdict, When};

use super::operation::{Shape, Sketch};
use crate::samples::{claim, failure};

/// An event with the data it borrows.
pub(super) enum Happening {
    Claim(u128),
    Accept(LeaseId),
    Progress(LeaseId),
    Report(LeaseId, Report),
    TakeBack,
    LeaseEnd,
    Cancel(Failure),
    Again(Json),
    Release,
    Met,
    Cascaded(Failure, bool),
    Wait(LeaseId),
    Resume,
    Start(LeaseId, Time),
    Tell(Report),
    TimeOut(Failure, bool),
    Hold(bool),
    Edit(Time),
}

impl Happening {
    pub(super) fn event<'a>(&'a self, job: &'a Job) -> Event<'a> {
        let now = job.status.claim;
        match self {
            Happening::Claim(lease) => claim(*lease, "w"),
            Happening::Accept(lease) => Event::Accept { claim: now, lease: *lease },
            Happening::Progress(lease) => Event::Progress { claim: now, lease: *lease },
            Happening::Report(lease, report) => {
                let retry = &job.spec.retry;
                Event::Report { claim: now, lease: *lease, report, retry, dice: Dice(0) }
            }
            Happening::TakeBack => Event::TakeBack,
            Happening::LeaseEnd => Event::LeaseEnd { retry: &job.spec.retry },
            Happening::Cancel(failure) => Event::Cancel(failure),
            Happening::Again(params) => Event::Again(params),
            Happening::Release => Event::KeyFreed,
            Happening::Met => Event::DependenciesMet,
            Happening::Cascaded(failure, cancelled) => {
                Event::DependencyFailed { failure, cancelled: *cancelled }
            }
            Happening::Wait(lease) => Event::Wait { claim: now, lease: *lease },
            Happening::Resume => Event::Resume,
            Happening::Start(lease, until) => {
                let retry = &job.spec.retry;
                Event::StartedExternal { claim: now, lease: *lease, until: *until, retry, dice: Dice(0) }
            }
            Happening::Tell(report) => {
                let retry = &job.spec.retry;
                Event::Complete { attempt: None, report, retry, dice: Dice(0) }
            }
            Happening::TimeOut(failure, forced) => {
                let retry = &job.spec.retry;
                Event::TimeOut { failure, retry, dice: Dice(0), forced: *forced }
            }
            Happening::Hold(true) => Event::Hold,
            Happening::Hold(false) => Event::Release,
            Happening::Edit(run_at) => Event::Edit { run_at: Some(*run_at) },
        }
    }
}

/// The event for this job, if the shape is an event that its state permits.
pub(super) fn happening(job: &Job, sketch: &Sketch) -> Option<Happening> {
    let state = &job.status.state;
    let lease = || state.leased().map(|held| held.lease.id);
    match sketch.shape {
        Shape::Claim => {
            matches!(state, State::Queued(_)).then(|| Happening::Claim(u128::from(sketch.dice) << 32 | 1))
        }
        Shape::Accept => Some(Happening::Accept(lease()?)),
        Shape::Progress => Some(Happening::Progress(lease()?)),
        Shape::Pass => Some(Happening::Report(lease()?, success(sketch.dice))),
        Shape::Fail => Some(Happening::Report(lease()?, defeat(sketch.dice))),
        Shape::TakeBack => matches!(state, State::Assigned(_)).then_some(Happening::TakeBack),
        Shape::LeaseEnd => lease().map(|_| Happening::LeaseEnd),
        Shape::Cancel => (!state.is_terminal()).then(|| Happening::Cancel(failure("cancelled"))),
        Shape::Again => (!state.is_terminal()).then(|| Happening::Again(number(sketch.dice))),
        Shape::Release => matches!(state, State::Blocked(_)).then_some(Happening::Release),
        Shape::Met => matches!(state, State::Blocked(_)).then_some(Happening::Met),
        Shape::Cascaded => {
            let taken = Happening::Cascaded(failure("dependency_failed"), sketch.dice & 1 == 0);
            matches!(state, State::Blocked(_)).then_some(taken)
        }
        Shape::Wait => Some(Happening::Wait(lease()?)),
        Shape::Resume => matches!(state, State::Waiting(_)).then_some(Happening::Resume),
        Shape::Start => {
            let until = job.status.updated_at.plus_ms(u64::from(sketch.dice >> 8) % 500);
            Some(Happening::Start(lease()?, until))
        }
        Shape::Tell => Some(Happening::Tell(told(sketch.dice))),
        Shape::TimeOut => Some(Happening::TimeOut(failure("timed_out"), sketch.dice & 1 == 0)),
        Shape::Hold => Some(Happening::Hold(!job.status.hold)),
        Shape::Edit => Some(Happening::Edit(job.status.updated_at.plus_ms(u64::from(sketch.dice) % 900))),
        _ => None,
    }
}

fn told(dice: u32) -> Report {
    if dice & 2 == 0 { success(dice >> 2) } else { defeat(dice >> 2) }
}

fn number(dice: u32) -> Json {
    Json::params(&dice.to_string()).expect("a number is JSON")
}

fn success(dice: u32) -> Report {
    let value = ["null", "false", "0", "\"\"", "{\"a\":[1,2.0]}"][dice as usize % 5];
    let value = Json::value(value).expect("valid JSON");
    if dice.is_multiple_of(7) { Report::Skipped(value) } else { Report::Succeeded(value) }
}

fn defeat(dice: u32) -> Report {
    let data = dice.is_multiple_of(3).then(|| number(dice));
    let failure = Failure { data, ..failure("no") };
    let when = [None, Some(When::Never), Some(When::Now), Some(When::In(30)), Some(When::Snooze(70))];
    let params = (dice & 0x100 == 0).then(|| number(dice));
    let verdict = when[(dice >> 4) as usize % 5].map(|when| Verdict { when, params });
    match dice % 4 {
        0 => Report::Crashed(failure, verdict),
        1 => Report::TimedOut(failure, verdict),
        2 => Report::Failed(failure, verdict),
        _ => Report::Cancelled,
    }
}
