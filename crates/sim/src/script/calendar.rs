//! Windows and schedules of a run, and an independent model of when a window is open: minutes of the day, written
//! by hand, without the grammar or time zones.
//!
//! They are drawn separately from the rest of the script, so that a run without them is unchanged.

use std::sync::Arc;

use jobhall_core::schedule::{CatchUp, Overlap};
use jobhall_core::{Job, JobSpec, Json, NewJob, Rhythm, Schedule, ScheduleName, Time, Windows, Zone};
use jobhall_kernel::ScheduleConfig;
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::script::words;
use crate::script::{Action, Wanted};

/// When jobs may start; a run begins at 22:13:20.
const WINDOWS: [&str; 4] = ["", "22:14-22:15 UTC, 22:16-22:18", "22:15-22:14 UTC", "12:00-12:30 UTC"];
/// The same as minutes of the day, from and to.
const MINUTES: [&[(i64, i64)]; 4] =
    [&[(0, 1_440)], &[(1_334, 1_335), (1_336, 1_338)], &[(0, 1_334), (1_335, 1_440)], &[(720, 750)]];
const MINUTE_MS: i64 = 60_000;
const DAY: i64 = 1_440;

/// Maximum number of schedules in a run.
pub(crate) const SCHEDULES: usize = 2;

pub(crate) fn schedule_name(at: usize) -> ScheduleName {
    ScheduleName::new(&format!("s{at}")).expect("a short name")
}

pub(crate) fn windows(at: usize) -> Windows {
    Windows::parse(WINDOWS[at]).expect("constant windows")
}

fn open_in(at: usize, minute: i64) -> bool {
    MINUTES[at].iter().any(|&(from, to)| (from..to).contains(&minute.rem_euclid(DAY)))
}

fn of(spec: &JobSpec) -> usize {
    WINDOWS.iter().position(|text| *text == spec.windows.as_str()).unwrap_or(0)
}

/// Whether a job may start at this time.
pub(crate) fn open(spec: &JobSpec, wall: Time) -> bool {
    open_in(of(spec), wall.as_ms() / MINUTE_MS)
}

/// When a waiting job starts, as of now: not before its time, and not outside its windows. If it missed a window it
/// starts in the current one.
pub(crate) fn start_of(job: &Job, now: Time) -> Time {
    let (at, run_at) = (of(&job.spec), job.status.run_at);
    let start = run_at.max(now);
    let minute = start.as_ms() / MINUTE_MS;
    let begin_of = |minute: i64| Time::from_ms(minute * MINUTE_MS).unwrap_or(Time::END);
    if at == 0 {
        run_at
    } else if !open_in(at, minute) {
        (minute..minute + DAY).find(|&minute| open_in(at, minute)).map_or(Time::END, begin_of)
    } else if run_at <= now {
        let opened = (minute - DAY..=minute).rfind(|&minute| open_in(at, minute) && !open_in(at, minute - 1));
        run_at.max(opened.map_or(Time::EPOCH, begin_of))
    } else {
        run_at
    }
}

/// A schedule that a client wants.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Wish {
    every_ms: u64,
    catch_up: CatchUp,
    overlap: Overlap,
    paused: bool,
    keyed: bool,
}

impl Wish {
    pub fn config(self, at: usize) -> Arc<ScheduleConfig> {
        let schedule = Schedule {
            when: Rhythm::Every { ms: self.every_ms, anchor: Time::EPOCH },
            zone: Zone::default(),
            jitter_ms: 0,
            catch_up: self.catch_up,
            overlap: self.overlap,
            paused: self.paused,
        };
        let params = Json::params(&format!("{{\"of\":{at}}}")).expect("plain JSON");
        let key = self.keyed.then(|| words::key(at));
        let job = NewJob { key, params, ..NewJob::new(words::type_name(at)) };
        Arc::new(ScheduleConfig { schedule, job })
    }
}

/// Adds windows and schedules to the actions.
pub(crate) fn write(seed: u64, actions: &mut Vec<(u64, Action)>) {
    for (_, action) in actions.iter_mut() {
        if let Action::Submit { jobs, .. } = action {
            jobs.iter_mut().for_each(|job| job.windows = windows_of(seed, job));
        }
    }
    let mut random = Random::named(seed, &[79]);
    let last = actions.last().map_or(0, |(at, _)| *at);
    for _ in 0..random.weighted(&[(4, 0), (3, 1), (3, 3), (1, 6)]) {
        let at = random.below(last + 1);
        let action = schedule(&mut random);
        let place = actions.partition_point(|(other, _)| *other <= at);
        actions.insert(place, (at, action));
    }
}

/// Depends on the number of the job, so that a repeated submit requests the same.
fn windows_of(seed: u64, job: &Wanted) -> usize {
    let mut random = Random::named(seed, &[80, job.number]);
    random.weighted(&[(85, 0), (6, 1), (6, 2), (3, 3)])
}

fn schedule(random: &mut Random) -> Action {
    let at = random.at(SCHEDULES);
    let wish = Wish {
        every_ms: *random.pick(&[7_000, 20_000, 60_000]),
        catch_up: *random.pick(&[CatchUp::None, CatchUp::One, CatchUp::All]),
        overlap: *random.pick(&[Overlap::Skip, Overlap::Allow]),
        paused: random.percent(15),
        keyed: random.percent(25),
    };
    match random.below(10) {
        0..=6 => Action::SetSchedule(at, Some(wish)),
        7 => Action::SetSchedule(at, None),
        _ => Action::RunSchedule(at),
    }
}
