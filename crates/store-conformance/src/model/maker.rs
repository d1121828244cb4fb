//! Turns sketches into units on the current jobs. Every change is a real transition of `core`. A unit is wrong only
//! by its timing: an outdated copy, a different rev, a key that another job holds.

use jobhall_core::{
    Decision, Disposition, Event, Group, Job, JobId, JobSpec, Json, Key, Step, Submitted, Time, transition,
};
use jobhall_store::{
    Change, Check, Insert, KeyPlace, Record, ReuseRange, Setting, SettingKind, SettingWrite,
    StoredIdempotencyKey, Unit, key_place,
};

use super::events::{Happening, happening};
use super::operation::{Shape, Sketch, Twist};
use crate::samples::{behind, change_of, claim, failure, id, insert, queued, spec};

/// The input for units.
pub(super) struct Maker<'a> {
    /// All jobs, in id order.
    pub(super) jobs: &'a [Job],
    /// Older copies of jobs that have changed since.
    pub(super) old: &'a [Job],
    /// All groups, in id order.
    pub(super) groups: &'a [Group],
    pub(super) settings: &'a [Setting],
    pub(super) records: &'a [Record],
    pub(super) now: Time,
    /// The next id to use.
    pub(super) next_id: &'a mut u64,
}

impl Maker<'_> {
    /// The unit and its actual shape: if no job fits a shape, it becomes a submit.
    pub(super) fn make(&mut self, sketch: &Sketch) -> (Shape, Unit) {
        let (shape, mut unit) = match self.shaped(sketch) {
            Some(unit) => (sketch.shape, unit),
            None => (Shape::Submit, inserting([insert(self.fresh(sketch.dice))])),
        };
        for twist in sketch.twists {
            self.twist(twist, sketch, &mut unit);
        }
        (shape, unit)
    }

    fn shaped(&mut self, sketch: &Sketch) -> Option<Unit> {
        let dice = sketch.dice;
        match sketch.shape {
            Shape::Submit => Some(inserting([insert(self.fresh(dice))])),
            Shape::SubmitMany => {
                Some(inserting([dice, dice / 3, dice / 7].map(|dice| insert(self.fresh(dice)))))
            }
            Shape::HandOver => Some(inserting([insert(self.handed_over(dice))])),
            Shape::Reuse => Some(inserting([self.reusing(dice)])),
            Shape::Behind => Some(inserting([insert(self.waiting(dice))])),
            Shape::After => Some(inserting([insert(self.after(dice))])),
            Shape::Supersede => self.supersede(sketch),
            Shape::ClaimMany => self.claim_many(sketch),
            Shape::Configure => Some(Unit { settings: vec![self.write(dice)], ..Unit::default() }),
            Shape::Record => Some(Unit { records: self.write_records(dice), ..Unit::default() }),
            Shape::Group => Some(self.make_group(dice)),
            Shape::MoveGroup => self.move_group(sketch),
            Shape::Join => self.join(sketch),
            Shape::Link => self.link(sketch),
            Shape::Respec => self.respec(sketch),
            Shape::Bare => Some(Unit::default()),
            _ => self.moved(sketch),
        }
    }

    pub(super) fn id(&mut self) -> JobId {
        let n = *self.next_id;
        *self.next_id += 1;
        id(n)
    }

    /// A new queued job. Keys are few, so that they collide.
    pub(super) fn fresh(&mut self, dice: u32) -> Job {
        let (job_type, key) = names(dice);
        let mut spec = spec(job_type, key, self.now);
        spec.params = Json::params(&format!("{{\"n\":{dice}}}")).expect("valid params");
        spec.priority = i32::try_from(dice % 7).expect("a small number") - 3;
        spec.retry_of = dice.is_multiple_of(11).then(|| id(1));
        if dice.is_multiple_of(13) {
            spec.retry = spec.retry.at_most_once();
        }
        queued(self.id(), spec)
    }

    fn keyed(&mut self, dice: u32) -> Job {
        let dice = if names(dice).1.is_none() { dice ^ 8 } else { dice };
        self.fresh(dice)
    }

    /// A new job that depends on others.
    fn after(&mut self, dice: u32) -> Job {
        let job = self.fresh(dice);
        let spec = JobSpec { after: [id(1)].into(), after_any: dice & 0x200 == 0, ..(*job.spec).clone() };
        Job { spec: spec.into(), status: job.status.after_others(), ..job }
    }

    fn handed_over(&mut self, dice: u32) -> Job {
        let job = self.fresh(dice);
        match self.step(&job, &claim(u128::from(dice), "w")) {
            Some(step) => Job { status: step.status, ..job },
            None => job,
        }
    }

    fn reusing(&mut self, dice: u32) -> Insert {
        let since = self.now.minus_ms(u64::from(dice >> 8) % 8_000);
        let above = self.jobs.get(dice as usize % (self.jobs.len() + 1)).filter(|_| dice & 0x80 == 0);
        let range = above.map_or(ReuseRange::since(since), |above| ReuseRange::above(above.id));
        Insert { job: self.keyed(dice), reuse: Some(range) }
    }

    /// A job in the next place of a key; in half of the cases a key that no job holds, if there is one.
    fn waiting(&mut self, dice: u32) -> Job {
        let taken = |dice: u32| self.live(names(dice)).is_some() || names(dice).1.is_none();
        let free = (0..16).map(|n| dice & !15 | (dice + n) & 15).find(|&dice| !taken(dice));
        let dice = free.filter(|_| dice & 0x100 == 0).unwrap_or(dice);
        let job = self.keyed(dice);
        let holder = self.live((job.spec.job_type.as_str(), job.spec.key.as_ref().map(Key::as_str)));
        let holder = holder.map_or(id(1), |holder| holder.id);
        behind(job.id, (*job.spec).clone(), holder)
    }

    fn live(&self, (job_type, key): (&str, Option<&str>)) -> Option<&Job> {
        let same = |job: &&Job| {
            job.spec.job_type.as_str() == job_type && job.spec.key.as_ref().map(Key::as_str) == key
        };
        self.jobs.iter().filter(|job| place_of(job) == KeyPlace::Live).find(same)
    }

    /// The jobs to decide on: the current ones, or older copies of jobs that have changed.
    pub(super) fn source(&self, sketch: &Sketch) -> &[Job] {
        if sketch.twists.contains(&Twist::Outdated) && !self.old.is_empty() { self.old } else { self.jobs }
    }

    pub(super) fn step(&self, job: &Job, event: &Event<'_>) -> Option<Step> {
        let now =
            if matches!(event, Event::Claim { .. }) { self.now.max(job.status.run_at) } else { self.now };
        match transition(&job.status, event, now) {
            Ok(Decision::Step(step)) => Some(*step),
            _ => None,
        }
    }

    /// The change that the sketch's event makes to the job, if any.
    fn happens(&self, job: &Job, sketch: &Sketch) -> Option<(Change, Option<Json>)> {
        let happening: Happening = happening(job, sketch)?;
        let step = self.step(job, &happening.event(job))?;
        let follow_up = step.follow_up.clone().map(|again| again.params);
        let mut change = change_of(job, step);
        change.want_spec = sketch.dice & 4 != 0;
        Some((change, follow_up))
    }

    /// One job changes; when it ends, its successor is released and its follow-up inserted.
    fn moved(&mut self, sketch: &Sketch) -> Option<Unit> {
        let source = self.source(sketch);
        let fits: Vec<_> = source.iter().filter_map(|job| Some((job, self.happens(job, sketch)?))).collect();
        let (job, (change, follow_up)) = fits.get(usize::from(sketch.pick) % fits.len().max(1))?.clone();
        let job = job.clone();
        let ends = change.status.state.is_terminal() && place_of(&job) == KeyPlace::Live;
        let mut unit = Unit { changes: vec![change], ..Unit::default() };
        if ends && !sketch.twists.contains(&Twist::Abandon) {
            let step = self.successor(&job).and_then(|next| Some((next, self.step(next, &Event::KeyFreed)?)));
            unit.changes.extend(step.map(|(next, step)| change_of(next, step)));
        }
        if let Some(params) = follow_up {
            let mut spec = (*job.spec).clone();
            (spec.params, spec.created_at) = (params, self.now);
            unit.inserts.push(insert(queued(self.id(), spec)));
        }
        Some(unit)
    }

    /// The job in the next place of this one's key.
    fn successor(&self, job: &Job) -> Option<&Job> {
        self.jobs.iter().find(|other| place_of(other) == KeyPlace::Next && same_key(other, job))
    }

    fn claim_many(&self, sketch: &Sketch) -> Option<Unit> {
        let mut changes: Vec<Change> = Vec::new();
        for job in self.source(sketch).iter().skip(usize::from(sketch.pick % 8)) {
            let event = claim(u128::from(sketch.dice) << 64, "many");
            if changes.iter().all(|change| change.id != job.id) {
                let step = self.step(job, &event);
                changes.extend(
                    step.map(|step| Change { want_spec: sketch.dice & 8 != 0, ..change_of(job, step) }),
                );
            }
            if changes.len() == 3 {
                break;
            }
        }
        (!changes.is_empty()).then_some(Unit { changes, ..Unit::default() })
    }

    /// The live job of a key is requested to end, and a new one waits for it or takes its place immediately.
    fn supersede(&mut self, sketch: &Sketch) -> Option<Unit> {
        let source = self.source(sketch);
        let holders: Vec<&Job> =
            source.iter().filter(|job| place_of(job) == KeyPlace::Live && job.spec.key.is_some()).collect();
        let holder = (*holders.get(usize::from(sketch.pick) % holders.len().max(1))?).clone();
        let cancel = failure("superseded");
        let waiting = self.successor(&holder).filter(|waiting| waiting.id != holder.id);
        let old = waiting.and_then(|job| Some(change_of(job, self.step(job, &Event::Cancel(&cancel))?)));
        let end = self.step(&holder, &Event::Cancel(&cancel)).map(|step| change_of(&holder, step));
        let ended = end.as_ref().is_some_and(|end| end.status.state.is_terminal());
        let mut spec = (*holder.spec).clone();
        spec.created_at = self.now;
        let new = if ended { queued(self.id(), spec) } else { behind(self.id(), spec, holder.id) };
        Some(Unit {
            checks: vec![Check::Open(holder.id)],
            changes: end.into_iter().chain(old).collect(),
            inserts: vec![insert(new)],
            ..Unit::default()
        })
    }

    fn write(&self, dice: u32) -> SettingWrite {
        let name = ["a", "b", "c"][dice as usize % 3];
        let rev = self.settings.iter().find(|setting| setting.name == name).map_or(0, |setting| setting.rev);
        let wrong = u32::from(dice & 0x30 == 0);
        let value = format!("{{\"dice\":{dice}}}");
        let value = (dice & 0xc0 != 0).then_some(value);
        SettingWrite { kind: SettingKind::Type, name: name.into(), expected: rev + wrong, value }
    }

    fn idempotency_key(&self, dice: u32, unit: &Unit) -> StoredIdempotencyKey {
        let disposition = Disposition::ALL[dice as usize % Disposition::ALL.len()];
        let answer = unit.inserts.iter().map(|insert| Submitted { id: insert.job.id, disposition }).collect();
        StoredIdempotencyKey {
            scope: ["s", "r"][dice as usize >> 3 & 1].into(),
            key: ["x", "y", "z"][(dice as usize >> 4) % 3].into(),
            body: u128::from(dice & 1) << 100,
            answer,
            at: self.now,
            forget_before: self.now.minus_ms(u64::from(dice >> 10) % 20_000),
        }
    }

    fn twist(&mut self, twist: Twist, sketch: &Sketch, unit: &mut Unit) {
        match twist {
            Twist::Plain | Twist::Outdated | Twist::Abandon => {}
            Twist::Stale => self.spoil(sketch, unit),
            Twist::StoredIdempotencyKey => {
                unit.idempotency_key = Some(self.idempotency_key(sketch.dice, unit));
            }
            Twist::Check if sketch.dice & 0x3000 == 0 => unit.checks.push(self.joinable(sketch)),
            Twist::Check => unit.checks.push(self.check(sketch)),
            Twist::Setting if unit.settings.is_empty() => unit.settings.push(self.write(sketch.dice)),
            Twist::Record if unit.records.is_empty() => unit.records = self.write_records(sketch.dice),
            Twist::Setting | Twist::Record => {}
        }
    }

    fn check(&self, sketch: &Sketch) -> Check {
        let open = |job: &&Job| sketch.dice.is_multiple_of(3) || !job.status.state.is_terminal();
        let jobs: Vec<&Job> = self.jobs.iter().filter(open).collect();
        let missing = id(*self.next_id + 1_000);
        Check::Open(jobs.get(usize::from(sketch.pick) % jobs.len().max(1)).map_or(missing, |job| job.id))
    }

    /// A rev that the job no longer has or is far from, so that no earlier unit makes it correct; or, in a unit
    /// without changes, an id that is in use.
    fn spoil(&self, sketch: &Sketch, unit: &mut Unit) {
        if let Some(change) = unit.changes.first_mut() {
            let revs = [change.expected.saturating_sub(1), 0, change.expected + 1_000];
            change.expected = revs[sketch.dice as usize % 3];
        } else if let Some(insert) = unit.inserts.first_mut() {
            let taken = self.jobs.get(usize::from(sketch.pick) % self.jobs.len().max(1));
            insert.job.id = taken.map_or(insert.job.id, |job| job.id);
        }
    }
}

fn inserting(inserts: impl Into<Vec<Insert>>) -> Unit {
    Unit { inserts: inserts.into(), ..Unit::default() }
}

/// Type and key: two types, four keys, and as often no key.
pub(super) fn names(dice: u32) -> (&'static str, Option<&'static str>) {
    let keys = [Some("k"), Some("l"), Some("m"), Some("n"), None, None, None, None];
    (["a", "b"][dice as usize & 1], keys[(dice as usize >> 1) & 7])
}

fn place_of(job: &Job) -> KeyPlace {
    key_place(&job.status.state)
}

fn same_key(one: &Job, other: &Job) -> bool {
    one.spec.key.is_some() && one.spec.key == other.spec.key && one.spec.job_type == other.spec.job_type
}
