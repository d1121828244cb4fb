//! The jobs of ticks. They are submitted like any others, with the schedule's setting in the same unit.

use jobhall_core::schedule::Overlap;
use jobhall_core::{JobId, NewJob, ScheduleName, Submitted, Time};
use jobhall_store::{Conflict, SettingWrite, Unit};

use super::{ScheduleState, stored};
use crate::api::answer::Rejected;
use crate::commits::settle::Pending;
use crate::kernel::Kernel;

/// Ticks of a schedule in flight.
#[derive(Clone, Debug)]
pub(crate) struct Tick {
    pub name: ScheduleName,
    /// The schedule as it was when the ticks were decided.
    kept: ScheduleState,
    /// The last of them.
    at: Time,
}

impl Tick {
    /// The schedule's setting, with the job of the last tick.
    pub fn write(&self, submitted: &[Submitted]) -> SettingWrite {
        stored::write(&self.name, self.kept.rev, Some(&self.kept.after(self.at, made(submitted))))
    }
}

fn made(submitted: &[Submitted]) -> Option<JobId> {
    submitted.last().map(|submitted| submitted.id)
}

impl Kernel {
    /// A schedule is due: its ticks get their jobs, or are skipped.
    pub(crate) fn tick_of(&mut self, name: &ScheduleName) {
        let Some(kept) = self.settings.schedules.get_mut(name) else { return };
        kept.armed = None;
        if kept.busy || kept.config.schedule.paused {
            return;
        }
        let kept = kept.clone();
        let now = self.env.wall();
        let mut ticks = kept.config.schedule.due(kept.seen, now);
        let Some(&at) = ticks.last() else {
            return self.arm_schedule(name, kept.seen.max(now));
        };
        let skips = kept.config.schedule.overlap == Overlap::Skip;
        if skips && kept.last.is_some_and(|(_, id)| self.jobs.contains(id)) {
            return self.pass_ticks(Tick { name: name.clone(), kept, at });
        }
        // The job of an earlier tick would conflict with the later ones, or be their answer.
        if skips || kept.config.job.key.is_some() {
            ticks = vec![at];
        }
        let jobs = ticks.iter().map(|&tick| job_of(name, &kept, tick)).collect();
        self.submit_ticks(jobs, Tick { name: name.clone(), kept, at });
    }

    /// Marks that ticks are in flight; nothing else is created for the schedule meanwhile.
    pub(crate) fn hold_schedule(&mut self, name: &ScheduleName) {
        if let Some(kept) = self.settings.schedules.get_mut(name) {
            kept.busy = true;
        }
    }

    /// Records ticks without a job as handled: they are not made up for later.
    fn pass_ticks(&mut self, tick: Tick) {
        self.hold_schedule(&tick.name);
        let unit = Unit { settings: vec![tick.write(&[])], ..Unit::default() };
        self.send(unit, Pending::Ticks(Box::new(tick)));
    }

    pub(crate) fn ticks_passed(&mut self, tick: &Tick) {
        let kept = tick.kept.after(tick.at, None);
        self.keep_schedule(&tick.name, Some(kept));
    }

    pub(crate) fn ticks_conflicted(&mut self, tick: &Tick, conflicts: Vec<Conflict>) {
        // If the setting cannot be read, the schedule in memory is kept.
        let _ = self.learn_conflicting(&tick.name, conflicts);
        self.ticks_undone(&tick.name);
    }

    /// Handles the result of the jobs of ticks.
    pub(crate) fn ticked(&mut self, tick: Tick, answer: Result<Vec<Submitted>, Rejected>) {
        match answer {
            Ok(submitted) => {
                let kept = tick.kept.after(tick.at, made(&submitted));
                self.keep_schedule(&tick.name, Some(kept));
            }
            // Another job has the key, and the schedule does not allow joining it.
            Err(Rejected::KeyHeld { .. }) => self.pass_ticks(tick),
            Err(_) => self.ticks_undone(&tick.name),
        }
    }

    /// Nothing was written: the schedule is checked again, unless it was reloaded meanwhile.
    pub(crate) fn ticks_undone(&mut self, name: &ScheduleName) {
        if self.free_schedule(name) {
            self.look_later(name);
        }
    }

    /// Checks a schedule again after a pause.
    pub(crate) fn look_later(&mut self, name: &ScheduleName) {
        let later = self.env.wall().plus_ms(self.env.config().storage_rest_ms.max(1));
        self.look_at_schedule(name, Some(later));
    }

    /// Marks that nothing is in flight any more; returns whether something was.
    pub(crate) fn free_schedule(&mut self, name: &ScheduleName) -> bool {
        self.settings.schedules.get_mut(name).is_some_and(|kept| std::mem::take(&mut kept.busy))
    }
}

fn job_of(name: &ScheduleName, kept: &ScheduleState, tick: Time) -> NewJob {
    let start = kept.config.schedule.start_of(name, tick);
    NewJob { run_at: Some(start), schedule: Some(name.clone()), ..kept.config.job.clone() }
}
