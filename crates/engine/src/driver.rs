//! The thin driver: it passes requests to the kernel, units to the store, and effects to their recipients.
//!
//! Everything that arrives while a commit is in progress goes into the next one, so batches grow with the load. The
//! driver delays a small commit only while requests are pending that will enlarge it. A second commit is sent while
//! the first is in progress once it is at least half as large, which keeps the store busy while the kernel works; a
//! smaller one waits until the first has finished.
//!
//! Requests, and the results of a large commit, are processed in slices: the output of one slice goes to the store and
//! to the callers while the kernel works on the next.

mod commit;
mod gather;
mod groups;
mod job_reply;
mod mailbox;
mod panics;
mod progress;
mod read;
mod records;
mod removals;
mod replies;
mod restore;
mod session;
mod settings;
mod woken;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jobhall_core::{JobId, NewJob, QueueName, Scope, Submitted};
use jobhall_store::{JobFilter, JobPage, Prune, Store, StoreError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thiserror::Error;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::job_log_events::JobLog;
use crate::watch::{JobChanges, Published, Watch};
use commit::{Heard, UnderWay, first};
use gather::Gather;
use jobhall_core::IdMap;
use jobhall_kernel::Config;
use jobhall_kernel::Explanation;
use jobhall_kernel::Now;
use jobhall_kernel::Tally;
use jobhall_kernel::{Answer, Rejected, Reply, Shown};
use jobhall_kernel::{Counts, Takers};
use jobhall_kernel::{Effect, SessionId, Ticket, WorkerUse};
use jobhall_kernel::{HallRequest, JobRequest, Request, SessionRequest, Submit, TypedRequest};
use jobhall_kernel::{Kernel, StoreReply, StoreRequest};
use read::read;
use removals::Removals;
use replies::Replies;
use woken::Woken;

pub use gather::Answers;
pub use session::{Opening, Session, SessionEvent};

/// Maximum number of requests that wait for the kernel.
const WAITING: usize = 65_536;
/// Requests taken, and units of a commit passed to the kernel, before their output is sent.
const SLICE: usize = 64;
/// Published changes that a slow watcher may lag behind before it reads the store.
const BEHIND: usize = 4_096;
/// Longest sleep while a deadline on the wall clock is pending, because that clock may be changed.
const NAP_MS: u64 = 30_000;
/// The reason given by an engine that was shut down.
const SHUT_DOWN: &str = "it was shut down";
/// The reason given by an engine whose store reports that this node may no longer be the leader.
const LEADERSHIP_LOST: &str = "another node may have become the leader";

/// Why the engine did not start or does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// The store could not be read at start.
    #[error("failed to start: {0}")]
    Start(#[from] StoreError),
    /// The kernel rejected the request.
    #[error(transparent)]
    Rejected(#[from] Rejected),
}

/// Passes a request to the kernel, and its answer to the caller.
type Ask = Box<dyn FnOnce(&mut Driver, Now) + Send>;

enum Command {
    Ask(Ask),
    Stop,
}

/// A handle to the engine. All clones refer to the same engine.
#[derive(Clone)]
pub struct Engine {
    commands: mpsc::Sender<Command>,
    published: broadcast::Sender<Published>,
    store: Arc<dyn Store>,
    stopped: watch::Receiver<Option<String>>,
    removals: Removals,
}

impl Engine {
    /// Reads the open jobs and starts the driver on the current tokio runtime.
    pub async fn start(
        store: Arc<dyn Store>,
        config: Config,
        clock: impl Clock,
    ) -> Result<Engine, EngineError> {
        let mut random = StdRng::from_rng(&mut rand::rng());
        let mut kernel = Kernel::new(config, clock.now(), Box::new(move || random.next_u64()));
        kernel.observe(Box::new(JobLog));
        restore::settings(store.as_ref(), &mut kernel).await?;
        kernel.restore_blocks(&store.blocks().await?);
        groups::restore(store.as_ref(), &mut kernel).await?;
        restore::jobs(&store, &mut kernel).await?;
        restore::links(store.as_ref(), &mut kernel).await?;
        kernel.begin();
        let (commands, received) = mpsc::channel(WAITING);
        let (published, _) = broadcast::channel(BEHIND);
        let (why, stopped) = watch::channel(None);
        let why_panicked = why.clone();
        let removals = Removals::default();
        let driver = Driver {
            kernel,
            clock: Box::new(clock),
            store: store.clone(),
            published: published.clone(),
            replies: Replies::default(),
            sessions: IdMap::default(),
            under_way: VecDeque::new(),
            heard: VecDeque::new(),
            last_rows: 0,
            more: false,
            told: mpsc::unbounded_channel(),
            stopping: false,
            throttle: progress::Throttle::default(),
            why,
            removals: removals.clone(),
        };
        let running = tokio::spawn(driver.run(received));
        tokio::spawn(panics::report(running, why_panicked));
        Ok(Engine { commands, published, store, stopped, removals })
    }

    /// Sends a request and waits for its answer.
    pub async fn ask<T: Reply>(
        &self,
        request: impl FnOnce(Ticket<T>) -> TypedRequest + Send + 'static,
    ) -> Result<T, Rejected> {
        let (to, answer) = oneshot::channel();
        // The caller may have given up meanwhile.
        let waiter = |_: &mut Driver, result| drop(to.send(result));
        self.send(Command::Ask(Box::new(|driver, now| driver.ask(now, request, Box::new(waiter))))).await?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Sends requests of one kind at once; the answers are returned together, in order.
    async fn ask_each<T: Reply, F>(
        &self,
        requests: impl ExactSizeIterator<Item = F>,
    ) -> Result<Vec<Result<T, Rejected>>, Rejected>
    where
        F: FnOnce(Ticket<T>) -> TypedRequest + Send + 'static,
    {
        let (gather, answers) = Gather::of(requests.len());
        for (at, request) in requests.enumerate() {
            let gather = gather.clone();
            let waiter = move |_: &mut Driver, result| gather.put(at, result);
            self.send(Command::Ask(Box::new(|driver, now| driver.ask(now, request, Box::new(waiter)))))
                .await?;
        }
        answers.await
    }

    /// Sends many requests at once; the answers are returned together, in order.
    pub async fn ask_many(&self, requests: Vec<Request>) -> Result<Vec<Result<Answer, Rejected>>, Rejected> {
        self.begin_many(requests).await?.await
    }

    /// Hands over many requests and returns as soon as the engine has them, so that the next can be sent before these
    /// are answered. The engine processes them in order.
    pub async fn begin_many(&self, requests: Vec<Request>) -> Result<Answers, Rejected> {
        let (gather, answers) = Gather::of(requests.len());
        for (at, request) in requests.into_iter().enumerate() {
            let gather = gather.clone();
            self.send(Command::Ask(Box::new(move |driver, now| driver.ask_part(now, request, gather, at))))
                .await?;
        }
        Ok(answers)
    }

    async fn send(&self, command: Command) -> Result<(), Rejected> {
        self.commands.send(command).await.map_err(|_| gone())
    }

    /// Submits jobs, all or nothing.
    pub async fn submit(&self, submit: Submit) -> Result<Vec<Submitted>, Rejected> {
        match self.ask(|to| TypedRequest::Hall(HallRequest::Submit { submit, to })).await {
            Err(refused) => Err(self.ended_or_none(refused).await),
            submitted => submitted,
        }
    }

    /// Submits one job.
    pub async fn submit_one(&self, job: NewJob) -> Result<Submitted, Rejected> {
        let submitted = self.submit(Submit { jobs: vec![job], ..Submit::default() }).await?;
        submitted.first().copied().ok_or_else(gone)
    }

    /// Returns a job, without its ended attempts.
    pub async fn show(&self, id: JobId) -> Result<Shown, Rejected> {
        Ok(*self.ask(move |to| TypedRequest::Job(id, JobRequest::Show { to })).await?)
    }

    /// Returns each of these jobs.
    pub async fn show_each(&self, ids: &[JobId]) -> Result<Vec<Result<Box<Shown>, Rejected>>, Rejected> {
        let show = |&id: &JobId| move |to| TypedRequest::Job(id, JobRequest::Show { to });
        self.ask_each(ids.iter().map(show)).await
    }

    /// Returns why a job is not running.
    pub async fn explain(&self, id: JobId) -> Result<Explanation, Rejected> {
        Ok(*self.ask(move |to| TypedRequest::Job(id, JobRequest::Explain { to })).await?)
    }

    /// Returns all counts.
    pub async fn counts(&self) -> Result<Counts, Rejected> {
        Ok(*self.ask(|to| TypedRequest::Hall(HallRequest::Counts { to })).await?)
    }

    /// Returns the resources in use of every worker.
    pub async fn workers(&self) -> Result<Vec<WorkerUse>, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::Workers { to })).await
    }

    /// Returns one queue, or none if it is unknown: it has no open job and had none recently.
    pub async fn queue(&self, name: QueueName) -> Result<Option<(Tally, Takers)>, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::Queue { name, to })).await
    }

    /// Returns queues of this scope by name, after this one.
    pub async fn queues(
        &self,
        after: Option<QueueName>,
        scope: Scope,
        limit: usize,
    ) -> Result<Vec<(QueueName, Tally)>, Rejected> {
        self.ask(move |to| TypedRequest::Hall(HallRequest::Queues { after, scope, limit, to })).await
    }

    /// Lists jobs as stored, newest first.
    pub async fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Result<JobPage, StoreError> {
        self.store.list(filter, before, limit).await
    }

    /// Removes those of these jobs that are completed, and returns how many were removed.
    pub async fn remove(&self, ids: Vec<JobId>) -> Result<u64, Rejected> {
        self.ask(|to| TypedRequest::Hall(HallRequest::Remove { ids, to })).await
    }

    /// Follows the feed after this position; 0 is the beginning.
    pub fn watch(&self, after: u64) -> Watch {
        Watch::new(self.store.clone(), self.published.subscribe(), after)
    }

    /// The changes of a job from now on.
    pub fn changes_of(&self, id: JobId) -> JobChanges {
        JobChanges::new(self.published.subscribe(), id)
    }

    /// Waits until the engine has stopped, and returns the reason.
    pub async fn stopped(&self) -> String {
        let mut stopped = self.stopped.clone();
        // An error means that the engine was shut down or that its runtime ends.
        let why = stopped.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| SHUT_DOWN.to_owned())
    }

    /// Finishes the work in progress and stops. Leases remain valid; the next start finds them.
    pub async fn stop(&self) {
        if self.commands.send(Command::Stop).await.is_ok() {
            self.commands.closed().await;
        }
    }
}

