//! Units about relations between jobs: groups, links, and replaced specs.

use std::sync::Arc;

use jobhall_core::needs::Needs;
use jobhall_core::{
    Event, Group, GroupCounts, GroupEnd, GroupId, GroupVerdict, Job, JobSpec, Json, Key, Owner, RecordKind,
    Tag,
};
use jobhall_store::{Check, GroupWrite, Link, RecordGroup, RecordWrite, Unit};

use super::call::KINDS;
use super::maker::Maker;
use super::operation::Sketch;
use crate::rules::records;
use crate::samples::{change_of, failure, id, insert};

impl Maker<'_> {
    /// A new group; in half of the cases with its first job.
    pub(super) fn make_group(&mut self, dice: u32) -> Unit {
        let id = GroupId::of(self.id());
        let group = Group {
            id,
            rev: 1,
            name: (dice & 2 == 0).then(|| Key::new("nightly").expect("a valid name")),
            owner: (dice & 8 == 0).then(|| Owner::new("Ada").expect("a valid owner")),
            tags: [Tag::new("eu").expect("a valid tag")].into_iter().take(dice as usize & 1).collect(),
            retry_of: self.groups.first().filter(|_| dice.is_multiple_of(5)).map(|group| group.id),
            created_at: self.now,
            closed: dice.is_multiple_of(7),
            cancel: None,
            fails: false,
            end: None,
        };
        let member = (dice & 4 == 0).then(|| insert(self.member(id, dice)));
        let groups = vec![GroupWrite { expected: 0, group }];
        Unit { groups, inserts: member.into_iter().collect(), ..Unit::default() }
    }

    fn a_group(&self, sketch: &Sketch) -> Option<&Group> {
        self.groups.get(usize::from(sketch.pick) % self.groups.len().max(1))
    }

    /// A group is closed, cancelled or ended; sometimes with another rev.
    pub(super) fn move_group(&self, sketch: &Sketch) -> Option<Unit> {
        let (group, dice) = (self.a_group(sketch)?.clone(), sketch.dice);
        let counts = GroupCounts { succeeded: u64::from(dice % 9), ..GroupCounts::default() };
        let verdict = GroupVerdict::ALL[dice as usize % GroupVerdict::ALL.len()];
        let end = GroupEnd { at: self.now, verdict, counts };
        let expected = group.rev + u32::from(dice & 0x30 == 0);
        let group = Group {
            rev: expected + 1,
            closed: group.closed || dice & 1 == 0,
            cancel: group.cancel.or_else(|| (dice & 0x100 == 0).then(|| failure("cancelled"))),
            fails: group.fails || dice & 0x300 == 0,
            end: group.end.or_else(|| (dice & 0xc0 == 0).then_some(end)),
            ..group
        };
        Some(Unit { groups: vec![GroupWrite { expected, group }], ..Unit::default() })
    }

    /// A new job in a group, if one accepts members.
    pub(super) fn join(&mut self, sketch: &Sketch) -> Option<Unit> {
        let group = self.a_group(sketch)?.id;
        let job = self.member(group, sketch.dice);
        let check = if job.spec.attached { Check::GroupOpen(group) } else { Check::Joinable(group) };
        Some(Unit { checks: vec![check], inserts: vec![insert(job)], ..Unit::default() })
    }

    fn member(&mut self, group: GroupId, dice: u32) -> Job {
        let job = self.fresh(dice);
        let of_group = |other: &&Job| other.spec.group == Some(group);
        let original = self.jobs.iter().find(of_group).filter(|_| dice & 0x600 == 0);
        let spec = JobSpec {
            group: Some(group),
            attached: dice & 0x1800 == 0,
            copy_of: original.map(|original| original.id),
            ..(*job.spec).clone()
        };
        Job { spec: spec.into(), ..job }
    }

    /// A job requests another by name; or all links of a parent are removed.
    pub(super) fn link(&self, sketch: &Sketch) -> Option<Unit> {
        let job = |n: usize| self.jobs.get(n % self.jobs.len().max(1)).map(|job| job.id);
        let (pick, dice) = (usize::from(sketch.pick), sketch.dice as usize);
        // Few parents, so that names collide.
        let parent = job(pick % 4)?;
        if dice & 3 == 0 {
            return Some(Unit { unlinked: vec![parent], ..Unit::default() });
        }
        let link = Link { parent, call: ["one", "two", "é"][dice % 3].into(), job: job(pick >> 2)? };
        Some(Unit { links: vec![link], ..Unit::default() })
    }

    /// Writes of one or two records; sometimes with another rev.
    pub(super) fn write_records(&self, dice: u32) -> Vec<RecordWrite> {
        let names = [record_name(dice), record_name(dice + 1)];
        let count = 1 + (dice as usize >> 9 & 1);
        names.into_iter().take(count).map(|(kind, key)| self.write_record(kind, key, dice)).collect()
    }

    fn write_record(&self, kind: RecordKind, key: Key, dice: u32) -> RecordWrite {
        let stored = self.records.iter().find(|record| record.kind == kind && record.key == key);
        let wrong = u32::from(dice & 0x30 == 0);
        let group = match dice >> 10 & 3 {
            0 | 1 => RecordGroup::Keep,
            2 => RecordGroup::Set(self.groups.get(dice as usize >> 12 & 3).map(|group| group.id)),
            _ => RecordGroup::Set(None),
        };
        RecordWrite {
            expected: stored.map_or(0, |stored| stored.rev) + wrong,
            kind,
            key,
            at: self.now,
            group,
            value: (dice & 0xc0 != 0).then(|| format!("{{\"dice\":{dice}}}")),
        }
    }

    /// The spec of a job without a holder is changed.
    pub(super) fn respec(&self, sketch: &Sketch) -> Option<Unit> {
        let dice = sketch.dice;
        let event = Event::Edit { run_at: None };
        let fits = self.source(sketch).iter().filter_map(|job| Some((job, self.step(job, &event)?)));
        let fits: Vec<_> = fits.collect();
        let (job, step) = fits.get(usize::from(sketch.pick) % fits.len().max(1))?.clone();
        let needs = ["", "gpu>=1", "os=linux, !spot"][dice as usize % 3];
        let spec = JobSpec {
            params: Json::params(&format!("{{\"edited\":{dice}}}")).expect("valid params"),
            priority: i32::try_from(dice % 100).expect("a small number"),
            needs: Needs::parse(needs).expect("valid needs"),
            throttle_factor: dice % 4,
            ..(*job.spec).clone()
        };
        let mut change = change_of(job, step);
        (change.spec, change.want_spec) = (Some(Arc::new(spec)), dice & 8 != 0);
        Some(Unit { changes: vec![change], ..Unit::default() })
    }

    /// A check that a group accepts members or is open; sometimes of a group that does not exist.
    pub(super) fn joinable(&self, sketch: &Sketch) -> Check {
        let missing = GroupId::of(id(*self.next_id + 1_000));
        let group = self.a_group(sketch).map_or(missing, |group| group.id);
        if sketch.dice & 0x10 == 0 { Check::Joinable(group) } else { Check::GroupOpen(group) }
    }
}

/// Kind and key of a record; few, so that they collide.
pub(super) fn record_name(dice: u32) -> (RecordKind, Key) {
    let name = ["a", "a/1", "a/2", "a0", "b", "é"][dice as usize / 2 % 6];
    (records::kind(KINDS[dice as usize % 2]), records::key(name))
}
