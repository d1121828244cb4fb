//! The reference machine: the in-memory store, a clock, ids, and older copies of jobs for stale writers.

use jobhall_core::{GroupId, Job, JobId, Key, Owner, StateName, Tag, TypeName};
use jobhall_store::{BlockChange, Committed, GroupFilter, JobFilter, Memory, Prune, RecordFilter, Unit};
use proptest::strategy::{BoxedStrategy, Just, Strategy};
use proptest_state_machine::ReferenceStateMachine;

use super::call::{Answer, Call, KINDS, ask};
use super::maker::{Maker, names};
use super::operation::{Operation, Shape, Sketch, Twist, operation};
use super::related;
use crate::rules::records::kind;
use crate::samples::{at, id};

/// Maximum number of older copies.
const OLD_COPIES: usize = 48;
/// Time between two operations.
const TICK_MS: u64 = 400;
/// Maximum number of ids that one commit needs.
const IDS_PER_COMMIT: u64 = 24;

/// The result of an operation.
#[derive(Clone, Debug)]
pub struct Turn {
    pub call: Call,
    pub answer: Answer,
    /// Whether the call had an effect.
    pub succeeded: bool,
    /// The shapes of the units of a commit.
    pub units: Vec<(Shape, [Twist; 2])>,
}

/// The reference store and its environment.
#[derive(Debug, Default)]
pub struct Model {
    memory: Memory,
    writes: Vec<Call>,
    now_ms: u64,
    next_id: u64,
    last_id: u64,
    old: Vec<Job>,
    pub turn: Option<Turn>,
}

impl Clone for Model {
    /// A store cannot be copied, so its calls are replayed on a new one.
    fn clone(&self) -> Model {
        let memory = Memory::new();
        for call in &self.writes {
            ask(&memory, call.clone());
        }
        let (writes, old, turn) = (self.writes.clone(), self.old.clone(), self.turn.clone());
        Model { memory, writes, old, turn, ..*self }
    }
}

impl Model {
    pub fn store(&self) -> &Memory {
        &self.memory
    }

