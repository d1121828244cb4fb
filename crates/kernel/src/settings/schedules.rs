//! Schedules, kept in memory and in the store.
//!
//! A schedule is a setting, which records the time up to which its ticks were handled. The unit that creates the job
//! of a tick advances that time, guarded by the revision of the setting. So each tick has one job, regardless of other
//! nodes and restarts, and also long after the job itself was removed.

mod stored;
mod tick;

use std::ops::Bound;
use std::sync::Arc;

use jobhall_core::bounds::SCHEDULES;
use jobhall_core::{Application, JobId, NewJob, Schedule, ScheduleName, Submitted, Time};
use jobhall_store::{Conflict, Setting, SettingKind, SettingWrite, StoreError, Unit};

use crate::api::answer::Rejected;
use crate::api::request::{IdempotencyKey, Submit};
use crate::api::ticket::Ticket;
use crate::commits::settle::Pending;
use crate::kernel::{Kernel, ROUNDS};
use crate::upkeep::Deadline;

pub(crate) use tick::Tick;

/// When a schedule ticks, and the job it creates at each tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleConfig {
    /// When it ticks.
    pub schedule: Schedule,
    /// The job. It has no start time, no dependencies and no group.
    pub job: NewJob,
}

/// A schedule as shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSchedule {
    /// Its name.
    pub name: ScheduleName,
    /// How often it was configured; ticks are not counted.
    pub version: u32,
    /// Its configuration.
    pub config: Arc<ScheduleConfig>,
    /// The last tick that created a job, and that job.
    pub last: Option<(Time, JobId)>,
    /// The next tick; none while it is paused.
    pub next_tick: Option<Time>,
}

/// A schedule in the kernel's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleState {
    /// The revision in the store.
    rev: u32,
    version: u32,
    config: Arc<ScheduleConfig>,
    /// Ticks up to this time were handled.
    seen: Time,
    last: Option<(Time, JobId)>,
    /// The jobs of a tick are in flight.
    busy: bool,
    /// When it is checked next.
    armed: Option<Time>,
}

/// A change of a schedule in flight.
#[derive(Debug)]
pub(crate) struct SchedulePending {
    name: ScheduleName,
    config: Option<Arc<ScheduleConfig>>,
    expected: Option<u32>,
    by: Option<Application>,
    /// Its new state.
    kept: Option<ScheduleState>,
    pub ticket: Ticket<u32>,
    rounds: u8,
}

impl Kernel {
    pub(crate) fn learn_schedule(&mut self, setting: &Setting) -> Result<(), StoreError> {
        let kept = stored::read(setting).map_err(|why| {
            StoreError::new(format!("the stored schedule {:?} is not readable: {why}", setting.name))
        })?;
        let name = ScheduleName::new(&setting.name).map_err(|error| StoreError::new(error.to_string()))?;
        self.keep_schedule(&name, Some(kept));
        Ok(())
    }

    /// Stores or removes a schedule in memory, and waits for its next tick.
    fn keep_schedule(&mut self, name: &ScheduleName, kept: Option<ScheduleState>) {
        let before = match kept {
            Some(kept) => self.settings.schedules.insert(name.clone(), kept),
            None => self.settings.schedules.remove(name),
        };
        if let Some(at) = before.and_then(|before| before.armed) {
            self.deadlines.clear(Deadline::Tick(at, name.clone()));
        }
        let seen = self.settings.schedules.get(name).map(|kept| kept.seen);
        if let Some(seen) = seen {
            self.arm_schedule(name, seen);
        }
    }

    /// Waits for the first tick after this moment.
    fn arm_schedule(&mut self, name: &ScheduleName, after: Time) {
        let Some(kept) = self.settings.schedules.get(name).filter(|kept| !kept.busy) else { return };
        let schedule = &kept.config.schedule;
        let tick = if schedule.paused { None } else { schedule.next_tick(after) };
        self.look_at_schedule(name, tick);
    }

    fn look_at_schedule(&mut self, name: &ScheduleName, at: Option<Time>) {
        let Some(kept) = self.settings.schedules.get_mut(name) else { return };
        if let Some(before) = kept.armed.take() {
            self.deadlines.clear(Deadline::Tick(before, name.clone()));
        }
        kept.armed = at;
        if let Some(at) = at {
            self.deadlines.set(Deadline::Tick(at, name.clone()));
        }
    }

