//! The kernel: what it remembers, and its entry points.

mod dispatch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;

use jobhall_core::retention::Completed;
use jobhall_core::{
    AttemptId, Dice, Failure, Group, GroupId, Job, JobId, LeaseId, PastAttempt, QueueConfig, QueueName,
    ScheduleName, Time, TypeConfig, TypeName, WorkerName,
};
use jobhall_store::{Block, BlockChange, CommitError, Committed, Member, Prune, Pruned, StoreError, Unit};
use lru::LruCache;

use crate::answer::{Answer, Rejected};
use crate::avoid::Avoids;
use crate::board::Board;
use crate::cascade::{Cascade, CascadeCause};
use crate::clock::{Mono, Now};
use crate::config::Config;
use crate::counts::Totals;
use crate::dependencies::Dependencies;
use crate::effect::{Effect, SessionId, Ticket, VacancyId};
use crate::entry::Entry;
use crate::groups::Fill;
use crate::ids::{Blocks, IdHash, IdMap, Pool};
use crate::limits::Admission;
use crate::links::Links;
use crate::request::{IdempotencyKey, Indicator, Request};
use crate::resources::WorkerState;
use crate::schedules::ScheduleState;
use crate::session::{Hold, SessionState};
use crate::settle::Pending;
use crate::specs::Specs;
use crate::submit::Plan;
use crate::upkeep::Deadlines;
use crate::vacancy::Vacancy;
use crate::wait::Wait;

/// What the kernel wants of the store besides commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// Lend this many ids.
    TakeBlock(u64),
    /// Close or shrink blocks.
    SettleBlocks(Vec<BlockChange>),
    /// Remove what is no longer wanted.
    Prune(Prune),
    /// Remove these jobs if they are completed, for this request.
    Remove(Ticket, Vec<JobId>),
    /// Read a job and its ended attempts.
    Job(JobId),
    /// Read completed jobs, newest first, below this id.
    Completed(Option<JobId>, usize),
    /// Read these jobs, for whatever has this number.
    Jobs(u64, Vec<JobId>),
    /// Read a group and all its members, for whatever has this number.
    Members(u64, GroupId),
    /// Read which groups ended before this moment and have no job left, newest first, below this one.
    Emptied(Option<GroupId>, Time, usize),
}

/// What the store said.
#[derive(Clone, Debug)]
pub enum StoreReply {
    /// To the commit of this number.
    Committed(u64, Result<Committed, CommitError>),
    /// To [`StoreRequest::TakeBlock`].
    Block(Result<Block, CommitError>),
    /// To [`StoreRequest::SettleBlocks`].
    Settled(Vec<BlockChange>, Result<(), CommitError>),
    /// To [`StoreRequest::Prune`].
    Pruned(Result<Pruned, CommitError>),
    /// To [`StoreRequest::Remove`].
    Removed(Ticket, Vec<JobId>, Result<Pruned, CommitError>),
    /// To [`StoreRequest::Job`].
    Job(JobId, Result<(Option<Job>, Vec<PastAttempt>), StoreError>),
    /// To [`StoreRequest::Completed`].
    Completed(Result<Vec<Completed>, StoreError>),
    /// To [`StoreRequest::Jobs`], in the order asked.
    Jobs(u64, Result<Vec<Option<Job>>, StoreError>),
    /// To [`StoreRequest::Members`].
    Members(u64, Result<Option<(Group, Vec<Member>)>, StoreError>),
    /// To [`StoreRequest::Emptied`]: those groups, and the last one that was looked at.
    Emptied(Result<(Vec<GroupId>, Option<GroupId>), StoreError>),
}

/// What waits for jobs or members to be read.
#[derive(Debug)]
pub(crate) enum PendingRead {
    /// How these jobs ended, that others come after.
    Ends(Vec<JobId>),
    /// A submit that names jobs which are not in memory.
    Plan(Box<Plan>, Vec<JobId>),
    /// A retry of a group.
    RetryGroup(GroupId, Option<IdempotencyKey>, Ticket),
    /// A group that is being made of these failed members of another.
    Fill(GroupId, Vec<JobId>),
    /// A group that was being made of another when the hall stopped, and what had failed of that, once it is known.
    Resume(GroupId, GroupId, Option<Vec<JobId>>),
    /// The same, with members of it that have yet to be read.
    Made(GroupId, Vec<JobId>),
}

