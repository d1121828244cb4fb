//! The kernel: its state in memory and its entry points.

mod agenda;
mod dispatch;
mod env;
mod task;

use std::fmt;

use jobhall_core::{Group, GroupId, Job, JobId, PastAttempt, Time};
use jobhall_store::{
    Block, BlockChange, CommitError, Committed, CompletedPage, JobCounts, Member, Prune, Pruned, StoreError,
    Unit,
};

pub(crate) use agenda::{Agenda, AgendaItem};
use env::Env;
pub(crate) use task::{HallTask, JobTask, JobWork, Read, Reading, Task};

use crate::api::answer::{GroupCreated, Rejected, Reply};
use crate::api::config::Config;
use crate::api::effect::Effect;
use crate::api::observer::Observer;
use crate::api::request::{IdempotencyKey, TypedRequest};
use crate::api::ticket::Ticket;
use crate::api::time::Now;
use crate::commits::Commits;
use crate::commits::settle::Pending;
use crate::groups::membership::Groups;
use crate::groups::retry::GroupRetry;
use crate::jobs::Jobs;
use crate::jobs::ids::Ids;
use crate::limits::Admission;
use crate::matching::Fleet;
use crate::matching::board::Board;
use crate::relations::Relations;
use crate::settings::Settings;
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
    Remove(Ticket<u64>, Vec<JobId>),
    /// Read a job and its ended attempts.
    Job(JobId),
    /// Read the completed ones among this many jobs after this one, oldest first.
    Completed(Option<JobId>, usize),
    /// Count completed jobs.
    Count {
        /// The number of the counting, for the reply.
        round: u64,
        /// Jobs after this one.
        after: Option<JobId>,
        /// Jobs up to this one.
        last: JobId,
        /// These jobs are not counted.
        except: Vec<JobId>,
    },
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
    /// The reply to [`StoreRequest::Prune`], with the jobs that it named.
    Pruned(Vec<JobId>, Result<Pruned, CommitError>),
    /// The reply to [`StoreRequest::Remove`].
    Removed(Ticket<u64>, Vec<JobId>, Result<Pruned, CommitError>),
    /// The reply to [`StoreRequest::Job`].
    Job(JobId, Result<(Option<Job>, Vec<PastAttempt>), StoreError>),
    /// The reply to [`StoreRequest::Completed`].
    Completed(Result<CompletedPage, StoreError>),
    /// The reply to [`StoreRequest::Count`].
    Counted(u64, Result<JobCounts, StoreError>),
    /// The reply to [`StoreRequest::Jobs`], in the order of the request.
    Jobs(u64, Result<Vec<Option<Job>>, StoreError>),
    /// The reply to [`StoreRequest::Members`].
    Members(u64, Result<Option<(Group, Vec<Member>)>, StoreError>),
    /// The reply to [`StoreRequest::Emptied`]: the groups, and the last group that was examined.
    Emptied(Result<(Vec<GroupId>, Option<GroupId>), StoreError>),
}

/// A continuation that waits for jobs to be read.
#[derive(Debug)]
pub(crate) enum JobsRead {
    /// Determine how these jobs, on which others depend, have ended.
    Ends(Vec<JobId>),
    /// A submit that refers to jobs that are not in memory.
    Plan(Box<Plan>, Vec<JobId>),
    /// A submit that joins jobs whose params are not in memory.
    Joined(Box<Plan>, Vec<JobId>),
    /// A group that is being filled from these failed members of another group.
    Fill(GroupId, Vec<JobId>),
    /// The same, with the members and those of their dependencies that are neither repeated nor open.
    FillInputs(GroupId, Vec<Job>, Vec<JobId>),
    /// A group whose filling from another group was interrupted by a stop, and its members that are still to be read.
    Made(GroupId, Vec<JobId>),
    /// The first failed member of a group that is to be retried.
    Retry(Box<GroupRetry>),
    /// A request for sub-jobs by names that the parent used before: these sub-jobs are completed.
    Calls(Box<JobTask>, Vec<JobId>),
}

/// A continuation that waits for a group and its members to be read.
#[derive(Debug)]
pub(crate) enum MembersRead {
    /// A retry of a group.
    Retry(GroupId, Option<IdempotencyKey>, Ticket<GroupCreated>),
    /// A group whose filling from another group was interrupted by a stop, and the failed members of that other group
    /// once they are known.
    Resume(GroupId, GroupId, Option<Vec<JobId>>),
}

/// Maximum number of times a decision is repeated because of conflicting writes.
pub(crate) const ROUNDS: u8 = 20;

/// What is done at the end of each step, in this order.
const CLOSING: [fn(&mut Kernel); 4] =
    [Kernel::propagate_ends, Kernel::end_groups, Kernel::cascade_all, Kernel::retry_waiters];

