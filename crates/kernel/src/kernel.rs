//! The kernel: its state in memory and its entry points.

mod agenda;
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

pub(crate) use agenda::{Agenda, AgendaItem};

use crate::api::answer::{Answer, Rejected};
use crate::api::config::Config;
use crate::api::effect::{Effect, SessionId, Ticket, VacancyId};
use crate::api::observer::Observer;
use crate::api::request::{IdempotencyKey, Indicator, Request};
use crate::api::time::{Mono, Now};
use crate::attempts::session::{Hold, SessionState};
use crate::attempts::wait::Wait;
use crate::commits::settle::Pending;
use crate::groups::Fill;
use crate::jobs::entry::Entry;
use crate::jobs::ids::{Blocks, IdHash, IdMap, Pool};
use crate::jobs::specs::Specs;
use crate::limits::Admission;
use crate::matching::avoid::Avoids;
use crate::matching::board::Board;
use crate::matching::resources::WorkerState;
use crate::matching::vacancy::Vacancy;
use crate::relations::cascade::{Cascade, CascadeCause};
use crate::relations::dependencies::Dependencies;
use crate::relations::links::Links;
use crate::schedules::ScheduleState;
use crate::stats::counts::Totals;
use crate::submit::Plan;
use crate::upkeep::Deadlines;

/// A request of the kernel to the store, other than a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// Allocate a block of this many ids.
    TakeBlock(u64),
    /// Close or shrink blocks.
    SettleBlocks(Vec<BlockChange>),
    /// Remove records whose retention has expired.
    Prune(Prune),
    /// Remove those of these jobs that are completed, on behalf of this ticket.
    Remove(Ticket, Vec<JobId>),
    /// Read a job and its ended attempts.
    Job(JobId),
    /// Read completed jobs with ids below this one, newest first.
    Completed(Option<JobId>, usize),
    /// Read these jobs, for the pending read with this number.
    Jobs(u64, Vec<JobId>),
    /// Read a group and all its members, for the pending read with this number.
    Members(u64, GroupId),
    /// Read groups below this id that ended before this time and have no jobs left, newest first.
    Emptied(Option<GroupId>, Time, usize),
}

/// A reply of the store.
#[derive(Clone, Debug)]
pub enum StoreReply {
    /// The result of the commit with this number.
    Committed(u64, Result<Committed, CommitError>),
    /// The reply to [`StoreRequest::TakeBlock`].
    Block(Result<Block, CommitError>),
    /// The reply to [`StoreRequest::SettleBlocks`].
    Settled(Vec<BlockChange>, Result<(), CommitError>),
    /// The reply to [`StoreRequest::Prune`].
    Pruned(Result<Pruned, CommitError>),
    /// The reply to [`StoreRequest::Remove`].
    Removed(Ticket, Vec<JobId>, Result<Pruned, CommitError>),
    /// The reply to [`StoreRequest::Job`].
    Job(JobId, Result<(Option<Job>, Vec<PastAttempt>), StoreError>),
    /// The reply to [`StoreRequest::Completed`].
    Completed(Result<Vec<Completed>, StoreError>),
    /// The reply to [`StoreRequest::Jobs`], in the order of the request.
    Jobs(u64, Result<Vec<Option<Job>>, StoreError>),
    /// The reply to [`StoreRequest::Members`].
    Members(u64, Result<Option<(Group, Vec<Member>)>, StoreError>),
    /// The reply to [`StoreRequest::Emptied`]: the groups, and the last group that was examined.
    Emptied(Result<(Vec<GroupId>, Option<GroupId>), StoreError>),
}

/// A continuation that waits for jobs or members to be read.
#[derive(Debug)]
pub(crate) enum PendingRead {
    /// Determine how these jobs, on which others depend, have ended.
    Ends(Vec<JobId>),
    /// A submit that refers to jobs that are not in memory.
    Plan(Box<Plan>, Vec<JobId>),
    /// A retry of a group.
    RetryGroup(GroupId, Option<IdempotencyKey>, Ticket),
    /// A group that is being filled from these failed members of another group.
    Fill(GroupId, Vec<JobId>),
    /// A group whose filling from another group was interrupted by a stop, and the failed members of that other group
    /// once they are known.
    Resume(GroupId, GroupId, Option<Vec<JobId>>),
    /// The same, with members of the new group that are still to be read.
    Made(GroupId, Vec<JobId>),
}

/// A task that waits for a busy job, for ids, or for the store to recover.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub what: TaskKind,
    /// How often the decision was repeated because of conflicting writes.
    pub rounds: u8,
    /// What was read about the job for this task.
    pub read: Option<Read>,
}

/// What the store returned about a job.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// Whether the job exists.
    pub found: bool,
    /// Its ended attempts.
    pub past: Vec<PastAttempt>,
}

/// A read in progress.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The tasks that the read was made for.
    pub now: Vec<Task>,
    /// Tasks that arrived after the read was sent; they need another read.
    pub later: Vec<Task>,
}

