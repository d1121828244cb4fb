//! Checks for changes that no sequence of transitions can produce.

use crate::job::JobStatus;

/// Checks whether one stored status may replace another. Stores do not decide, but the reference store rejects what no
/// sequence of transitions can produce.
pub fn guard(old: &JobStatus, new: &JobStatus) -> Result<(), &'static str> {
    let rules = [
        (!old.state.is_terminal(), "a completed job never changes"),
        (new.rev > old.rev, "rev rises at every transition"),
        (new.updated_at > old.updated_at, "updated_at rises at every transition"),
        (new.claim >= old.claim && new.claim - old.claim <= 1, "claim rises by one"),
        (new.attempt >= old.attempt && new.attempt - old.attempt <= 1, "attempt rises by one"),
        (new.attempt <= new.claim, "an attempt needs a claim"),
        (new.lost >= old.lost && new.snoozed >= old.snoozed, "counters do not fall"),
        (new.claim == old.claim || new.state.leased().is_some(), "a claim leaves the job held"),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(rule),
        None => Ok(()),
    }
}
