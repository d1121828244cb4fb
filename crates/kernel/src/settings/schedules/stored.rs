//! The stored form of a schedule. Fields added later have defaults, so that older settings can still be read.

use std::sync::Arc;

use jobhall_core::schedule::{CatchUp, Overlap};
use jobhall_core::{Cron, JobId, NewJob, Rhythm, Schedule, ScheduleName, Time, Zone};
use jobhall_store::{Setting, SettingWrite};
use serde::{Deserialize, Serialize};

use super::{ScheduleConfig, ScheduleState, setting};

/// Why a setting could not be read.
type Fault = String;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    when: When,
    zone: String,
    jitter_ms: u64,
    catch_up: CatchUp,
    overlap: Overlap,
    paused: bool,
    job: NewJob,
    /// Ticks up to this time were handled.
    seen_ms: i64,
    /// The last tick that created a job, and that job.
    last: Option<(i64, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum When {
    Cron(String),
    Every { ms: u64, anchor_ms: i64 },
}

pub(super) fn write(name: &ScheduleName, expected: u32, kept: Option<&ScheduleState>) -> SettingWrite {
    let value = kept.map(|kept| serde_json::to_string(&Stored::of(kept)).expect("a schedule is plain data"));
    setting(name, expected, value)
}

pub(super) fn read(setting: &Setting) -> Result<ScheduleState, Fault> {
    let stored: Stored = serde_json::from_str(&setting.value).map_err(fault)?;
    let last = stored.last.map(|(tick, id)| Ok::<_, Fault>((time(tick)?, JobId::new(id).map_err(fault)?)));
    Ok(ScheduleState {
        rev: setting.rev,
        version: stored.version,
        seen: time(stored.seen_ms)?,
        last: last.transpose()?,
        config: Arc::new(stored.config()?),
        busy: false,
        armed: None,
    })
}

fn fault(error: impl std::fmt::Display) -> Fault {
    error.to_string()
}

fn time(ms: i64) -> Result<Time, Fault> {
    Time::from_ms(ms).map_err(fault)
}

impl Stored {
    fn of(kept: &ScheduleState) -> Stored {
        let ScheduleConfig { schedule, job } = &*kept.config;
        Stored {
            version: kept.version,
            when: match &schedule.when {
                Rhythm::Cron(cron) => When::Cron(cron.as_str().to_owned()),
                Rhythm::Every { ms, anchor } => When::Every { ms: *ms, anchor_ms: anchor.as_ms() },
            },
            zone: schedule.zone.as_str().to_owned(),
            jitter_ms: schedule.jitter_ms,
            catch_up: schedule.catch_up,
            overlap: schedule.overlap,
            paused: schedule.paused,
            job: job.clone(),
            seen_ms: kept.seen.as_ms(),
            last: kept.last.map(|(tick, id)| (tick.as_ms(), id.get())),
        }
    }

    fn config(self) -> Result<ScheduleConfig, Fault> {
        let when = match self.when {
            When::Cron(line) => Rhythm::Cron(Cron::parse(&line).map_err(fault)?),
            When::Every { ms, anchor_ms } => Rhythm::Every { ms, anchor: time(anchor_ms)? },
        };
        let schedule = Schedule {
            when,
            zone: Zone::new(&self.zone).map_err(fault)?,
            jitter_ms: self.jitter_ms,
            catch_up: self.catch_up,
            overlap: self.overlap,
            paused: self.paused,
        };
        Ok(ScheduleConfig { schedule, job: self.job })
    }
}