/// Something that waits for a busy job, for ids, or for the store to recover.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub what: AgendaItem,
    /// How often it was decided anew because others were faster.
    pub rounds: u8,
    /// What was read of the job for it.
    pub read: Option<Read>,
}

/// What the store had of a job.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// Whether it had the job.
    pub found: bool,
    /// Its ended attempts.
    pub past: Vec<PastAttempt>,
}

/// A read under way.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Who it was made for.
    pub now: Vec<Task>,
    /// Who came later.
    pub later: Vec<Task>,
}

/// See [`Task`].
#[derive(Clone, Debug)]
pub(crate) enum AgendaItem {
    Request(Request, Ticket),
    /// A submit that waits for a job that it must move.
    Submit(Box<Plan>),
    /// Nobody accepted this claim.
    TakeBack(JobId, u32),
    /// The session that had this claim is over.
    LeaseEnd(JobId, u32, SessionId),
    /// The worker came back with this attempt: it has accepted it.
    Keep(AttemptId, LeaseId),
    /// The accepted or running state of this claim is to be stored.
    Save(JobId, u32),
    /// Nothing that the job comes after is open any more.
    DependenciesMet(JobId),
    /// Others end the job.
    Cascade(JobId, CascadeCause),
    /// How these jobs ended, that others come after, is to be read.
    ReadEnds(Vec<JobId>),
    /// Whether a group has ended is to be looked at.
    LookAtGroup(GroupId),
    /// A group in the making goes on.
    Fill(GroupId),
    /// A group that was in the making when the hall stopped goes on.
    ResumeFill(GroupId, GroupId),
    /// The time of this claim may be over.
    TimeOut(JobId, u32),
    /// The outcome of this claim did not come from outside in time.
    ExternalOver(JobId, u32),
    /// What this claim waited for is over.
    Resume(JobId, u32),
    /// This claim waits for itself, by way of others.
    Cycle(JobId, u32, Box<Failure>),
    /// Whoever had asked for this job may be over.
    Orphan(JobId),
    /// The ticks of this schedule wait for ids.
    Tick(ScheduleName),
}

impl From<AgendaItem> for Task {
    fn from(what: AgendaItem) -> Task {
        Task { what, rounds: 0, read: None }
    }
}

/// Decisions are made anew this often at most when others are faster.
pub(crate) const ROUNDS: u8 = 20;

/// The kernel. See the crate's documentation.
pub struct Kernel {
    pub(crate) config: Config,
    pub(crate) now: Now,
    chance: Box<dyn FnMut() -> u64 + Send>,
    pub(crate) open: IdMap<Entry>,
    pub(crate) specs: Specs,
    pub(crate) in_line: IdMap<Vec<Task>>,
    pub(crate) reading: IdMap<Reading>,
    pub(crate) board: Board,
    pub(crate) admission: Admission,
    pub(crate) sessions: BTreeMap<SessionId, SessionState>,
    pub(crate) holders: IdMap<Hold>,
    pub(crate) vacancies: BTreeMap<VacancyId, Vacancy>,
    pub(crate) workers: BTreeMap<WorkerName, WorkerState>,
    /// Workers that are kept for a job.
    pub(crate) reservations: IdMap<WorkerName>,
    pub(crate) avoids: IdMap<Avoids>,
    pub(crate) successors: IdMap<JobId>,
    pub(crate) dependencies: Dependencies,
    pub(crate) cascade: Cascade,
    pub(crate) in_line_for_group: IdMap<Vec<Task>>,
    /// Groups in the making.
    pub(crate) fills: IdMap<Fill>,
    pub(crate) pending_reads: BTreeMap<u64, PendingRead>,
    pub(crate) links: Links,
    /// Sub-jobs found at start whose parent may be over.
    pub(crate) sub_jobs: Vec<JobId>,
    /// What attempts wait for, and by which of them a job is waited for.
    pub(crate) waits: IdMap<Wait>,
    pub(crate) waiters: IdMap<BTreeSet<JobId>>,
    pub(crate) types: HashMap<TypeName, (u32, Arc<TypeConfig>)>,
    pub(crate) schedules: BTreeMap<ScheduleName, ScheduleState>,
    pub(crate) queue_configs: BTreeMap<QueueName, (u32, Arc<QueueConfig>)>,
    pub(crate) cached: LruCache<JobId, (Job, Vec<PastAttempt>), IdHash>,
    pub(crate) progress: IdMap<Vec<Indicator>>,
    pub(crate) totals: Totals,
    /// When and why the last write failed.
    pub(crate) storage_trouble: Option<(Mono, String)>,
    pub(crate) pool: Pool,
    pub(crate) blocks: Blocks,
    pub(crate) for_ids: Vec<Task>,
    pub(crate) deadlines: Deadlines,
    pub(crate) rest_until: Option<Mono>,
    pub(crate) postponed: Vec<Task>,
    pub(crate) stopped: Option<String>,
    /// What waits to be committed, and, in the same order, who waits for that.
    outbox: Vec<Unit>,
    /// About how many rows those will write.
    rows: usize,
    senders: Vec<Pending>,
    room: usize,
    pub(crate) in_flight: BTreeMap<u64, Vec<Pending>>,
    asked: Vec<StoreRequest>,
    effects: Vec<Effect>,
    counter: u64,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("open", &self.open.len()).field("stopped", &self.stopped).finish()
    }
}

