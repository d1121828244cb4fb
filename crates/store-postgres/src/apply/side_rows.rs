//! The rows that applied units write besides their jobs. If a row is written several times, the last write counts.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{Group, JobId, PastAttempt, Time};
use jobhall_store::{AuditEntry, Link, SettingKind, SettingWrite, StoredIdempotencyKey, Unit};

use crate::connect::wire::Step;
use crate::error::PgError;
use crate::groups;
use crate::inbox;
use crate::rows::row::{number, stored_progress, to_json};
use crate::rows::submitted;

#[derive(Default)]
pub(super) struct SideRows<'a> {
    attempts: Vec<(JobId, &'a PastAttempt)>,
    settings: BTreeMap<(SettingKind, &'a str), &'a SettingWrite>,
    groups: BTreeMap<u64, &'a Group>,
    /// Parents whose links are deleted first.
    unlinked: BTreeSet<JobId>,
    links: BTreeMap<(JobId, &'a str), JobId>,
    acts: Vec<&'a AuditEntry>,
    idempotency_keys: Vec<&'a StoredIdempotencyKey>,
}

impl<'a> SideRows<'a> {
    pub(super) fn add(&mut self, unit: &'a Unit) -> Result<(), PgError> {
        for change in &unit.changes {
            self.attempts.extend(change.past.as_ref().map(|past| (change.id, &**past)));
        }
        self.settings.extend(unit.settings.iter().map(|write| ((write.kind, write.name.as_str()), write)));
        self.groups.extend(unit.groups.iter().map(|write| (write.group.id.get(), &write.group)));
        for Link { parent, call, job } in &unit.links {
            self.links.insert((*parent, call), *job);
        }
        for &parent in &unit.unlinked {
            self.unlinked.insert(parent);
            self.links.retain(|(of, _), _| *of != parent);
        }
        self.acts.extend(&unit.audit);
        self.idempotency_keys.extend(&unit.idempotency_key);
        Ok(())
    }

    /// The writes. `last_act` is the highest number of an audit entry so far; `believed` idempotency keys must be
    /// new.
    pub(super) fn push_steps(
        self,
        steps: &mut Vec<Step>,
        last_act: &mut u64,
        believed: bool,
    ) -> Result<(), PgError> {
        if !self.attempts.is_empty() {
            steps.push(attempts(&self.attempts)?);
        }
        push_settings(steps, &self.settings);
        if !self.groups.is_empty() {
            steps.push(groups::writing(&self.groups.into_values().collect::<Vec<_>>())?);
        }
        if !self.unlinked.is_empty() {
            let parents: Vec<i64> = self.unlinked.into_iter().map(number).collect();
            steps.push(Step::new(include_str!("../sql/remove_links.sql")).with(parents));
        }
        if !self.links.is_empty() {
            steps.push(links(&self.links));
        }
        if !self.acts.is_empty() {
            push_acts(steps, &self.acts, last_act);
        }
        if !self.idempotency_keys.is_empty() {
            steps.push(idempotency_keys(&self.idempotency_keys, believed)?);
            steps.extend(inbox::taking(&self.idempotency_keys)?);
        }
        Ok(())
    }
}

/// The step that writes these ended attempts.
pub(crate) fn attempts(attempts: &[(JobId, &PastAttempt)]) -> Result<Step, PgError> {
    let past = || attempts.iter().map(|(_, past)| *past);
    let step = Step::new(include_str!("../sql/insert_attempt.sql"));
    let step = step.with(attempts.iter().map(|(id, _)| number(*id)).collect::<Vec<_>>());
    let step = step.with(past().map(|past| i64::from(past.claim)).collect::<Vec<_>>());
    let step = step.with(past().map(|past| past.lease.0.to_be_bytes().to_vec()).collect::<Vec<_>>());
    let step = step.with(past().map(|past| past.worker.as_str()).collect::<Vec<_>>());
    let step = step.with(past().map(|past| past.assigned_at.as_ms()).collect::<Vec<_>>());
    let step = step.with(past().map(|past| past.accepted_at.map(Time::as_ms)).collect::<Vec<_>>());
    let step = step.with(past().map(|past| past.started_at.map(Time::as_ms)).collect::<Vec<_>>());
    let step = step.with(past().map(|past| past.ended_at.as_ms()).collect::<Vec<_>>());
    let step = step.with(past().map(|past| past.outcome as i16).collect::<Vec<_>>());
    let step = step.with(past().map(|past| to_json(&past.failure)).collect::<Result<Vec<_>, _>>()?);
    Ok(step.with(past().map(|past| stored_progress(&past.progress)).collect::<Result<Vec<_>, _>>()?))
}

fn push_settings<'a>(steps: &mut Vec<Step>, settings: &BTreeMap<(SettingKind, &'a str), &'a SettingWrite>) {
    let (puts, gone): (Vec<&SettingWrite>, Vec<_>) =
        settings.values().copied().partition(|write| write.value.is_some());
    let names = |writes: &[&'a SettingWrite], sql| {
        let step = Step::new(sql).with(writes.iter().map(|write| write.kind.as_str()).collect::<Vec<_>>());
        step.with(writes.iter().map(|write| write.name.as_str()).collect::<Vec<_>>())
    };
    if !gone.is_empty() {
        steps.push(names(&gone, include_str!("../sql/remove_setting.sql")));
    }
    if !puts.is_empty() {
        let step = names(&puts, include_str!("../sql/put_setting.sql"));
        let step = step.with(puts.iter().map(|write| (write.expected + 1).cast_signed()).collect::<Vec<_>>());
        steps.push(step.with(puts.iter().filter_map(|write| write.value.as_deref()).collect::<Vec<_>>()));
    }
}