    pub(crate) fn schedules(&self, after: Option<&ScheduleName>, limit: usize) -> Vec<ShownSchedule> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let known = self.settings.schedules.range::<ScheduleName, _>((from, Bound::Unbounded));
        known.take(limit).map(|(name, kept)| self.shown_schedule(name, kept)).collect()
    }

    pub(crate) fn schedule(&self, name: &ScheduleName) -> Option<ShownSchedule> {
        self.settings.schedules.get(name).map(|kept| self.shown_schedule(name, kept))
    }

    fn shown_schedule(&self, name: &ScheduleName, kept: &ScheduleState) -> ShownSchedule {
        let schedule = &kept.config.schedule;
        let next = || schedule.next_tick(kept.seen.max(self.env.wall()));
        ShownSchedule {
            name: name.clone(),
            version: kept.version,
            config: kept.config.clone(),
            last: kept.last,
            next_tick: if schedule.paused { None } else { next() },
        }
    }

    pub(crate) fn set_schedule(
        &mut self,
        name: ScheduleName,
        config: Option<Arc<ScheduleConfig>>,
        expected: Option<u32>,
        by: Option<Application>,
        ticket: Ticket<u32>,
        rounds: u8,
    ) {
        let before = self.settings.schedules.get(&name);
        let version = before.map_or(0, |kept| kept.version);
        let types =
            before.map(|kept| &kept.config).into_iter().chain(&config).map(|config| &config.job.job_type);
        let allowed = types.into_iter().try_for_each(|job_type| self.settings.check_type(by, job_type));
        let checked = config.as_deref().map_or(Ok(()), |config| self.check_schedule(config, version == 0));
        if let Err(refused) = allowed.and(checked) {
            return self.answer(ticket, Err(refused));
        }
        if rounds > ROUNDS {
            return self.answer(ticket, Err(Rejected::Contended));
        }
        if expected.is_some_and(|expected| expected != version) {
            return self.answer(ticket, Err(Rejected::ScheduleChanged { name, version }));
        }
        if config.is_none() && before.is_none() {
            return self.answer(ticket, Ok(0));
        }
        let rev = before.map_or(0, |kept| kept.rev);
        let kept = config.clone().map(|config| self.configured(before, config));
        let write = stored::write(&name, rev, kept.as_ref());
        let pending = SchedulePending { name, config, expected, by, kept, ticket, rounds };
        self.send(Unit { settings: vec![write], ..Unit::default() }, Pending::Schedule(Box::new(pending)));
    }

    fn check_schedule(&self, config: &ScheduleConfig, new: bool) -> Result<(), Rejected> {
        config.schedule.check()?;
        self.settings.check_job(&config.job)?;
        let NewJob { run_at, after, group, copy_of, retry_of, .. } = &config.job;
        let misplaced = [
            ("run_at", run_at.is_some()),
            ("after", !after.is_empty()),
            ("group", group.is_some()),
            ("copy_of", copy_of.is_some()),
            ("retry_of", retry_of.is_some()),
        ];
        if let Some((field, _)) = misplaced.into_iter().find(|(_, given)| *given) {
            return Err(Rejected::NotScheduled(field));
        }
        if new && self.settings.schedules.len() >= SCHEDULES {
            return Err(Rejected::SchedulesFull(SCHEDULES));
        }
        Ok(())
    }

    /// Returns a schedule with another configuration. If its times have changed or it was paused, it starts from now:
    /// ticks it would have had are not made. It never goes back before the ticks that were handled.
    fn configured(&self, before: Option<&ScheduleState>, config: Arc<ScheduleConfig>) -> ScheduleState {
        let now = self.env.wall();
        let goes_on = |kept: &&ScheduleState| {
            let (was, is) = (&kept.config.schedule, &config.schedule);
            was.when == is.when && was.zone == is.zone && !was.paused
        };
        let seen = match before {
            Some(kept) if goes_on(&kept) => kept.seen,
            Some(kept) => kept.seen.max(now),
            None => now,
        };
        ScheduleState {
            rev: before.map_or(0, |kept| kept.rev) + 1,
            version: before.map_or(0, |kept| kept.version) + 1,
            config,
            seen,
            last: before.and_then(|kept| kept.last),
            busy: false,
            armed: None,
        }
    }

    pub(crate) fn schedule_stored(&mut self, pending: SchedulePending) {
        let SchedulePending { name, kept, ticket, .. } = pending;
        let version = kept.as_ref().map_or(0, |kept| kept.version);
        self.keep_schedule(&name, kept);
        self.answer(ticket, Ok(version));
    }

    pub(crate) fn schedule_conflicted(&mut self, pending: SchedulePending, conflicts: Vec<Conflict>) {
        let SchedulePending { name, config, expected, by, ticket, rounds, .. } = pending;
        if let Err(refused) = self.learn_conflicting(&name, conflicts) {
            return self.answer(ticket, Err(refused));
        }
        self.set_schedule(name, config, expected, by, ticket, rounds + 1);
    }

    /// Applies what the store returned about a schedule.
    fn learn_conflicting(&mut self, name: &ScheduleName, conflicts: Vec<Conflict>) -> Result<(), Rejected> {
        conflicts.into_iter().try_for_each(|conflict| match conflict {
            Conflict::Setting { stored, .. } => self.learn_stored(name, stored),
            _ => Ok(()),
        })
    }

    pub(crate) fn learn_stored(
        &mut self,
        name: &ScheduleName,
        stored: Option<Setting>,
    ) -> Result<(), Rejected> {
        let Some(setting) = stored else {
            self.keep_schedule(name, None);
            return Ok(());
        };
        let unreadable = |error: StoreError| Rejected::Storage { full: false, message: error.to_string() };
        self.learn_schedule(&setting).map_err(unreadable)
    }

    /// Creates the job of a schedule now. This is not a tick and does not change the schedule.
    pub(crate) fn run_schedule(
        &mut self,
        name: &ScheduleName,
        key: Option<IdempotencyKey>,
        ticket: Ticket<Vec<Submitted>>,
    ) {
        let Some(kept) = self.settings.schedules.get(name) else {
            return self.answer(ticket, Err(Rejected::NoSuchSchedule(name.clone())));
        };
        let job = NewJob { schedule: Some(name.clone()), ..kept.config.job.clone() };
        // Whoever set the schedule was allowed to.
        let by = self.settings.application_of(&job.job_type);
        self.submit(Submit { jobs: vec![job], name: key, by, ..Submit::default() }, ticket);
    }
}

impl ScheduleState {
    /// The state after its ticks up to this one were handled.
    fn after(&self, tick: Time, made: Option<JobId>) -> ScheduleState {
        let last = made.map(|id| (tick, id)).or(self.last);
        ScheduleState { rev: self.rev + 1, seen: tick, last, busy: false, armed: None, ..self.clone() }
    }
}

fn setting(name: &ScheduleName, expected: u32, value: Option<String>) -> SettingWrite {
    SettingWrite { kind: SettingKind::Schedule, name: name.as_str().to_owned(), expected, value }
}