    /// The highest id handed out.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    fn step(&mut self, operation: &Operation) {
        self.now_ms += TICK_MS;
        let jobs = self.memory.all_jobs();
        let (call, units) = self.resolve(operation, &jobs);
        let known = !matches!(&call, Call::SettleBlocks(changes) if !self.knows(changes));
        let answer = ask(&self.memory, call.clone());
        match (&call, &answer) {
            (Call::Commit(units), Answer::Committed(committed)) => self.keep_copies(units, committed, &jobs),
            (_, Answer::Block(block)) => (self.next_id, self.last_id) = (block.first.get(), block.last.get()),
            _ => {}
        }
        if call.writes() {
            self.writes.push(call.clone());
        }
        let succeeded = known && answer.succeeded();
        self.turn = Some(Turn { call, answer, succeeded, units });
    }

    fn knows(&self, changes: &[BlockChange]) -> bool {
        let blocks = self.memory.blocks_now();
        changes.iter().any(|change| {
            let (BlockChange::Close(first) | BlockChange::Shrink(first, _)) = change;
            blocks.iter().any(|block| block.first == *first)
        })
    }

    /// The call for the operation in the current state. A commit that could run out of ids becomes a new block.
    fn resolve(&mut self, operation: &Operation, jobs: &[Job]) -> (Call, Vec<(Shape, [Twist; 2])>) {
        let pick = |n: u16| jobs.get(usize::from(n) % (jobs.len() + 1)).map_or(id(9_999_999), |job| job.id);
        let groups = self.memory.groups_now(false);
        let group = |n: u16| {
            let found = groups.get(usize::from(n) % (groups.len() + 1));
            found.map_or(GroupId::of(id(9_999_999)), |group| group.id)
        };
        let call = match operation {
            Operation::Commit(..) if self.next_id + IDS_PER_COMMIT > self.last_id => {
                Call::TakeBlock(2 * IDS_PER_COMMIT)
            }
            Operation::Commit(sketches, skew) => return self.commit(sketches, *skew, jobs),
            Operation::TakeBlock(size) => Call::TakeBlock(u64::from(*size)),
            Operation::SettleBlocks(picks) => Call::SettleBlocks(self.settling(picks, jobs)),
            Operation::Prune(picks, feed, keys) => {
                let ago = |ticks: u16| at(self.now_ms).minus_ms(u64::from(ticks) % 3_000 * 10);
                Call::Prune(Prune {
                    jobs: picks.iter().map(|&n| pick(n)).collect(),
                    groups: picks.iter().take(2).map(|&n| group(n)).collect(),
                    feed_before: feed.map(ago),
                    idempotency_keys_before: keys.map(ago),
                    audit_before: None,
                    records: keys
                        .iter()
                        .map(|&ticks| (kind(KINDS[usize::from(ticks) % 2]), ago(ticks)))
                        .collect(),
                })
            }
            Operation::Jobs(picks) => Call::Jobs(picks.iter().map(|&n| pick(n)).collect()),
            Operation::Attempts(n) => Call::Attempts(self.with_history(*n, jobs).unwrap_or_else(|| pick(*n))),
            Operation::AttemptsOfJobs(picks, limit) => {
                let tried = |&n: &u16| self.with_history(n, jobs).unwrap_or_else(|| pick(n));
                Call::AttemptsOfJobs(picks.iter().map(tried).collect(), usize::from(*limit))
            }
            Operation::Successes(picks) => {
                Call::Successes(picks.iter().filter_map(|&n| type_and_key(u32::from(n))).collect())
            }
            Operation::OpenJobs(after, limit) => Call::OpenJobs(after.map(pick), usize::from(*limit)),
            Operation::Blocks => Call::Blocks,
            Operation::List(states, before, limit) => {
                let filter = JobFilter { states: some_states(*states), ..JobFilter::default() };
                Call::List(filter, before.map(pick), usize::from(*limit))
            }
            Operation::Completed(after, limit) => Call::Completed(after.map(pick), usize::from(*limit)),
            Operation::CountCompleted(after, last, except) => {
                let except = except.iter().copied().map(pick).collect();
                Call::CountCompleted(after.map(pick), pick(*last), except)
            }
            Operation::Groups(picks) => Call::Groups(picks.iter().map(|&n| group(n)).collect()),
            Operation::GroupPage(before, limit, filter) => {
                Call::GroupPage(group_filter(*filter), before.map(group), usize::from(*limit))
            }
            Operation::Members(of, after, limit) => {
                Call::Members(group(*of), after.map(pick), usize::from(*limit))
            }
            Operation::Links(after, limit) => {
                let links = self.memory.links_now(None, usize::MAX);
                let after = after.and_then(|n| links.get(usize::from(n) % links.len().max(1)));
                Call::Links(after.map(|link| (link.parent, link.call.clone())), usize::from(*limit))
            }
            Operation::Settings => Call::Settings,
            Operation::Records(picks) => {
                Call::Records(picks.iter().map(|&n| related::record_name(u32::from(n))).collect())
            }
            Operation::RecordPage(of, after, limit) => {
                let filter = RecordFilter {
                    prefix: ["", "a", "a/", "é"][usize::from(*of >> 1) % 4].into(),
                    group: (of & 0x38 == 0).then(|| group(*of >> 6)),
                    ..RecordFilter::of(kind(KINDS[usize::from(*of) % 2]))
                };
                let after = after.map(|n| related::record_name(u32::from(n)).1);
                Call::RecordPage(filter, after, usize::from(*limit))
            }
            Operation::Feed(after, limit) => Call::Feed(u64::from(*after % 100), usize::from(*limit)),
            Operation::FeedEnd => Call::FeedEnd,
            Operation::Reopen => Call::Reopen,
        };
        (call, Vec::new())
    }

    /// Every second read of attempts selects a job that has been attempted.
    fn with_history(&self, n: u16, jobs: &[Job]) -> Option<JobId> {
        let tried: Vec<&Job> = jobs.iter().filter(|job| n & 1 == 0 && job.status.attempt > 1).collect();
        tried.get(usize::from(n >> 1) % tried.len().max(1)).map(|job| job.id)
    }

    fn commit(&mut self, sketches: &[Sketch], skew: u8, jobs: &[Job]) -> (Call, Vec<(Shape, [Twist; 2])>) {
        let back_ms = if skew.is_multiple_of(8) { u64::from(skew) * 10 } else { 0 };
        let settings = self.memory.settings_now();
        let groups = &self.memory.groups_now(false);
        let records = &self.memory.records_now();
        let (now, next_id) = (at(self.now_ms).minus_ms(back_ms), &mut self.next_id);
        let mut maker = Maker { jobs, old: &self.old, groups, settings: &settings, records, now, next_id };
        let made = sketches.iter().map(|sketch| (maker.make(sketch), sketch.twists));
        let (units, kinds) = made.map(|((shape, unit), twists)| (unit, (shape, twists))).unzip();
        (Call::Commit(units), kinds)
    }

    /// The current block is settled only when its ids are used up, and then first.
    fn settling(&self, picks: &[(u16, bool, u64)], jobs: &[Job]) -> Vec<BlockChange> {
        let mut blocks = self.memory.blocks_now();
        let current = blocks.pop_if(|block| block.last.get() == self.last_id);
        let current = current.filter(|_| self.next_id + IDS_PER_COMMIT > self.last_id);
        let settle = |(n, &(pick, close, mask)): (usize, &(u16, bool, u64))| {
            let other = blocks.get(usize::from(pick) % blocks.len().max(1));
            let Some(block) = current.as_ref().filter(|_| n == 0).or(other) else {
                return BlockChange::Close(id(9_999_999));
            };
            let inside = jobs.iter().filter(|job| (block.first..=block.last).contains(&job.id));
            let live = inside.filter(|job| mask >> (job.id.get() % 64) & 1 == 1).map(|job| job.id);
            if close {
                BlockChange::Close(block.first)
            } else {
                BlockChange::Shrink(block.first, live.collect())
            }
        };
        picks.iter().enumerate().map(settle).collect()
    }

    /// Keeps copies of the changed jobs as they were before.
    fn keep_copies(&mut self, units: &[Unit], committed: &Committed, before: &[Job]) {
        let applied = units.iter().zip(&committed.results).filter(|(_, result)| result.is_ok());
        for change in applied.flat_map(|(unit, _)| &unit.changes) {
            let copy =
                before.binary_search_by_key(&change.id, |job| job.id).map(|found| before[found].clone());
            self.old.extend(copy);
        }
        let excess = self.old.len().saturating_sub(OLD_COPIES);
        self.old.drain(..excess);
    }
}

/// Generates operations and executes them on the reference.
pub struct Reference;

impl ReferenceStateMachine for Reference {
    type State = Model;
    type Transition = Operation;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model::default()).boxed()
    }

    fn transitions(_: &Model) -> BoxedStrategy<Operation> {
        operation()
    }

    fn apply(mut model: Model, operation: &Operation) -> Model {
        model.step(operation);
        model
    }
}

/// The type and key that a new job with these dice has; none if it has no key.
fn type_and_key(dice: u32) -> Option<(TypeName, Key)> {
    let (job_type, key) = names(dice);
    Some((TypeName::new(job_type).ok()?, Key::new(key?).ok()?))
}

/// The filter whose parts have their bit set.
fn group_filter(bits: u8) -> GroupFilter {
    GroupFilter {
        open: bits & 1 == 0,
        tag: Tag::new("eu").ok().filter(|_| bits & 2 == 0),
        owner: Owner::new("Ada").ok().filter(|_| bits & 4 == 0),
    }
}

/// The states whose bit is set.
fn some_states(bits: u16) -> Vec<StateName> {
    let all = StateName::ALL.into_iter().enumerate();
    all.filter(|(n, _)| bits >> n & 1 == 1).map(|(_, state)| state).collect()
}