/// The step that writes these links.
pub(crate) fn links(links: &BTreeMap<(JobId, &str), JobId>) -> Step {
    let step = Step::new(include_str!("../sql/put_link.sql"));
    let step = step.with(links.keys().map(|(parent, _)| number(*parent)).collect::<Vec<_>>());
    let step = step.with(links.keys().map(|(_, call)| *call).collect::<Vec<_>>());
    step.with(links.values().copied().map(number).collect::<Vec<_>>())
}

fn push_acts(steps: &mut Vec<Step>, acts: &[&AuditEntry], last: &mut u64) {
    let mut numbers = Vec::with_capacity(acts.len());
    for _ in acts {
        *last += 1;
        numbers.push(last.cast_signed());
    }
    let step = Step::new(include_str!("../sql/insert_audit.sql")).with(numbers);
    let step = step.with(acts.iter().map(|act| act.at.as_ms()).collect::<Vec<_>>());
    let step = step.with(acts.iter().map(|act| act.who.as_str()).collect::<Vec<_>>());
    let step = step.with(acts.iter().map(|act| act.act.as_str()).collect::<Vec<_>>());
    let step = step.with(acts.iter().map(|act| act.subject.as_str()).collect::<Vec<_>>());
    steps.push(step.with(acts.iter().map(|act| act.detail.as_str()).collect::<Vec<_>>()));
    steps.push(Step::new(include_str!("../sql/put_meta.sql")).with("last_act").with(last.cast_signed()));
}

/// The step that writes these idempotency keys; `believed` ones must be new.
pub(crate) fn idempotency_keys<'a>(
    all: &[&'a StoredIdempotencyKey],
    believed: bool,
) -> Result<Step, PgError> {
    let last: BTreeMap<(&str, &str), &'a StoredIdempotencyKey> =
        all.iter().map(|key| ((key.scope.as_str(), key.key.as_str()), *key)).collect();
    // Keys that are expected to be new are all kept, so that a duplicate is detected.
    let keys: Vec<&'a StoredIdempotencyKey> =
        if believed { all.to_vec() } else { last.into_values().collect() };
    let sql = if believed {
        include_str!("../sql/insert_idempotency_key.sql")
    } else {
        include_str!("../sql/put_idempotency_key.sql")
    };
    let step = Step::new(sql).with(keys.iter().map(|key| key.scope.as_str()).collect::<Vec<_>>());
    let step = step.with(keys.iter().map(|key| key.key.as_str()).collect::<Vec<_>>());
    let step = step.with(keys.iter().map(|key| key.body.to_be_bytes().to_vec()).collect::<Vec<_>>());
    let answers = keys.iter().map(|key| submitted::to_text(&key.answer)).collect::<Result<Vec<_>, _>>()?;
    let step = step.with(answers).with(keys.iter().map(|key| key.at.as_ms()).collect::<Vec<_>>());
    Ok(if believed { step.with(i64::try_from(keys.len()).unwrap_or(i64::MAX)) } else { step })
}
