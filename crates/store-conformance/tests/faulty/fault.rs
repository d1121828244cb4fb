//! The faults, and the effects of those that need no state.

use std::sync::Arc;

use jobhall_core::JobSpec;
use jobhall_store::{Check, Committed, Conflict, Memory, RecordGroup, Unit};

/// The fault of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault: the wrapper behaves like the reference.
    Nothing,
    /// Changes are written regardless of the rev.
    IgnoresRevs,
    /// The last of several units is acknowledged and not written.
    LosesTheLastUnit,
    /// An ended job keeps its key.
    KeepsKeys,
    /// Results are returned in reverse order.
    SwapsResults,
    /// Ids above the highest open block are handed out again.
    ReusesIds,
    /// Ended attempts are not stored.
    DropsPastAttempts,
    /// Every third feed row is missing.
    FeedHole,
    /// An insert with a held key is reported as applied.
    AcknowledgesRefusedInserts,
    /// Idempotency keys are not stored.
    ForgetsIdempotencyKeys,
    /// The first insert of a refused unit is kept.
    WritesHalfAUnit,
    /// Each unit is a separate transaction.
    CommitsEachUnitAlone,
    /// Open jobs can be pruned.
    PrunesOpenJobs,
    /// No success is ever reused.
    IgnoresReuse,
    /// A success is reused whatever its id.
    IgnoresAbove,
    IgnoresChecks,
    KeepsOldParams,
    /// Units after a refused one are not applied.
    StopsAtARefusal,
    /// Groups are written regardless of the rev.
    IgnoresGroupRevs,
    /// A closed group accepts members.
    IgnoresJoinable,
    /// A group that is cancelled or has ended accepts attached jobs and copies.
    IgnoresGroupOpen,
    /// No group is stopped as failed.
    ForgetsFails,
    /// Lists of groups are not filtered by tag and owner.
    IgnoresGroupFilter,
    /// The attempts of several jobs are returned in another order.
    MixesAttempts,
    /// The end of the feed is forgotten when its rows are pruned.
    FeedEndForgets,
    /// Jobs lose their group.
    ForgetsGroups,
    /// Open groups can be pruned.
    PrunesOpenGroups,
    KeepsLinks,
    /// The spec is replaced except for the priority.
    KeepsOldPriority,
    /// Settings are written regardless of the rev.
    IgnoresSettingRevs,
    /// Records are written regardless of the rev.
    IgnoresRecordRevs,
    /// A write that keeps the group of a record removes it.
    ForgetsRecordGroups,
    /// Records are pruned whatever their age.
    PrunesYoungRecords,
    /// Removed records stay.
    KeepsRemovedRecords,
    /// The records of a refused unit are written, those with the right rev.
    WritesRefusedRecords,
    /// Pages of records have all keys of the kind.
    IgnoresRecordPrefix,
    /// The successes of several keys are returned in another order.
    MixesSuccesses,
    /// A commit starts when its result is awaited.
    CommitsWhenAwaited,
    ForgetsSpecs,
    /// Only the first conflict is reported.
    TellsOneConflict,
    KeepsClosedBlocks,
    /// Audit entries are not written.
    ForgetsActs,
    /// Completed jobs are returned in the wrong order.
    CompletedNewestFirst,
    /// Every completed job counts as the newest success of its key.
    EverySuccessIsNewest,
    /// Completed jobs are counted although they are excepted.
    CountsExceptedJobs,
}

impl Fault {
    /// Applies the fault to a unit before it is committed.
    pub fn spoil(self, unit: &mut Unit, memory: &Memory) {
        match self {
            Fault::IgnoresRevs => ignore_revs(unit, memory),
            Fault::DropsPastAttempts => unit.changes.iter_mut().for_each(|change| change.past = None),
            Fault::ForgetsIdempotencyKeys => unit.idempotency_key = None,
            Fault::IgnoresReuse => unit.inserts.iter_mut().for_each(|insert| insert.reuse = None),
            Fault::IgnoresAbove => {
                unit.inserts
                    .iter_mut()
                    .filter_map(|insert| insert.reuse.as_mut())
                    .for_each(|range| range.above = None);
            }
            Fault::IgnoresChecks => unit.checks.clear(),
            Fault::KeepsOldParams => unit.changes.iter_mut().for_each(|change| change.spec = None),
            Fault::ForgetsSpecs => unit.changes.iter_mut().for_each(|change| change.want_spec = false),
            Fault::IgnoresGroupRevs => ignore_group_revs(unit, memory),
            Fault::IgnoresJoinable => {
                unit.checks.retain(|check| !matches!(check, Check::Joinable(_)));
            }
            Fault::IgnoresGroupOpen => {
                unit.checks.retain(|check| !matches!(check, Check::GroupOpen(_)));
            }
            Fault::ForgetsFails => unit.groups.iter_mut().for_each(|write| write.group.fails = false),
            Fault::ForgetsGroups => unit.inserts.iter_mut().for_each(|insert| {
                insert.job.spec = Arc::new(JobSpec { group: None, ..(*insert.job.spec).clone() });
            }),
            Fault::KeepsLinks => unit.unlinked.clear(),
            Fault::KeepsOldPriority => keep_priority(unit, memory),
            Fault::ForgetsActs => unit.audit.clear(),
            Fault::IgnoresRecordRevs => ignore_record_revs(unit, memory),
            Fault::KeepsRemovedRecords => unit.records.retain(|write| write.value.is_some()),
            Fault::ForgetsRecordGroups => unit
                .records
                .iter_mut()
                .filter(|write| write.group == RecordGroup::Keep)
                .for_each(|write| write.group = RecordGroup::Set(None)),
            Fault::IgnoresSettingRevs => ignore_setting_revs(unit, memory),
            _ => {}
        }
    }

    /// Applies the fault to the results.
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
        let same_claim =
            stored.status.claim == change.status.claim && stored.status.attempt == change.status.attempt;
        if !stored.status.state.is_terminal() && same_claim {
            (change.expected, change.status.rev) = (stored.status.rev, stored.status.rev + 1);
            change.status.updated_at = change.status.updated_at.max(stored.status.updated_at.plus_ms(1));
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

fn ignore_record_revs(unit: &mut Unit, memory: &Memory) {
    let stored = memory.records_now();
    for write in &mut unit.records {
        let same = stored.iter().find(|record| record.kind == write.kind && record.key == write.key);
        write.expected = same.map_or(0, |record| record.rev);
    }
}
