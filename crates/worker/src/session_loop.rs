//! The session loop: one session with the server grants credit for free slots, receives assignments, which an executor
//! runs, and renews all leases. If the connection breaks, the loop reconnects and names the attempts it still has.

mod in_flight;
pub(crate) mod link;
mod offering;
pub(crate) mod outbox;
mod term;
mod way;

use std::collections::VecDeque;
use std::time::Duration;

use jobhall_client::{Backoff, Client, ClientError, Session};
use jobhall_core::{AttemptId, LeaseId};
use jobhall_protocol::{AttemptRef, Code, Hello, ToServer, ToWorker, Welcome, Word};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::executor::reporter::{Begun, Order, Reporter, broken};
use crate::executor::{Assignment, Executor};
use crate::offers::Offers;
use crate::slots::Slots;
use crate::worker::{Connected, Shutdown, Until};
use in_flight::{InFlight, start};
use link::Link;
use offering::{CannotReplace, Offering};
use outbox::{OutboundMessage, Outbox};
use term::Term;
use way::{News, Way};

/// Maximum number of queued messages of attempts.
const OUTBOUND: usize = 1_024;

/// The outcome of a job that ends within this time implies that it was accepted and started, which saves a frame.
const START: Duration = Duration::from_millis(20);

/// How long a worker waits for its name while another process is connected under it: longer than the default lease.
const NAME_WAIT: Duration = Duration::from_secs(45);
/// Pause between two tries.
const NAME_PAUSE: Duration = Duration::from_secs(3);

/// Whether an error of the server is about the token, so that no later try succeeds.
fn is_refusal(error: &ClientError) -> bool {
    matches!(error.code(), Some(Code::Unauthorized | Code::Forbidden))
}

/// An attempt whose start is not reported yet.
struct Unreported {
    /// When to do that.
    at: Instant,
    attempt: AttemptId,
    lease: LeaseId,
    /// Whether its accept was reported.
    accepted: bool,
}

/// Waits for this time; forever if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// What a session loop needs.
pub(crate) struct LoopOptions<E> {
    /// The client, with the worker's token.
    pub client: Client,
    pub executor: E,
    pub slots: Slots,
    /// Maximum number of attempts that run at once.
    pub count: u64,
    /// The first message of each session; the offer and the attempts are added.
    pub hello: Hello,
    pub offers: Offers,
    /// The configured name.
    pub named: Option<String>,
    pub until: Until,
    /// Called once, when the first session begins, with the name of the worker on the server.
    pub connected: Connected,
}

pub(crate) struct SessionLoop<E> {
    client: Client,
    executor: E,
    slots: Slots,
    count: u64,
    hello: Hello,
    offering: Offering,
    /// The configured name, until it was compared with the name that the server uses.
    named: Option<String>,
    in_flight: InFlight,
    /// The attempts named in the last hello.
    brought: Vec<AttemptRef>,
    tasks: JoinSet<()>,
    to_loop: mpsc::Sender<OutboundMessage>,
    outbound: mpsc::Receiver<OutboundMessage>,
    way: Way,
    patience: Backoff,
    term: Term,
    /// Attempts whose accept and start are not reported yet, and when to do that; the earliest first.
    starts: VecDeque<Unreported>,
    /// Assignments received in this session.
    heard: i64,
    /// The last credit sent in this session.
    said: Option<i64>,
    until: Until,
    /// Whether an operator drains it.
    drained: bool,
    /// Assignments received in all sessions.
    taken: u64,
    /// When it last had a job, or started.
    idle_since: Instant,
    connected: Option<Connected>,
    /// Why the server refused the worker: its token is not valid, or its name is taken.
    refused: Option<ClientError>,
    /// Since when another process is connected under the name of this worker.
    name_taken: Option<Instant>,
}

