//! The single jobs of a submit: validation and duplicates.

use std::collections::{BTreeMap, HashMap, HashSet};

use jobhall_core::{JobId, NewJob, OnDuplicate, Reuse, Time, TypeConfig, bounds};
use jobhall_store::{Check, ReuseRange};

use super::{Item, ItemAction};
use crate::api::answer::Rejected;

pub(crate) fn bound(field: &'static str, given: usize, least: usize, most: usize) -> Result<(), Rejected> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    let [given, least, most] = [given, least, most].map(|n| n as u64);
    Err(Rejected::Bound { field, given, least, most })
}

/// Rejects a job with values out of bounds.
pub(crate) fn check_job(job: &NewJob) -> Result<(), Rejected> {
    if let Some(retry) = &job.retry {
        retry.check()?;
    }
    bound("tags", job.tags.len(), 0, bounds::TAGS)?;
    let most = u64::from(bounds::THROTTLE_FACTOR);
    if let Some(given) = Some(u64::from(job.throttle_factor)).filter(|given| *given > most) {
        return Err(Rejected::Bound { field: "throttle_factor", given, least: 0, most });
    }
    match job.reuse {
        Some(Reuse::MaxAge(given)) if given > bounds::DELAY_MS => {
            Err(Rejected::Bound { field: "reuse max_age", given, least: 0, most: bounds::DELAY_MS })
        }
        _ => Ok(()),
    }
}

/// The successes that answer a job of this type instead of an insert. The type's window limits their age only.
pub(super) fn reuse_range(job: &NewJob, config: &TypeConfig, now: Time) -> Option<ReuseRange> {
    job.key.as_ref()?;
    match job.reuse? {
        Reuse::MaxAge(_) if config.reuse_window_ms == 0 => None,
        Reuse::MaxAge(ms) => Some(ReuseRange::since(now.minus_ms(ms.min(config.reuse_window_ms)))),
        Reuse::Any => Some(ReuseRange::since(Time::EPOCH)),
        Reuse::Above(id) => Some(ReuseRange::above(id)),
    }
}

/// Jobs of one submit with the same (type, key) must all join.
pub(super) fn keys_once(jobs: &[NewJob]) -> Result<(), Rejected> {
    for (second, first) in same_key(jobs) {
        if [first, second].iter().any(|&at| jobs[at].on_duplicate != OnDuplicate::Join) {
            return Err(Rejected::KeyTwice { first, second });
        }
    }
    Ok(())
}

/// Positions of jobs that share the (type, key) of an earlier one, with the position of the first such job.
pub(super) fn same_key(jobs: &[NewJob]) -> BTreeMap<usize, usize> {
    let mut first_of = HashMap::new();
    let keyed = jobs.iter().enumerate().filter_map(|(at, job)| Some((at, &job.job_type, job.key.as_ref()?)));
    let all = keyed.map(|(at, job_type, key)| (at, *first_of.entry((job_type, key)).or_insert(at)));
    all.filter(|(at, first)| at != first).collect()
}

/// Gives each job its id. A job that shares the (type, key) of an earlier one in the same submit joins it.
pub(super) fn items(jobs: &[NewJob], ids: Vec<JobId>) -> Vec<Item> {
    let same = if jobs.len() > 1 { same_key(jobs) } else { BTreeMap::new() };
    let how = |at: usize| same.get(&at).map_or(ItemAction::Insert, |&first| ItemAction::SameAs(first));
    let items = ids.into_iter().enumerate();
    items.map(|(at, id)| Item { id, how: how(at), job: None, reserved: None }).collect()
}

/// Removes repeated checks, so that each is made once regardless of how many jobs need it.
pub(super) fn checked_once(checks: &mut Vec<Check>) {
    let mut seen = HashSet::new();
    checks.retain(|check| seen.insert(*check));
}
