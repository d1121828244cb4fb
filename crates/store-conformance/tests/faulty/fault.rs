//! The faults, and what those do that need no memory.

use std::sync::Arc;

use jobhall_core::JobSpec;
use jobhall_store::{Check, Committed, Conflict, Memory, Unit};

/// What is wrong with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: the wrapper alone is the reference.
    Nothing,
    /// Changes are written whatever the rev.
    IgnoresRevs,
    /// The last of several units is acknowledged and not written.
    LosesTheLastUnit,
    /// An ended job holds its key.
    KeepsKeys,
    /// Results come in reverse.
    SwapsResults,
    /// Ids above the highest open block are lent again.
    ReusesIds,
    /// Ended attempts are not kept.
    DropsPastAttempts,
    /// Every third feed row is missing.
    FeedHole,
    /// A held key is answered with success.
    AcknowledgesRefusedInserts,
    /// Submit keys are not stored.
    ForgetsIdempotencyKeys,
    /// The first insert of a refused unit stays.
    WritesHalfAUnit,
    /// Each unit is a transaction of its own.
    CommitsEachUnitAlone,
    /// Open jobs can be pruned.
    PrunesOpenJobs,
    /// No success is ever reused.
    IgnoresReuse,
    /// Checks are not looked at.
    IgnoresChecks,
    /// Params are not replaced.
    KeepsOldParams,
    /// What follows a refused unit is not done.
    StopsAtARefusal,
    /// Groups are written whatever the rev.
    IgnoresGroupRevs,
    /// A closed group takes members.
    IgnoresJoinable,
    /// Jobs forget their group.
    ForgetsGroups,
    /// Open groups can be pruned.
    PrunesOpenGroups,
    /// Links are not removed.
    KeepsLinks,
    /// What is asked for is replaced but for the priority.
    KeepsOldPriority,
    /// Settings are written whatever the rev.
    IgnoresSettingRevs,
    /// A commit begins when its answer is awaited.
    CommitsWhenAwaited,
    /// Specs are not handed back.
    ForgetsSpecs,
    /// Only the first conflict is told.
    TellsOneConflict,
    /// Blocks cannot be closed.
    KeepsClosedBlocks,
    /// Acts are not written.
    ForgetsActs,
    /// Completed jobs come in the wrong order.
    CompletedOldestFirst,
}

impl Fault {
    /// What the fault makes of a unit before it is applied.
    pub fn spoil(self, unit: &mut Unit, memory: &Memory) {
        match self {
            Fault::IgnoresRevs => ignore_revs(unit, memory),
            Fault::DropsPastAttempts => unit.changes.iter_mut().for_each(|change| change.past = None),
            Fault::ForgetsIdempotencyKeys => unit.idempotency_key = None,
            Fault::IgnoresReuse => unit.inserts.iter_mut().for_each(|insert| insert.reuse_since = None),
            Fault::IgnoresChecks => unit.checks.clear(),
            Fault::KeepsOldParams => unit.changes.iter_mut().for_each(|change| change.spec = None),
            Fault::ForgetsSpecs => unit.changes.iter_mut().for_each(|change| change.want_spec = false),
            Fault::IgnoresGroupRevs => ignore_group_revs(unit, memory),
            Fault::IgnoresJoinable => {
                unit.checks.retain(|check| !matches!(check, Check::Joinable(_)));
            }
            Fault::ForgetsGroups => unit.inserts.iter_mut().for_each(|insert| {
                insert.job.spec = Arc::new(JobSpec { group: None, ..(*insert.job.spec).clone() });
            }),
            Fault::KeepsLinks => unit.unlinked.clear(),
            Fault::KeepsOldPriority => keep_priority(unit, memory),
            Fault::ForgetsActs => unit.audit.clear(),
            Fault::IgnoresSettingRevs => ignore_setting_revs(unit, memory),
            _ => {}
        }
    }

    /// What the fault makes of the results.
    pub fn spoil_results(self, committed: &mut Committed) {
        let held = |conflict: &Conflict| matches!(conflict, Conflict::KeyHeld { .. });
        match self {
            Fault::SwapsResults => committed.results.reverse(),
            Fault::AcknowledgesRefusedInserts => {
                for result in &mut committed.results {
                    if matches!(result, Err(conflicts) if conflicts.iter().all(held)) {
                        *result = Ok(Default::default());
                    }
                }
            }
            Fault::TellsOneConflict => {
                committed
                    .results
                    .iter_mut()
                    .filter_map(|result| result.as_mut().err())
                    .for_each(|all| all.truncate(1));
            }
            _ => {}
        }
    }
}

fn ignore_revs(unit: &mut Unit, memory: &Memory) {
    for change in &mut unit.changes {
        let Some(stored) = memory.jobs_now(&[change.id]).remove(0) else { continue };
        let same_claim = stored.life.claim == change.life.claim && stored.life.attempt == change.life.attempt;
        if !stored.life.state.is_terminal() && same_claim {
            (change.expected, change.life.rev) = (stored.life.rev, stored.life.rev + 1);
            change.life.updated_at = change.life.updated_at.max(stored.life.updated_at.plus_ms(1));
        }
    }
}

fn ignore_group_revs(unit: &mut Unit, memory: &Memory) {
    for write in &mut unit.groups {
        let stored = memory.group_now(write.group.id);
        write.expected = stored.map_or(0, |(group, _)| group.rev);
    }
}

fn keep_priority(unit: &mut Unit, memory: &Memory) {
    for change in &mut unit.changes {
        let stored = memory.jobs_now(&[change.id]).remove(0);
        if let (Some(spec), Some(stored)) = (&mut change.spec, stored) {
            *spec = Arc::new(JobSpec { priority: stored.spec.priority, ..(**spec).clone() });
        }
    }
}

fn ignore_setting_revs(unit: &mut Unit, memory: &Memory) {
    let stored = memory.settings_now();
    for write in &mut unit.settings {
        let same = stored.iter().find(|setting| setting.kind == write.kind && setting.name == write.name);
        write.expected = same.map_or(0, |setting| setting.rev);
    }
}
