//! Shrinks a failing script: cuts it after the violation, then drops actions, large pieces first, while it fails
//! the same way.

use std::time::{Duration, Instant};

use super::Script;
use crate::check::Invariant;
use crate::plant::Plant;
use crate::run::{Outcome, play};

/// The smallest script that fails like a seed, and its run with the trace.
#[derive(Clone, Debug)]
pub struct Shrunk {
    pub script: Script,
    pub outcome: Outcome,
}

/// Shrinks a failing seed for at most this long; none if the seed passes.
pub fn shrink(seed: u64, plant: Option<Plant>, limit: Duration) -> Option<Shrunk> {
    let until = Instant::now() + limit;
    let mut script = Script::new(seed);
    let first = play(script.clone(), plant, false);
    let invariant = first.violation.as_ref()?.invariant;
    script.actions.retain(|(at, _)| at + 1_010 <= first.ms);
    if !fails(&script, plant, invariant) {
        script = Script::new(seed);
    }
    let mut piece = script.actions.len().div_ceil(2).max(1);
    loop {
        let dropped = drop_pieces(&mut script, plant, invariant, piece, until);
        if Instant::now() >= until || (piece == 1 && !dropped) {
            break;
        }
        piece = if dropped { piece } else { (piece / 2).max(1) };
    }
    fewer_jobs(&mut script, plant, invariant, until);
    fewer_workers(&mut script, plant, invariant);
    let outcome = play(script.clone(), plant, true);
    Some(Shrunk { script, outcome })
}
fn fails(script: &Script, plant: Option<Plant>, invariant: Invariant) -> bool {
    play(script.clone(), plant, false).violation.is_some_and(|violation| violation.invariant == invariant)
}

/// Drops every unneeded piece of this size; returns whether any was dropped.
fn drop_pieces(
    script: &mut Script,
    plant: Option<Plant>,
    invariant: Invariant,
    piece: usize,
    until: Instant,
) -> bool {
    let (mut at, mut dropped) = (0, false);
    while at < script.actions.len() && Instant::now() < until {
        let mut less = script.clone();
        let end = (at + piece).min(less.actions.len());
        less.actions.drain(at..end);
        if fails(&less, plant, invariant) {
            *script = less;
            dropped = true;
        } else {
            at += piece;
        }
    }
    dropped
}

/// Drops every unneeded job from actions that submit several.
fn fewer_jobs(script: &mut Script, plant: Option<Plant>, invariant: Invariant, until: Instant) {
    for action in 0..script.actions.len() {
        let jobs = script.actions[action].1.jobs_mut().map_or(0, |jobs| jobs.len());
        for at in (0..jobs).rev() {
            let mut less = script.clone();
            let Some(jobs) = less.actions[action].1.jobs_mut().filter(|jobs| jobs.len() > 1) else { break };
            jobs.remove(at);
            if Instant::now() < until && fails(&less, plant, invariant) {
                *script = less;
            }
        }
    }
}

/// Drops workers that no action names, from the last.
fn fewer_workers(script: &mut Script, plant: Option<Plant>, invariant: Invariant) {
    while script.workers.len() > 1 {
        let mut less = script.clone();
        less.workers.pop();
        let named = less.actions.iter().filter_map(|(_, action)| action.worker()).max();
        if named.is_some_and(|at| at >= less.workers.len()) || !fails(&less, plant, invariant) {
            return;
        }
        *script = less;
    }
}
