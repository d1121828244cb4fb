//! Changes that operators make while jobs wait: limits and pauses of queues, holds, edits. They are drawn separately,
//! so that the rest of a script is the same with and without them.

use jobhall_core::limits::{KeyExpression, Limit, Rate};
use jobhall_core::{JobId, QueueConfig, TypeConfig};
use jobhall_kernel::{Edit, Request};
use serde::{Deserialize, Serialize};

use crate::check::LimitOf;
use crate::random::Random;
use crate::script::Action;
use crate::script::words;
use crate::simulation::Sim;

/// A change that an operator makes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Alteration {
    /// Sets the limits and pause of a queue.
    Queue(usize, QueueConfig),
    /// Sets the limits and pause of a type.
    Type(usize, QueueConfig),
    /// Holds the nth last job.
    Hold(u64),
    Release(u64),
    RunNow(u64),
    /// Changes its priority and weight.
    Edit(u64, i32, u32),
}

/// The changes of a seed up to this time, with their times.
pub(crate) fn changes(seed: u64, until: u64) -> Vec<(u64, Action)> {
    let mut random = Random::named(seed, &[90]);
    let many = if random.percent(60) { random.within(3, 16) } else { 0 };
    let one = |random: &mut Random| (random.below(until), Action::Alter(alteration(random)));
    (0..many).map(|_| one(&mut random)).collect()
}

fn alteration(random: &mut Random) -> Alteration {
    let nth = random.below(12);
    match random.below(12) {
        0..=3 => Alteration::Queue(random.at(words::QUEUES.len()), config(random)),
        4 | 5 => Alteration::Type(random.at(words::TYPES.len()), config(random)),
        6 => Alteration::Hold(nth),
        7 | 8 => Alteration::Release(nth),
        9 => Alteration::RunNow(nth),
        _ => Alteration::Edit(nth, *random.pick(&[1, 100, 200]), *random.pick(&[0, 1, 2, 3])),
    }
}

fn config(random: &mut Random) -> QueueConfig {
    let limits = (0..random.below(3)).map(|_| limit(random)).collect();
    QueueConfig { paused: random.percent(20), limits, ..QueueConfig::default() }
}

fn limit(random: &mut Random) -> Limit {
    let by = random.pick(&[None, None, Some("key"), Some("params.c"), Some("params.c")]);
    let by = by.map(|text| KeyExpression::parse(text).expect("a constant expression"));
    let concurrency = random.percent(75).then(|| *random.pick(&[1, 2, 4]));
    let rate = Rate {
        count: *random.pick(&[1, 3]),
        per_ms: *random.pick(&[200, 1_000, 4_000]),
        burst: *random.pick(&[None, Some(1), Some(2)]),
    };
    Limit { by, concurrency, rate: (concurrency.is_none() || random.percent(20)).then_some(rate) }
}

impl Sim {
    pub fn alter(&mut self, alteration: &Alteration) {
        match alteration {
            Alteration::Queue(at, config) => {
                let (queue, config) = (words::queue(*at), Some(config.clone()));
                self.call(Request::SetQueue { queue, config, expected: None });
            }
            Alteration::Type(at, QueueConfig { paused, limits, .. }) => {
                self.set_type(*at, TypeConfig { paused: *paused, limits: limits.clone(), ..plain(*at) });
            }
            Alteration::Hold(n) => self.call_on(*n, |id| Request::Hold { id }),
            Alteration::Release(n) => self.call_on(*n, |id| Request::Release { id }),
            Alteration::RunNow(n) => self.call_on(*n, |id| Request::RunNow { id }),
            Alteration::Edit(n, priority, weight) => {
                let edit =
                    Edit { priority: Some(*priority), throttle_factor: Some(*weight), ..Edit::default() };
                self.call_on(*n, |id| Request::Edit { id, edit: Box::new(edit) });
            }
        }
    }

    /// In the calm phase no job is held and nothing is paused: every job must be able to end.
    pub fn let_everything_go(&mut self) {
        let held =
            self.checker.rows.values().filter(|job| job.status.hold && !job.status.state.is_terminal());
        let held: Vec<JobId> = held.map(|job| job.id).collect();
        held.into_iter().for_each(|id| self.call(Request::Release { id }));
        for of in self.checker.configured() {
            match of {
                LimitOf::Queue(queue) => self.call(Request::SetQueue { queue, config: None, expected: None }),
                LimitOf::Type(name) => {
                    let at = words::TYPES.iter().position(|text| *text == name.as_str()).unwrap_or(0);
                    self.set_type(at, plain(at));
                }
            }
        }
    }

    fn set_type(&mut self, at: usize, config: TypeConfig) {
        let job_type = words::type_name(at);
        self.call(Request::SetType { job_type, config: Some(config), expected: None });
    }
}

/// The settings of a type without limits.
fn plain(at: usize) -> TypeConfig {
    TypeConfig { external: at == words::EXTERNAL, ..TypeConfig::of(&words::type_name(at)) }
}