impl Kernel {
    /// A kernel that remembers nothing yet. `chance` gives random bits: leases are made of them.
    pub fn new(config: Config, now: Now, chance: Box<dyn FnMut() -> u64 + Send>) -> Kernel {
        let cached = NonZeroUsize::new(config.cached).unwrap_or(NonZeroUsize::MIN);
        Kernel {
            config,
            now,
            chance,
            open: IdMap::default(),
            specs: Specs::default(),
            in_line: IdMap::default(),
            reading: IdMap::default(),
            board: Board::default(),
            admission: Admission::default(),
            sessions: BTreeMap::new(),
            holders: IdMap::default(),
            vacancies: BTreeMap::new(),
            workers: BTreeMap::new(),
            reservations: IdMap::default(),
            avoids: IdMap::default(),
            successors: IdMap::default(),
            dependencies: Dependencies::default(),
            cascade: Cascade::default(),
            in_line_for_group: IdMap::default(),
            fills: IdMap::default(),
            pending_reads: BTreeMap::new(),
            links: Links::default(),
            sub_jobs: Vec::new(),
            waits: IdMap::default(),
            waiters: IdMap::default(),
            types: HashMap::new(),
            schedules: BTreeMap::new(),
            queue_configs: BTreeMap::new(),
            cached: LruCache::with_hasher(cached, IdHash::default()),
            progress: IdMap::default(),
            totals: Totals::new(now),
            storage_trouble: None,
            pool: Pool::new(config.block),
            blocks: Blocks::default(),
            for_ids: Vec::new(),
            deadlines: Deadlines::new(now, &config),
            rest_until: None,
            postponed: Vec::new(),
            stopped: None,
            outbox: Vec::new(),
            rows: 0,
            senders: Vec::new(),
            room: 0,
            in_flight: BTreeMap::new(),
            asked: Vec::new(),
            effects: Vec::new(),
            counter: 0,
        }
    }

    /// Takes a request; its answer comes as an effect with this ticket.
    pub fn ask(&mut self, now: Now, request: Request, ticket: Ticket) {
        self.now = now;
        self.run(AgendaItem::Request(request, ticket).into());
        self.carry_on();
    }

    /// Hears what the store said. The results of a commit may come in parts.
    pub fn store_replied(&mut self, now: Now, told: StoreReply) {
        self.now = now;
        match told {
            StoreReply::Committed(number, result) => {
                let mut pending = self.in_flight.remove(&number).unwrap_or_default();
                if let Ok(part) = &result
                    && part.results.len() < pending.len()
                {
                    self.in_flight.insert(number, pending.split_off(part.results.len()));
                }
                self.settle(pending, result);
            }
            StoreReply::Block(result) => self.lent(result),
            StoreReply::Settled(changes, result) => self.blocks_settled(changes, result.as_ref().err()),
            StoreReply::Pruned(result) => self.pruned(result),
            StoreReply::Removed(ticket, ids, result) => self.removed(ticket, &ids, result),
            StoreReply::Job(id, result) => self.loaded(id, result),
            StoreReply::Completed(result) => self.retention_page(result),
            StoreReply::Jobs(number, result) => self.jobs_read(number, result),
            StoreReply::Members(number, result) => self.members_read(number, result),
            StoreReply::Emptied(result) => self.emptied_page(result),
        }
        self.carry_on();
        self.retry_waiters();
    }