fn gone() -> Rejected {
    Rejected::Stopped(SHUT_DOWN.to_owned())
}

struct Driver {
    kernel: Kernel,
    clock: Box<dyn Clock>,
    store: Arc<dyn Store>,
    published: broadcast::Sender<Published>,
    replies: Replies,
    sessions: IdMap<SessionId, mailbox::Sender>,
    under_way: VecDeque<UnderWay>,
    /// Replies of the store that the kernel has not fully processed, oldest first.
    heard: VecDeque<Heard>,
    /// Approximate number of rows of the last commit.
    last_rows: usize,
    /// Whether requests are pending that were not taken yet.
    more: bool,
    told: (mpsc::UnboundedSender<StoreReply>, mpsc::UnboundedReceiver<StoreReply>),
    stopping: bool,
    throttle: progress::Throttle,
    /// Publishes why the engine stopped.
    why: watch::Sender<Option<String>>,
    removals: Removals,
}

impl Driver {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut taken = Vec::with_capacity(SLICE);
        loop {
            self.carry_out();
            if self.kernel.stopped().is_some() || (self.stopping && self.kernel.is_idle()) {
                break;
            }
            let nap = self.nap();
            let woken = tokio::select! {
                biased;
                result = first(&mut self.under_way), if !self.under_way.is_empty() => Woken::Committed(result),
                Some(told) = self.told.1.recv() => Woken::StoreReply(Box::new(told)),
                n = commands.recv_many(&mut taken, SLICE), if !self.stopping => Woken::Commands(n),
                () = std::future::ready(()), if !self.heard.is_empty() => Woken::Heard,
                () = nap => Woken::Time,
            };
            if matches!(woken, Woken::Commands(_)) && taken.len() < SLICE && self.heard.is_empty() {
                // Callers about to send a request do so first: many are answered at once, and each then sends its next
                // request.
                tokio::task::yield_now().await;
                while taken.len() < SLICE
                    && let Ok(command) = commands.try_recv()
                {
                    taken.push(command);
                }
            }
            self.more = !commands.is_empty();
            // Before any decision, check that this node still leads: its last renewal may be long ago.
            if !self.store.may_lead() {
                self.kernel.lose_leadership(LEADERSHIP_LOST);
                break;
            }
            self.woken(woken, &mut taken);
            let now = self.clock.now();
            self.pass_on(now);
            self.kernel.tick(now);
            self.publish_due(now.mono);
        }
        self.pass_on_all(self.clock.now());
        self.carry_out();
        self.finish(taken, commands);
        self.carry_out();
    }

    fn nap(&self) -> tokio::time::Sleep {
        let now = self.clock.now();
        let due = [self.kernel.next_tick_ms(now), self.throttle.next_ms(now.mono)];
        let ms = due.into_iter().flatten().fold(NAP_MS, u64::min);
        tokio::time::sleep(Duration::from_millis(ms))
    }

    fn command(&mut self, now: Now, command: Command) {
        match command {
            Command::Ask(ask) => ask(self, now),
            Command::Stop => self.stopping = true,
        }
    }

    /// Carries out everything that the kernel has requested.
    fn carry_out(&mut self) {
        loop {
            let effects = self.kernel.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.effect(effect);
            }
        }
        for asked in self.kernel.take_store_requests() {
            self.asked(asked);
        }
        self.commit();
    }

    fn asked(&mut self, asked: StoreRequest) {
        let (store, told, removals) = (self.store.clone(), self.told.0.clone(), self.removals.clone());
        tokio::spawn(async move {
            let answer = match asked {
                StoreRequest::TakeBlock(size) => StoreReply::Block(store.take_block(size).await),
                StoreRequest::SettleBlocks(changes) => {
                    let result = store.settle_blocks(changes.clone()).await;
                    StoreReply::Settled(changes, result)
                }
                StoreRequest::Prune(prune) => {
                    let jobs = prune.jobs.clone();
                    let result = store.prune(prune).await;
                    removals.pass_on(&result);
                    StoreReply::Pruned(jobs, result)
                }
                StoreRequest::Remove(ticket, jobs) => {
                    let prune = Prune { jobs: jobs.clone(), ..Prune::default() };
                    let result = store.prune(prune).await;
                    removals.pass_on(&result);
                    StoreReply::Removed(ticket, jobs, result)
                }
                StoreRequest::Job(id) => StoreReply::Job(id, read(store.as_ref(), id).await),
                StoreRequest::Completed(after, limit) => {
                    StoreReply::Completed(store.completed(after, limit).await)
                }
                StoreRequest::Count { round, after, last, except } => {
                    StoreReply::Counted(round, store.count_completed(after, last, except).await)
                }
                StoreRequest::Jobs(number, ids) => StoreReply::Jobs(number, store.jobs(ids).await),
                StoreRequest::Members(number, group) => {
                    StoreReply::Members(number, groups::read(store.as_ref(), group).await)
                }
                StoreRequest::Emptied(before, ended_before, limit) => {
                    StoreReply::Emptied(groups::emptied(store.as_ref(), before, ended_before, limit).await)
                }
            };
            let _ = told.send(answer);
        });
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Answer(answer) => self.answer(answer),
            Effect::Live(id, state) => {
                let _ = self.published.send(Published::Live(id, state));
            }
            Effect::Progress(id) => self.progressed(id),
            Effect::GroupEnded(id, state) => {
                let _ = self.published.send(Published::Group(id, state));
            }
            Effect::Stop(why) => {
                tracing::error!(why, "the engine stops");
                self.why.send_replace(Some(why));
            }
            Effect::SessionEnded(session) => {
                self.tell(session, SessionEvent::Ended);
                self.sessions.remove(&session);
            }
            Effect::Assign(session, assignment) => {
                self.tell(session, SessionEvent::Assigned(Box::new(assignment)));
            }
            Effect::Cancel(session, attempt) => self.tell(session, SessionEvent::Cancel(attempt)),
            Effect::TimeOut(session, attempt) => self.tell(session, SessionEvent::TimeOut(attempt)),
            Effect::Resumed(session, attempt, jobs) => {
                self.tell(session, SessionEvent::Resumed(attempt, jobs));
            }
            Effect::Revoke(session, attempt) => self.tell(session, SessionEvent::Revoked(attempt)),
            Effect::VacancyEnded(session, id, why) => self.tell(session, SessionEvent::VacancyEnded(id, why)),
        }
    }

    /// Sends an event to a session. A worker that is gone or does not read its events is disconnected.
    fn tell(&mut self, session: SessionId, event: SessionEvent) {
        let Some(worker) = self.sessions.get(&session) else { return };
        if worker.send(event).is_err() {
            self.sessions.remove(&session);
            let disconnect = |to| TypedRequest::Session(session, SessionRequest::Disconnect { to });
            self.ask(self.clock.now(), disconnect, Box::new(|_, _| {}));
        }
    }
}