/// What a [`Task`] does.
#[derive(Clone, Debug)]
pub(crate) enum TaskKind {
    Request(Request, Ticket),
    /// A submit that waits for a busy job that it must change.
    Submit(Box<Plan>),
    /// The assignment of this claim was not accepted in time.
    TakeBack(JobId, u32),
    /// The session that held this claim has ended.
    LeaseEnd(JobId, u32, SessionId),
    /// The worker reconnected with this attempt, which counts as accepted.
    Keep(AttemptId, LeaseId),
    /// Store the accepted or running state of this claim.
    Save(JobId, u32),
    /// All dependencies of the job have ended.
    DependenciesMet(JobId),
    /// End the job because of this cause.
    Cascade(JobId, CascadeCause),
    /// Read how these jobs, on which others depend, have ended.
    ReadEnds(Vec<JobId>),
    /// Check whether the group has ended.
    LookAtGroup(GroupId),
    /// Continue to fill a group.
    Fill(GroupId),
    /// Continue to fill a group whose filling was interrupted by a stop.
    ResumeFill(GroupId, GroupId),
    /// The time limit of this claim may have expired.
    TimeOut(JobId, u32),
    /// The external outcome of this claim did not arrive in time.
    ExternalOver(JobId, u32),
    /// The jobs that this claim waited for have ended.
    Resume(JobId, u32),
    /// This claim waits for itself, through other jobs.
    Cycle(JobId, u32, Box<Failure>),
    /// The parents that asked for this job may have ended.
    Orphan(JobId),
    /// The ticks of this schedule wait for ids.
    Tick(ScheduleName),
}

impl From<TaskKind> for Task {
    fn from(what: TaskKind) -> Task {
        Task { what, rounds: 0, read: None }
    }
}

/// Maximum number of times a decision is repeated because of conflicting writes.
pub(crate) const ROUNDS: u8 = 20;

/// What is done at the end of each step, in this order.
const CLOSING: [fn(&mut Kernel); 4] =
    [Kernel::propagate_ends, Kernel::end_groups, Kernel::cascade_all, Kernel::retry_waiters];

/// The kernel. See the crate's documentation.
pub struct Kernel {
    pub(crate) agenda: Agenda,
    pub(crate) config: Config,
    pub(crate) now: Now,
    chance: Box<dyn FnMut() -> u64 + Send>,
    pub(crate) observer: Box<dyn Observer>,
    /// Open jobs, by id.
    pub(crate) open: IdMap<JobId, Entry>,
    pub(crate) specs: Specs,
    /// By busy job: the tasks that wait for it.
    pub(crate) in_line: IdMap<JobId, Vec<Task>>,
    /// By job: the read in progress for it.
    pub(crate) reading: IdMap<JobId, Reading>,
    pub(crate) board: Board,
    pub(crate) admission: Admission,
    pub(crate) sessions: BTreeMap<SessionId, SessionState>,
    /// By job: the session that holds its live attempt.
    pub(crate) holders: IdMap<JobId, Hold>,
    pub(crate) vacancies: BTreeMap<VacancyId, Vacancy>,
    pub(crate) workers: BTreeMap<WorkerName, WorkerState>,
    /// By job: the worker that is reserved for it.
    pub(crate) reservations: IdMap<JobId, WorkerName>,
    /// By job: the workers that it avoids.
    pub(crate) avoids: IdMap<JobId, Avoids>,
    /// By holder of a key: the job that waits for the key.
    pub(crate) successors: IdMap<JobId, JobId>,
    pub(crate) dependencies: Dependencies,
    pub(crate) cascade: Cascade,
    /// By group with a write in flight: the tasks that wait for it.
    pub(crate) in_line_for_group: IdMap<GroupId, Vec<Task>>,
    /// Groups that are being filled.
    pub(crate) fills: IdMap<GroupId, Fill>,
    /// Continuations of reads, by the number of the read.
    pub(crate) pending_reads: BTreeMap<u64, PendingRead>,
    pub(crate) links: Links,
    /// Sub-jobs found at start whose parent may have ended.
    pub(crate) sub_jobs: Vec<JobId>,
    /// By waiting job: what its attempt waits for; `waiters` is the reverse.
    pub(crate) waits: IdMap<JobId, Wait>,
    pub(crate) waiters: IdMap<JobId, BTreeSet<JobId>>,
    /// Type configurations, with their revisions.
    pub(crate) types: HashMap<TypeName, (u32, Arc<TypeConfig>)>,
    pub(crate) schedules: BTreeMap<ScheduleName, ScheduleState>,
    /// Queue configurations, with their revisions.
    pub(crate) queue_configs: BTreeMap<QueueName, (u32, Arc<QueueConfig>)>,
    /// Completed jobs with their ended attempts.
    pub(crate) cached: LruCache<JobId, (Job, Vec<PastAttempt>), IdHash>,
    /// By job: the latest progress of its live attempt.
    pub(crate) progress: IdMap<JobId, Vec<Indicator>>,
    pub(crate) totals: Totals,
    /// When and why the last write failed.
    pub(crate) storage_trouble: Option<(Mono, String)>,
    pub(crate) pool: Pool,
    pub(crate) blocks: Blocks,
    /// Tasks that wait for ids.
    pub(crate) for_ids: Vec<Task>,
    pub(crate) deadlines: Deadlines,
    /// When matching resumes after a failed write.
    pub(crate) rest_until: Option<Mono>,
    /// Tasks to be tried again when matching resumes.
    pub(crate) postponed: Vec<Task>,
    /// Why the kernel stopped, if it did.
    pub(crate) stopped: Option<String>,
    /// Units to be committed; `senders` holds, in the same order, what waits for each of them.
    outbox: Vec<Unit>,
    /// Approximate number of rows that the outbox will write.
    rows: usize,
    senders: Vec<Pending>,
    /// Capacity reserved for the next outbox.
    room: usize,
    /// By commit number: what waits for each of its units.
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
    /// Creates a kernel with empty memory. `chance` returns random bits, from which leases are made.
    pub fn new(config: Config, now: Now, chance: Box<dyn FnMut() -> u64 + Send>) -> Kernel {
        let cached = NonZeroUsize::new(config.cached).unwrap_or(NonZeroUsize::MIN);
        Kernel {
            agenda: Agenda::default(),
            config,
            now,
            chance,
            observer: Box::new(()),
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

    /// Notifies this observer from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = observer;
    }

    /// Handles a request; the answer is an effect with this ticket.
    pub fn ask(&mut self, now: Now, request: Request, ticket: Ticket) {
        self.now = now;
        self.enqueue(TaskKind::Request(request, ticket).into());
        self.finish_step();
    }

    /// Handles a reply of the store. The results of a commit may arrive in parts.
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
        self.finish_step();
    }

