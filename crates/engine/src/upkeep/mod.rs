//! Upkeep: what happens because time passes. Every service has the same shape: it says when it is next due, and it
//! is run when that moment has come. Nothing polls; the driver sleeps until the earliest moment.

mod aging;
mod attempts;
mod blocks;
mod due;
mod external;
mod followers;
mod limits;
mod recovery;
mod retention;
mod schedules;
mod sessions;
mod timeouts;
mod vacancies;
mod waits;
mod windows;

use std::collections::BTreeSet;

use jobhall_core::{JobId, ScheduleName, Time};

use crate::board::ClassId;
use crate::clock::{Mono, Now};
use crate::config::Config;
use crate::effect::{SessionId, Ticket, VacancyId};
use crate::kernel::Kernel;

pub(crate) use due::run as make_due;

/// A moment on one of the two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// On the monotonic clock.
    Mono(Mono),
    /// On the wall clock.
    Wall(Time),
}

impl Wake {
    /// Milliseconds from now, 0 if the moment has come.
    pub fn in_ms(self, now: Now) -> u64 {
        match self {
            Wake::Mono(at) => at.0.saturating_sub(now.mono.0),
            Wake::Wall(at) => at.since(now.wall),
        }
    }
}

/// One duty of the hall.
pub struct Service {
    /// What people call it.
    pub name: &'static str,
    next: fn(&Kernel) -> Option<Wake>,
    run: fn(&mut Kernel),
}

/// All duties.
pub const SERVICES: [Service; 15] = [
    aging::SERVICE,
    attempts::SERVICE,
    timeouts::SERVICE,
    external::SERVICE,
    waits::SERVICE,
    sessions::SERVICE,
    vacancies::SERVICE,
    windows::SERVICE,
    due::SERVICE,
    followers::SERVICE,
    schedules::SERVICE,
    limits::SERVICE,
    recovery::SERVICE,
    blocks::SERVICE,
    retention::SERVICE,
];

/// When which duty is due.
#[derive(Debug)]
pub(crate) struct Deadlines {
    /// Live attempts that are not accepted or not stored yet.
    pub checks: BTreeSet<(Mono, JobId)>,
    /// Live attempts whose time will be over.
    pub timeouts: BTreeSet<(Mono, JobId)>,
    /// Jobs whose outcome is to come from outside.
    pub external: BTreeSet<(Time, JobId)>,
    /// Who waits to hear that an attempt goes on.
    pub waits: BTreeSet<(Mono, JobId, Ticket)>,
    pub sessions: BTreeSet<(Mono, SessionId)>,
    pub vacancies: BTreeSet<(Mono, VacancyId)>,
    /// Queued jobs whose time has not come.
    pub due: BTreeSet<(Time, JobId)>,
    /// Ready jobs, by the moment at which their windows close.
    pub closing: BTreeSet<(Time, JobId)>,
    /// Schedules, by their next tick.
    pub ticks: BTreeSet<(Time, ScheduleName)>,
    /// The wall clock when duties were last run.
    pub ticked_at: Time,
    /// Classes whose first job may have waited long, and the same by class.
    pub aging: BTreeSet<(Mono, ClassId)>,
    pub aged: BTreeSet<ClassId>,
    pub blocks_at: Mono,
    pub retention: retention::Walk,
}

impl Deadlines {
    pub fn new(now: Now, config: &Config) -> Deadlines {
        Deadlines {
            checks: BTreeSet::new(),
            timeouts: BTreeSet::new(),
            external: BTreeSet::new(),
            waits: BTreeSet::new(),
            sessions: BTreeSet::new(),
            vacancies: BTreeSet::new(),
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
    /// Runs every duty whose moment has come.
    pub fn tick(&mut self, now: Now) {
        self.now = now;
        if now.wall < std::mem::replace(&mut self.deadlines.ticked_at, now.wall) {
            self.look_at_windows_again();
        }
        for service in &SERVICES {
            if self.stopped.is_none() && (service.next)(self).is_some_and(|wake| wake.in_ms(now) == 0) {
                (service.run)(self);
            }
        }
        self.carry_on();
    }

    /// Milliseconds until the next duty, none if there is none.
    pub fn next_tick_ms(&self, now: Now) -> Option<u64> {
        let wakes = SERVICES.iter().filter_map(|service| (service.next)(self));
        wakes.map(|wake| wake.in_ms(now)).min().filter(|_| self.stopped.is_none())
    }
}
