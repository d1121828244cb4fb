//! Upkeep: work caused by the passing of time. Every service has the same shape: it returns when it is next due, and
//! it is run at that time. Nothing polls; the driver sleeps until the earliest due time.

mod aging;
mod attempts;
mod avoided;
mod blocks;
mod due;
mod external;
mod floors;
mod kept;
mod limits;
mod recovery;
mod releases;
mod retention;
mod schedules;
mod segments;
mod sessions;
#[cfg(test)]
mod tests;
mod timeouts;
mod vacancies;
mod waits;
mod windows;

use std::collections::BTreeSet;

use jobhall_core::{JobId, ScheduleName, Time};

use crate::api::answer::Waited;
use crate::api::config::Config;
use crate::api::effect::{SessionId, VacancyId};
use crate::api::ticket::Ticket;
use crate::api::time::{Mono, Now};
use crate::kernel::Kernel;
use crate::matching::board::ClassId;

pub(crate) use due::run as make_due;
pub(crate) use kept::CountOf;

/// A point in time on one of the two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// On the monotonic clock.
    Mono(Mono),
    /// On the wall clock.
    Wall(Time),
}

impl Wake {
    /// Milliseconds from now, 0 if the time has come.
    pub fn in_ms(self, now: Now) -> u64 {
        match self {
            Wake::Mono(at) => at.0.saturating_sub(now.mono.0),
            Wake::Wall(at) => at.since(now.wall),
        }
    }
}

/// An upkeep service.
pub struct Service {
    /// Its name.
    pub name: &'static str,
    next: fn(&Kernel) -> Option<Wake>,
    run: fn(&mut Kernel),
}

/// All services.
pub const SERVICES: [Service; 16] = [
    aging::SERVICE,
    attempts::SERVICE,
    timeouts::SERVICE,
    external::SERVICE,
    waits::SERVICE,
    sessions::SERVICE,
    vacancies::SERVICE,
    windows::SERVICE,
    due::SERVICE,
    releases::SERVICE,
    schedules::SERVICE,
    limits::SERVICE,
    avoided::SERVICE,
    recovery::SERVICE,
    blocks::SERVICE,
    retention::SERVICE,
];

/// The due times of the services.
#[derive(Debug)]
pub(crate) struct Deadlines {
    /// Live attempts that are not accepted or not stored yet.
    checks: BTreeSet<(Mono, JobId)>,
    /// Live attempts, by the end of their time limit.
    timeouts: BTreeSet<(Mono, JobId)>,
    /// Jobs that wait for an outcome from outside.
    external: BTreeSet<(Time, JobId)>,
    /// Requests that wait for an attempt to resume.
    waits: BTreeSet<(Mono, JobId, Ticket<Waited>)>,
    sessions: BTreeSet<(Mono, SessionId)>,
    vacancies: BTreeSet<(Mono, VacancyId)>,
    /// Jobs that wait for a worker that they do not avoid.
    avoided: BTreeSet<(Mono, JobId)>,
    /// Queued jobs that are not due yet.
    due: BTreeSet<(Time, JobId)>,
    /// Ready jobs, by the time at which their windows close.
    closing: BTreeSet<(Time, JobId)>,
    /// Schedules, by their next tick.
    ticks: BTreeSet<(Time, ScheduleName)>,
    /// The wall clock when services were last run.
    ticked_at: Time,
    /// Classes whose first job may have waited long, by time; and the same by class.
    aging: BTreeSet<(Mono, ClassId)>,
    aged: BTreeSet<ClassId>,
    blocks_at: Mono,
    retention: retention::Walk,
}

/// Something that is due at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// A live attempt is to be accepted or stored.
    Check(Mono, JobId),
    /// The time limit of a live attempt ends.
    Timeout(Mono, JobId),
    /// The outcome of external work is to be reported.
    External(Time, JobId),
    /// A request has waited long enough for an attempt to resume.
    Wait(Mono, JobId, Ticket<Waited>),
    Session(Mono, SessionId),
    Vacancy(Mono, VacancyId),
    /// A job has waited long enough for a worker that it does not avoid.
    Avoided(Mono, JobId),
    /// A queued job becomes ready.
    Due(Time, JobId),
    /// The windows of a ready job close.
    Closing(Time, JobId),
    /// The next tick of a schedule.
    Tick(Time, ScheduleName),
}