    fn jobs_read(&mut self, number: u64, result: Result<Vec<Option<Job>>, StoreError>) {
        match self.pending_reads.remove(&number) {
            Some(PendingRead::Ends(ids)) => self.ends_read(ids, result),
            Some(PendingRead::Plan(plan, ids)) => self.surveyed(*plan, ids, result),
            Some(PendingRead::Fill(group, ids)) => self.make_slice(group, ids, result),
            Some(PendingRead::Made(group, left)) => self.made_read(group, left, result),
            Some(PendingRead::RetryGroup(..) | PendingRead::Resume(..)) | None => {}
        }
    }

    fn members_read(&mut self, number: u64, result: Result<Option<(Group, Vec<Member>)>, StoreError>) {
        match self.pending_reads.remove(&number) {
            Some(PendingRead::RetryGroup(id, name, ticket)) => self.make_retry(id, name, ticket, result),
            Some(PendingRead::Resume(id, from, old)) => self.resume_retry((id, from), old, result),
            _ => {}
        }
    }

    /// About how many rows wait to be written.
    pub fn waiting_rows(&self) -> usize {
        self.rows
    }

    /// The units that wait to be committed together, with a number for the answer.
    pub fn take_commit(&mut self) -> Option<(u64, Vec<Unit>)> {
        if self.outbox.is_empty() || self.stopped.is_some() {
            return None;
        }
        // Room for the next batches, which will be about as large, is made at once.
        self.room = self.outbox.len().max(self.room / 2);
        let units = mem::replace(&mut self.outbox, Vec::with_capacity(self.room));
        let pending = mem::replace(&mut self.senders, Vec::with_capacity(self.room));
        self.rows = 0;
        let number = self.number();
        self.in_flight.insert(number, pending);
        Some((number, units))
    }

    /// What else is wanted of the store.
    pub fn take_store_requests(&mut self) -> Vec<StoreRequest> {
        mem::take(&mut self.asked)
    }

    /// What is to be done outside, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let room = self.effects.len();
        mem::replace(&mut self.effects, Vec::with_capacity(room))
    }

    /// How many jobs are open.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Whether nothing is on its way to the store or waits to be.
    pub fn is_idle(&self) -> bool {
        self.outbox.is_empty()
            && self.in_flight.is_empty()
            && self.asked.is_empty()
            && self.reading.is_empty()
            && self.pending_reads.is_empty()
            && self.dependencies.is_idle()
            && self.cascade.is_idle()
    }

    /// Why the kernel takes nothing more, if so.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(crate) fn lease(&mut self) -> LeaseId {
        let (high, low) = ((self.chance)(), (self.chance)());
        LeaseId(u128::from(high) << 64 | u128::from(low))
    }

    /// A number that nobody can guess and that no other start of the hall gives.
    pub(crate) fn secret(&mut self) -> u64 {
        (self.chance)()
    }

    pub(crate) fn dice(&mut self) -> Dice {
        Dice((self.chance)())
    }

    pub(crate) fn send(&mut self, unit: Unit, pending: Pending) {
        match &self.stopped {
            None => {
                self.rows += unit.rows();
                self.outbox.push(unit);
                self.senders.push(pending);
            }
            Some(message) => {
                let error = CommitError::Stopped { message: message.clone() };
                self.undone(pending, &error);
            }
        }
    }

    /// Whoever still waits for units that were not sent is told why they never will be.
    pub(crate) fn refuse_outbox(&mut self, message: &str) {
        let error = CommitError::Stopped { message: message.to_owned() };
        self.outbox.clear();
        self.rows = 0;
        for pending in mem::take(&mut self.senders) {
            self.undone(pending, &error);
        }
    }

    pub(crate) fn want(&mut self, asked: StoreRequest) {
        self.asked.push(asked);
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Result<Answer, Rejected>) {
        self.effects.push(Effect::Answer(ticket, answer));
    }

    /// Answers whoever waits for this task, if anyone does.
    pub(crate) fn answer_task(&mut self, task: &Task, answer: Result<Answer, Rejected>) {
        match &task.what {
            AgendaItem::Request(_, ticket) => self.answer(*ticket, answer),
            AgendaItem::Submit(plan) => {
                if let Err(refused) = answer {
                    self.reply(plan.reply_to.clone(), Err(refused));
                }
            }
            _ => {}
        }
    }
}