impl<E: Executor> SessionLoop<E> {
    pub fn new(options: LoopOptions<E>) -> SessionLoop<E> {
        let LoopOptions { client, executor, slots, count, hello, offers, named, until, connected } = options;
        let (to_loop, outbound) = mpsc::channel(OUTBOUND);
        SessionLoop {
            client,
            executor,
            slots,
            count,
            hello,
            offering: Offering::new(offers),
            named,
            in_flight: InFlight::default(),
            brought: Vec::new(),
            tasks: JoinSet::new(),
            to_loop,
            outbound,
            way: Way::Away(Instant::now()),
            patience: Backoff::of_a_worker(),
            term: Term::unknown(),
            starts: VecDeque::new(),
            heard: 0,
            said: None,
            until,
            drained: false,
            taken: 0,
            idle_since: Instant::now(),
            connected: Some(connected),
            refused: None,
            name_taken: None,
        }
    }

    /// Works until shutdown, until the worker ends by itself, or until the server refuses it.
    pub async fn run(mut self, mut shutdown: watch::Receiver<Shutdown>) -> Result<(), ClientError> {
        let mut asked = *shutdown.borrow_and_update();
        loop {
            let ending = asked.max(self.ending());
            if ending > Shutdown::None && self.tasks.is_empty() {
                break;
            }
            let idle_until = self.idle_until();
            tokio::select! {
                changed = shutdown.changed() => {
                    asked = if changed.is_ok() { *shutdown.borrow_and_update() } else { Shutdown::Now };
                    if asked == Shutdown::Now {
                        self.in_flight.lose_all();
                    }
                    if changed.is_err() {
                        break;
                    }
                }
                news = self.way.next() => self.hear(news),
                () = self.offering.changed() => self.offer(),
                Some(message) = self.outbound.recv() => self.send(message),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                () = sleep_until(self.term.next()) => self.beat(ending),
                () = at(self.starts.front().map(|start| start.at)) => self.report_starts(),
                () = at(idle_until) => {}
            }
            while let Ok(message) = self.outbound.try_recv() {
                self.send(message);
            }
            self.credit(asked.max(self.ending()) == Shutdown::None);
        }
        self.tasks.shutdown().await;
        if let Way::Open(link) = self.way {
            link.leave().await;
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// How the worker ends by itself.
    fn ending(&self) -> Shutdown {
        let had_one = self.until.once && self.taken > 0;
        let is_idle = self.idle_until().is_some_and(|until| until <= Instant::now());
        match self.refused {
            Some(_) => Shutdown::Now,
            None if had_one || is_idle || self.drained => Shutdown::Drain,
            None => Shutdown::None,
        }
    }

    /// When it ends because it has no job.
    fn idle_until(&self) -> Option<Instant> {
        self.until.idle.filter(|_| self.tasks.is_empty()).map(|idle| self.idle_since + idle)
    }

    fn say(&self, message: ToServer) {
        if let Way::Open(link) = &self.way {
            link.say(message);
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Try => self.connect(),
            News::Answer(Ok(session), since) => self.welcomed(session, since),
            News::Frame(Ok(messages)) => messages.into_iter().for_each(|message| self.told(message)),
            News::Answer(Err(error), _) if is_refusal(&error) => self.refuse(error),
            News::Answer(Err(error), _) if error.code() == Some(Code::Conflict) => self.wait_for_name(error),
            News::Answer(Err(error), _) | News::Frame(Err(error)) => self.away(&error.to_string()),
        }
    }

    /// The server refused this worker: the leases are lost, and no other session can be opened.
    fn refuse(&mut self, error: ClientError) {
        self.in_flight.lose_all();
        self.way = Way::Over;
        self.refused = Some(error);
    }

    /// Another process is connected under this name. It may be an earlier one on a machine that died, whose session
    /// ends with its lease; so the worker tries for a while before it gives up.
    fn wait_for_name(&mut self, error: ClientError) {
        let since = *self.name_taken.get_or_insert_with(Instant::now);
        if since.elapsed() > NAME_WAIT {
            return self.refuse(error);
        }
        let left = NAME_WAIT.saturating_sub(since.elapsed()).as_secs();
        tracing::warn!("not connected: {error}; trying for another {left} s");
        self.way = Way::Away(Instant::now() + NAME_PAUSE);
    }

    fn connect(&mut self) {
        // Until the first session begins, nothing of an earlier process is continued.
        let (attempts, fresh) = (self.in_flight.list(), self.connected.is_some());
        let hello = self.offering.hello(Hello { attempts, fresh, ..self.hello.clone() });
        self.brought = hello.attempts.clone();
        let client = self.client.clone();
        let connecting = Box::pin(async move { client.session(hello).await });
        self.way = Way::Opening(connecting, Instant::now());
    }

    /// The connection broke or could not be opened. Commands continue as long as their lease certainly holds.
    fn away(&mut self, why: &str) {
        tracing::warn!(why, "the server is unreachable");
        let pause = self.patience.pause().unwrap_or_default();
        if matches!(self.way, Way::Open(_)) {
            self.client.go_on();
        }
        self.way = Way::Away(Instant::now() + pause);
        self.term.asked = None;
    }

    fn welcomed(&mut self, session: Session, since: Instant) {
        let Welcome { worker, lease_ms, kept, lost, features, .. } = session.welcome.clone();
        self.name_taken = None;
        if let Some(connected) = self.connected.take() {
            connected(&worker);
        }
        if let Some(name) = self.named.take().filter(|name| !worker.is_empty() && *name != worker) {
            tracing::warn!(
                "using token {worker:?}, so this worker registers as {worker:?}, not {name:?}; \
                 give each worker its own token (--join)"
            );
        }
        lost.into_iter().for_each(|attempt| self.in_flight.tell(attempt, Order::Lost));
        let was_stopped =
            |held: &AttemptRef| kept.contains(&held.attempt) && !self.in_flight.goes_on(held.attempt);
        if std::mem::take(&mut self.brought).iter().any(was_stopped) {
            return self.abandon(session);
        }
        self.way = Way::Open(Box::new(Link::new(session)));
        self.term = Term::new(Duration::from_millis(lease_ms), since);
        self.patience.renew();
        (self.heard, self.said) = (0, None);
        self.in_flight.starts().into_iter().for_each(|message| self.say(message));
        self.in_flight.unanswered().into_iter().for_each(|message| self.say(message));
        self.offering.welcomed(&features);
        self.offer();
    }

    /// Replaces what the session offers, if that has changed. Running attempts go on.
    fn offer(&mut self) {
        if !matches!(self.way, Way::Open(_)) {
            return;
        }
        match self.offering.next() {
            Ok(message) => message.into_iter().for_each(|message| self.say(message)),
            Err(CannotReplace) => self.away("the worker offers something else, for which it connects again"),
        }
    }

    /// The server has renewed the lease of an attempt that was stopped after the hello was sent. That lease must end:
    /// the job is then retried as after any lost lease, whereas a report would count as a crash of the job. The next
    /// hello names only the running attempts.
    fn abandon(&mut self, session: Session) {
        tracing::warn!("the server answered after attempts had been stopped: their leases are given up");
        if !session.welcome.kept.iter().any(|attempt| self.in_flight.goes_on(*attempt)) {
            let stopped = self.in_flight.all_stopped();
            tokio::spawn(async move {
                stopped.await;
                session.leave().await;
            });
        }
        self.way = Way::Away(Instant::now());
    }

    fn give_up(&self, attempt: AttemptId, lease: LeaseId, reason: &str, why: &str) {
        let report = broken(reason, &why);
        self.say(ToServer::Outcome { attempt, lease, report });
    }

    fn told(&mut self, message: ToWorker) {
        match message {
            ToWorker::Assign { attempt, lease, token, job } => {
                self.take(Assignment { attempt, lease, token, job });
            }
            ToWorker::Renewed {} => self.term.renewed(),
            ToWorker::Drain {} => tracing::info!("the server is stopping"),
            ToWorker::Finish {} => self.drain(),
            ToWorker::AbilitiesSet {} => self.offering.answered(true),
            ToWorker::Refused { to, attempt: None, detail, .. } => {
                if to == Word::Abilities {
                    self.offering.answered(false);
                }
                tracing::warn!(?to, detail, "the server refused a message");
            }
            about_one => self.in_flight.hear(about_one),
        }
    }

    /// An operator drains this worker. It does not depend on the connection from here on.
    fn drain(&mut self) {
        if !std::mem::replace(&mut self.drained, true) {
            tracing::warn!("an operator drains this worker: it finishes its jobs and exits");
        }
    }

    fn take(&mut self, assignment: Assignment) {
        self.heard += 1;
        self.taken += 1;
        let (attempt, lease) = (assignment.attempt, assignment.lease);
        // The attempt itself accepts a job that runs at most once, and waits for the answer.
        let accepted = assignment.job.at_most_once;
        self.starts.push_back(Unreported { at: Instant::now() + START, attempt, lease, accepted });
        let (order, orders) = watch::channel(Order::Go);
        let outbox = Outbox::new(attempt, self.to_loop.clone());
        let begun = Begun::default();
        let reporter = Reporter { attempt, lease, outbox, order: orders, begun: begun.clone() };
        let task = self.tasks.spawn(self.executor.run(assignment, self.slots.take(), reporter)).id();
        self.in_flight.add(attempt, lease, task, order, begun);
    }

    /// Reports the start of attempts that are due, which implies the accept. An attempt that has already reported its
    /// end needs neither. One whose command is not started yet is accepted now, and its start is reported later.
    fn report_starts(&mut self) {
        let now = Instant::now();
        while let Some(due) = self.starts.pop_front_if(|due| due.at <= now) {
            let Unreported { attempt, lease, accepted, .. } = due;
            if !self.in_flight.is_busy(attempt) {
                continue;
            }
            if self.in_flight.has_begun(attempt) {
                self.say(start(attempt, lease));
                continue;
            }
            if !accepted {
                self.say(ToServer::Accept { attempt, lease, answer: false });
            }
            self.starts.push_back(Unreported { at: now + START, accepted: true, ..due });
        }
    }

    fn send(&mut self, message: OutboundMessage) {
        for message in self.in_flight.keep(message) {
            self.say(message);
        }
    }

    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (task, panic) = match ended {
            Ok((task, ())) => (task, None),
            Err(error) => (error.id(), Some(error.to_string())),
        };
        self.idle_since = Instant::now();
        if let (Some((attempt, lease)), Some(why)) = (self.in_flight.remove(task), panic) {
            tracing::error!(%attempt, why, "the task of an attempt failed");
            self.give_up(attempt, lease, "worker_broken", &why);
        }
    }

    /// Sends the total number of jobs that may be assigned: those received, plus one per free slot. The total stays
    /// correct when messages cross on the wire. Commands that wait for others are counted too; the server knows them
    /// and assigns more accordingly, which makes the number of free slots here negative.
    fn credit(&mut self, wants_jobs: bool) {
        let count = if self.until.once { 1 } else { self.count.cast_signed() };
        let room = count - self.in_flight.busy() as i64;
        let total = self.heard + if wants_jobs { room } else { room.min(0) };
        if matches!(self.way, Way::Open(_)) && self.said != Some(total) {
            self.say(ToServer::Credit { total });
            self.said = Some(total);
        }
    }

    /// Stops attempts that were not renewed in time. A known outcome is kept for a server that comes back, unless
    /// this worker is shutting down.
    fn too_late(&mut self, ending: Shutdown) {
        if self.in_flight.busy() > 0 {
            tracing::warn!("the leases could not be renewed in time: running commands are stopped");
            if matches!(self.way, Way::Open(_)) {
                // This worker was suspended. A later renewal in this session would keep the leases of the attempts
                // that are stopped here.
                self.away("no renewal was sent in time");
            }
        }
        if ending == Shutdown::None {
            self.in_flight.lose_running();
        } else {
            self.in_flight.lose_all();
        }
    }

    /// Renews the leases, detects a server that no longer answers, and stops attempts that were not renewed in time.
    fn beat(&mut self, ending: Shutdown) {
        let now = Instant::now();
        if self.term.is_over(now) {
            self.too_late(ending);
        }
        if matches!(self.way, Way::Open(_)) {
            if self.term.is_unanswered(now) {
                self.away("no reply to a renewal");
            } else if self.term.is_due(now) {
                self.say(ToServer::Renew {});
                self.term.asked = Some(now);
            }
        }
        self.term.looked(now);
    }
}