    /// Does everything that is on the agenda.
    pub(crate) fn drain(&mut self) {
        while let Some(item) = self.agenda.next() {
            self.handle(item);
        }
    }

    /// Does everything that is on the agenda, then what is done once in each step.
    pub(crate) fn finish_step(&mut self) {
        let mut last = CLOSING.iter();
        loop {
            self.drain();
            match last.next() {
                Some(close) => close(self),
                None => return,
            }
        }
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

    /// Returns the approximate number of rows that wait to be written.
    pub fn waiting_rows(&self) -> usize {
        self.rows
    }

    /// Takes the units that are to be committed together, with the number of the commit.
    pub fn take_commit(&mut self) -> Option<(u64, Vec<Unit>)> {
        if self.outbox.is_empty() || self.stopped.is_some() {
            return None;
        }
        // Reserves room for the next batch, which is likely to be about as large.
        self.room = self.outbox.len().max(self.room / 2);
        let units = mem::replace(&mut self.outbox, Vec::with_capacity(self.room));
        let pending = mem::replace(&mut self.senders, Vec::with_capacity(self.room));
        self.rows = 0;
        let number = self.number();
        self.in_flight.insert(number, pending);
        Some((number, units))
    }

    /// Takes the other requests to the store.
    pub fn take_store_requests(&mut self) -> Vec<StoreRequest> {
        mem::take(&mut self.asked)
    }

    /// Takes the effects to be carried out, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let room = self.effects.len();
        mem::replace(&mut self.effects, Vec::with_capacity(room))
    }

    /// Returns the number of open jobs.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Returns whether nothing is in flight to the store or waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.outbox.is_empty()
            && self.in_flight.is_empty()
            && self.asked.is_empty()
            && self.reading.is_empty()
            && self.pending_reads.is_empty()
            && self.dependencies.is_idle()
            && self.cascade.is_idle()
    }

    /// Returns why the kernel stopped, if it did.
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

    /// Returns a number that cannot be guessed and that differs between starts.
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
                self.agenda.push(AgendaItem::NotStored(pending, error));
            }
        }
    }

    /// Rejects the requests whose units were never sent, with this reason.
    pub(crate) fn refuse_outbox(&mut self, message: &str) {
        let error = CommitError::Stopped { message: message.to_owned() };
        self.outbox.clear();
        self.rows = 0;
        for pending in mem::take(&mut self.senders) {
            self.agenda.push(AgendaItem::NotStored(pending, error.clone()));
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

    /// Answers the request behind this task, if there is one.
    pub(crate) fn answer_task(&mut self, task: &Task, answer: Result<Answer, Rejected>) {
        match &task.what {
            TaskKind::Request(_, ticket) => self.answer(*ticket, answer),
            TaskKind::Submit(plan) => {
                if let Err(refused) = answer {
                    self.reply(plan.reply_to.clone(), Err(refused));
                }
            }
            _ => {}
        }
    }
}
