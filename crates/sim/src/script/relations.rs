//! Relations between the jobs of a run: dependencies, groups, and types with external work. They are drawn
//! separately, so that the rest of a script is the same with and without them.

use jobhall_core::{After, Failure, GroupId, NewJob, OnDuplicate, TypeConfig};
use jobhall_kernel::{NewGroup, Request, Submit};
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::script::words;
use crate::script::{Action, Wanted};
use crate::simulation::Sim;

/// Jobs of groups are numbered separately.
const GROUPED: u64 = 10_000;

/// A dependency of a job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Before {
    /// The nth last job that its client knows.
    Nth(u64),
    /// The job this many positions before it in the same submit.
    Back(usize),
}

/// The relations of a job to others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Relation {
    pub after: Vec<Before>,
    pub after_any: bool,
    /// The nth last group.
    pub group: Option<u64>,
    pub attached: bool,
    /// The job is a copy of the nth last job, in its group.
    pub copy_of: Option<u64>,
}

/// An action on a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OfGroup {
    /// Creates a group with these jobs.
    Create(Vec<Wanted>, bool),
    /// Closes the nth last one.
    Close(u64),
    Cancel(u64),
    /// Retries its failed members.
    Retry(u64),
    Show(u64),
}

/// Adds relations to the actions.
pub(crate) fn write(seed: u64, actions: &mut Vec<(u64, Action)>) {
    let mut random = Random::named(seed, &[81]);
    let last = actions.last().map_or(0, |(at, _)| *at);
    let many = random.weighted(&[(3, 0), (3, 4), (3, 9), (2, 16)]);
    for n in 0..many {
        // Groups are created early, so that later actions can use them.
        let at = if n % 3 == 0 { random.below(last / 2 + 1) } else { random.below(last + 1) };
        let what = if n % 3 == 0 { create(&mut random, n, actions) } else { of_group(&mut random) };
        let place = actions.partition_point(|(other, _)| *other <= at);
        actions.insert(place, (at, Action::Group(what)));
    }
    for (_, action) in actions.iter_mut() {
        let (jobs, joins) = match action {
            Action::Submit { jobs, .. } => (jobs, true),
            Action::Group(OfGroup::Create(jobs, _)) => (jobs, false),
            _ => continue,
        };
        for (at, job) in jobs.iter_mut().enumerate() {
            relate(seed, at, joins, job);
        }
    }
    let config = TypeConfig { external: true, ..TypeConfig::of(&words::type_name(words::EXTERNAL)) };
    actions.insert(0, (0, Action::SetType(words::EXTERNAL, config)));
}

/// Depends on the number of the job, so that a repeated submit requests the same.
fn relate(seed: u64, at: usize, joins: bool, job: &mut Wanted) {
    let mut random = Random::named(seed, &[82, job.number]);
    if random.percent(7) {
        job.job_type = words::EXTERNAL;
    }
    let before = |random: &mut Random| match at {
        1.. if random.percent(70) => Before::Back(random.at(at)),
        _ => Before::Nth(random.below(6)),
    };
    let many = random.weighted(&[(78, 0), (12, 1), (7, 2), (3, 4)]);
    job.relation = Relation {
        after: (0..many).map(|_| before(&mut random)).collect(),
        after_any: random.percent(35),
        group: (joins && random.percent(14)).then(|| random.below(3)),
        attached: random.percent(15),
        copy_of: (joins && random.percent(5)).then(|| random.below(6)),
    };
}

/// A group of jobs like some that are submitted elsewhere.
fn create(random: &mut Random, n: u64, actions: &[(u64, Action)]) -> OfGroup {
    let submits = actions.iter().filter_map(|(_, action)| match action {
        Action::Submit { jobs, .. } => Some(jobs),
        _ => None,
    });
    let mut jobs: Vec<Wanted> = submits.flatten().skip(random.at(20)).take(random.at(9)).cloned().collect();
    for (at, job) in jobs.iter_mut().enumerate() {
        job.number = GROUPED + 100 * n + at as u64;
        job.key = job.key.filter(|_| random.percent(30));
        job.on_duplicate = OnDuplicate::Join;
        (job.reuse_max_age_ms, job.reuse_above) = (None, None);
    }
    OfGroup::Create(jobs, random.percent(40))
}

fn of_group(random: &mut Random) -> OfGroup {
    let nth = random.below(3);
    match random.below(10) {
        0..=2 => OfGroup::Close(nth),
        3 | 4 => OfGroup::Cancel(nth),
        5..=7 => OfGroup::Retry(nth),
        _ => OfGroup::Show(nth),
    }
}

impl Sim {
    /// A client executes an action on a group.
    pub fn group_action(&mut self, what: &OfGroup) {
        match what {
            OfGroup::Create(jobs, closed) => {
                let jobs = self.asked_for(jobs);
                let group = NewGroup { closed: *closed, ..NewGroup::default() };
                self.call(Request::CreateGroup { group, submit: Submit { jobs, ..Submit::default() } });
            }
            OfGroup::Close(n) => self.call_on_group(*n, |id| Request::CloseGroup { id }),
            OfGroup::Cancel(n) => {
                let fails = n.is_multiple_of(3);
                self.call_on_group(*n, |id| Request::CancelGroup { id, failure: by_hand(), fails });
            }
            OfGroup::Retry(n) => self.call_on_group(*n, |id| Request::RetryGroup { id, name: None }),
            OfGroup::Show(n) => self.call_on_group(*n, |id| Request::ShowGroup { id }),
        }
    }

    fn call_on_group(&mut self, n: u64, request: impl FnOnce(GroupId) -> Request) {
        if let Some(id) = self.clients.nth_last_group(n) {
            self.call(request(id));
        }
    }

    /// The submit requests for these jobs at this time.
    pub fn asked_for(&self, jobs: &[Wanted]) -> Vec<NewJob> {
        let wall = self.moment().wall;
        let one = |(at, job): (usize, &Wanted)| {
            let mut asked = job.submit(wall);
            let relation = &job.relation;
            asked.after = relation.after.iter().filter_map(|before| self.before(*before, at)).collect();
            asked.after_any = relation.after_any;
            asked.group = relation.group.and_then(|n| self.clients.nth_last_group(n));
            if let Some(original) = relation.copy_of.and_then(|n| self.clients.nth_last(n)) {
                asked.copy_of = Some(original);
                asked.group = self.checker.rows.get(&original).and_then(|row| row.spec.group);
            }
            asked.attached = relation.attached && asked.group.is_some() && asked.copy_of.is_none();
            asked
        };
        jobs.iter().enumerate().map(one).collect()
    }

    fn before(&self, before: Before, at: usize) -> Option<After> {
        match before {
            Before::Nth(n) => self.clients.nth_last(n).map(After::Job),
            Before::Back(back) => at.checked_sub(back + 1).map(After::Position),
        }
    }

    /// In the calm phase all groups are closed and external work ends.
    pub fn let_groups_and_outsiders_end(&mut self) {
        for id in self.checker.groups_to_close() {
            self.call(Request::CloseGroup { id });
        }
        for id in self.checker.waits_external() {
            let report = crate::workers::manner::completed_external(id, 0);
            self.call(Request::Complete { id, attempt: None, report });
        }
    }
}

fn by_hand() -> Failure {
    Failure::new("cancelled", "the group, by hand")
}