/// The kernel. See the crate's documentation.
pub struct Kernel {
    pub(crate) env: Env,
    pub(crate) jobs: Jobs,
    pub(crate) fleet: Fleet,
    pub(crate) board: Board,
    pub(crate) admission: Admission,
    pub(crate) groups: Groups,
    pub(crate) relations: Relations,
    pub(crate) settings: Settings,
    pub(crate) ids: Ids,
    pub(crate) commits: Commits,
    pub(crate) deadlines: Deadlines,
    pub(crate) agenda: Agenda,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("open", &self.jobs.len())
            .field("stopped", &self.commits.stopped())
            .finish()
    }
}

impl Kernel {
    /// Creates a kernel with empty memory. `chance` returns random bits, from which leases are made.
    pub fn new(config: Config, now: Now, chance: Box<dyn FnMut() -> u64 + Send>) -> Kernel {
        Kernel {
            env: Env::new(config, now, chance),
            jobs: Jobs::new(&config, now),
            fleet: Fleet::default(),
            board: Board::default(),
            admission: Admission::default(),
            groups: Groups::default(),
            relations: Relations::default(),
            settings: Settings::new(config.reserved),
            ids: Ids::new(config.block),
            commits: Commits::default(),
            deadlines: Deadlines::new(now, &config),
            agenda: Agenda::default(),
        }
    }

    /// Notifies this observer from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.env.observe(observer);
    }

    /// Handles a request; the answer is an effect with its ticket.
    pub fn ask(&mut self, now: Now, request: TypedRequest) {
        self.env.set_now(now);
        self.enqueue(request);
        self.finish_step();
    }

    /// Handles a reply of the store. The results of a commit may arrive in parts.
    pub fn store_replied(&mut self, now: Now, told: StoreReply) {
        self.env.set_now(now);
        match told {
            StoreReply::Committed(number, result) => {
                let part = result.as_ref().ok().map(|part| part.results.len());
                let pending = self.commits.landed(number, part);
                self.settle(pending, result);
            }
            StoreReply::Block(result) => self.lent(result),
            StoreReply::Settled(changes, result) => self.blocks_settled(changes, result.as_ref().err()),
            StoreReply::Pruned(ids, result) => self.pruned(&ids, result),
            StoreReply::Removed(ticket, ids, result) => self.removed(ticket, &ids, result),
            StoreReply::Job(id, result) => self.loaded(id, result),
            StoreReply::Completed(result) => self.retention_page(result),
            StoreReply::Counted(round, result) => self.counted(round, result),
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
        match self.commits.take_job_read(number) {
            Some(JobsRead::Ends(ids)) => self.ends_read(ids, result),
            Some(JobsRead::Plan(plan, ids)) => self.surveyed(*plan, ids, result),
            Some(JobsRead::Joined(plan, ids)) => self.joined_read(*plan, ids, result),
            Some(JobsRead::Fill(group, ids)) => self.make_slice(group, ids, result),
            Some(JobsRead::FillInputs(group, old, ids)) => self.inputs_read(group, &old, ids, result),
            Some(JobsRead::Made(group, left)) => self.made_read(group, left, result),
            Some(JobsRead::Retry(retry)) => self.retry_read(*retry, result),
            Some(JobsRead::Calls(task, ids)) => self.calls_read(*task, &ids, result),
            // The kernel stopped meanwhile.
            None => {}
        }
    }

    fn members_read(&mut self, number: u64, result: Result<Option<(Group, Vec<Member>)>, StoreError>) {
        match self.commits.take_member_read(number) {
            Some(MembersRead::Retry(id, name, ticket)) => self.make_retry(id, name, ticket, result),
            Some(MembersRead::Resume(id, from, old)) => self.resume_retry((id, from), old, result),
            // The kernel stopped meanwhile.
            None => {}
        }
    }

    /// Returns the approximate number of rows that wait to be written.
    pub fn waiting_rows(&self) -> usize {
        self.commits.waiting_rows()
    }

    /// Takes the units that are to be committed together, with the number of the commit.
    pub fn take_commit(&mut self) -> Option<(u64, Vec<Unit>)> {
        self.commits.take(|| self.env.number())
    }

    /// Takes the other requests to the store.
    pub fn take_store_requests(&mut self) -> Vec<StoreRequest> {
        self.commits.take_requests()
    }

    /// Takes the effects to be carried out, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.commits.take_effects()
    }

    /// Returns the number of open jobs.
    pub fn open_count(&self) -> usize {
        self.jobs.len()
    }

    /// Returns whether nothing is in flight to the store or waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.commits.is_idle() && self.jobs.is_idle() && self.relations.is_idle()
    }

    /// Returns why the kernel stopped, if it did.
    pub fn stopped(&self) -> Option<&str> {
        self.commits.stopped()
    }

    pub(crate) fn send(&mut self, unit: Unit, pending: Pending) {
        if let Err((pending, message)) = self.commits.send(unit, pending) {
            self.agenda.push(AgendaItem::NotStored(pending, CommitError::Stopped { message }));
        }
    }

    pub(crate) fn want(&mut self, request: StoreRequest) {
        self.commits.want(request);
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.commits.effect(effect);
    }

    pub(crate) fn answer<T: Reply>(&mut self, to: Ticket<T>, result: Result<T, Rejected>) {
        self.commits.effect(Effect::Answer(T::answer(to, result)));
    }
}