impl Deadlines {
    pub fn set(&mut self, deadline: Deadline) {
        match deadline {
            Deadline::Check(at, id) => self.checks.insert((at, id)),
            Deadline::Timeout(at, id) => self.timeouts.insert((at, id)),
            Deadline::External(at, id) => self.external.insert((at, id)),
            Deadline::Wait(at, id, ticket) => self.waits.insert((at, id, ticket)),
            Deadline::Session(at, id) => self.sessions.insert((at, id)),
            Deadline::Vacancy(at, id) => self.vacancies.insert((at, id)),
            Deadline::Avoided(at, id) => self.avoided.insert((at, id)),
            Deadline::Due(at, id) => self.due.insert((at, id)),
            Deadline::Closing(at, id) => self.closing.insert((at, id)),
            Deadline::Tick(at, name) => self.ticks.insert((at, name)),
        };
    }

    /// Removes a deadline, if it is still ahead.
    pub fn clear(&mut self, deadline: Deadline) {
        match deadline {
            Deadline::Check(at, id) => self.checks.remove(&(at, id)),
            Deadline::Timeout(at, id) => self.timeouts.remove(&(at, id)),
            Deadline::External(at, id) => self.external.remove(&(at, id)),
            Deadline::Wait(at, id, ticket) => self.waits.remove(&(at, id, ticket)),
            Deadline::Session(at, id) => self.sessions.remove(&(at, id)),
            Deadline::Vacancy(at, id) => self.vacancies.remove(&(at, id)),
            Deadline::Avoided(at, id) => self.avoided.remove(&(at, id)),
            Deadline::Due(at, id) => self.due.remove(&(at, id)),
            Deadline::Closing(at, id) => self.closing.remove(&(at, id)),
            Deadline::Tick(at, name) => self.ticks.remove(&(at, name)),
        };
    }

    /// Jobs whose windows matter: those that wait for an opening, and those whose windows will close.
    pub fn windowed(&self) -> impl Iterator<Item = JobId> + '_ {
        self.due.iter().chain(&self.closing).map(|&(_, id)| id)
    }

    pub fn new(now: Now, config: &Config) -> Deadlines {
        Deadlines {
            checks: BTreeSet::new(),
            timeouts: BTreeSet::new(),
            external: BTreeSet::new(),
            waits: BTreeSet::new(),
            sessions: BTreeSet::new(),
            vacancies: BTreeSet::new(),
            avoided: BTreeSet::new(),
            due: BTreeSet::new(),
            closing: BTreeSet::new(),
            ticks: BTreeSet::new(),
            ticked_at: now.wall,
            aging: BTreeSet::new(),
            aged: BTreeSet::new(),
            blocks_at: now.mono,
            retention: retention::Walk::at(now.mono.plus_ms(config.retention_ms)),
        }
    }
}

impl Kernel {
    /// Runs every service that is due.
    pub fn tick(&mut self, now: Now) {
        self.env.set_now(now);
        if now.wall < std::mem::replace(&mut self.deadlines.ticked_at, now.wall) {
            self.look_at_windows_again();
            self.drain();
        }
        for service in &SERVICES {
            if self.commits.stopped().is_none()
                && (service.next)(self).is_some_and(|wake| wake.in_ms(now) == 0)
            {
                (service.run)(self);
                self.drain();
            }
        }
        self.finish_step();
    }

    /// Milliseconds until the next service is due, none if there is none.
    pub fn next_tick_ms(&self, now: Now) -> Option<u64> {
        let wakes = SERVICES.iter().filter_map(|service| (service.next)(self));
        wakes.map(|wake| wake.in_ms(now)).min().filter(|_| self.commits.stopped().is_none())
    }
}
