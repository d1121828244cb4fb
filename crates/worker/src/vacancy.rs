//! The vacancy loop: one session with the server grants credit for free slots, receives assignments, and renews all
//! leases. If the connection breaks, the loop reconnects and names the attempts it still has.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jobhall_client::{Backoff, Client, ClientError, Session};
use jobhall_core::needs::SelectorError;
use jobhall_core::{AttemptId, LeaseId};
use jobhall_protocol::{AssignedJob, AttemptRef, EXEC, Hello, ToServer, ToWorker, Welcome, WorkerFile};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::abilities::{abilities, cpus};
use crate::attempt::{Attempt, Order, broken};
use crate::in_flight::InFlight;
use crate::link::Link;
use crate::outbox::{OutboundMessage, Outbox};
use crate::outputs::Spare;
use crate::slots::Slots;
use crate::term::Term;

/// Maximum number of queued messages of attempts.
const OUTBOUND: usize = 1_024;

/// A job that ends within this time is accepted by its outcome, which saves a frame.
const ACCEPT: Duration = Duration::from_millis(20);

/// The requested kind of shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shutdown {
    None,
    /// Take no further jobs, finish the running ones.
    Drain,
    /// Stop everything now.
    Now,
}

pub struct WorkerOptions {
    /// The client, with the worker's token.
    pub client: Client,
    /// The configuration of the worker.
    pub file: WorkerFile,
    pub slots: Slots,
    pub shutdown: watch::Receiver<Shutdown>,
}

/// Works until shutdown; an error if the worker's file is invalid.
pub async fn run(options: WorkerOptions) -> Result<(), SelectorError> {
    let WorkerOptions { client, file, slots, shutdown } = options;
    let hello = Hello { abilities: abilities(&file)?, accepts: accepts(&file), ..Hello::default() };
    let named = file.name.clone();
    let count = u64::from(file.slots.unwrap_or_else(cpus).max(1));
    let (to_loop, outbound) = mpsc::channel(OUTBOUND);
    let worker = Worker {
        client,
        file: Arc::new(file),
        slots,
        count,
        hello,
        named,
        in_flight: InFlight::default(),
        brought: Vec::new(),
        tasks: JoinSet::new(),
        spare: Spare::default(),
        to_loop,
        way: Way::Away(Instant::now()),
        patience: Backoff::of_a_worker(),
        term: Term::unknown(),
        accepts: VecDeque::new(),
        heard: 0,
        said: None,
    };
    worker.run(outbound, shutdown).await;
    Ok(())
}

/// The jobs that this worker accepts: those of its types, and `exec` if it is allowed.
fn accepts(file: &WorkerFile) -> String {
    let mut types: Vec<&str> = file.types.keys().map(String::as_str).collect();
    if file.allow_exec {
        types.push(EXEC);
    }
    if types.is_empty() {
        "type in (none-configured)".to_owned()
    } else {
        format!("type in ({})", types.join(","))
    }
}

/// Waits for the time of the first entry; forever if there is none.
async fn due(first: Option<&(Instant, AttemptId, LeaseId)>) {
    match first {
        Some((at, ..)) => sleep_until(*at).await,
        None => std::future::pending().await,
    }
}

type Connecting = Pin<Box<dyn Future<Output = Result<Session, ClientError>> + Send>>;

/// The state of the connection to the server.
enum Way {
    /// Disconnected until this time.
    Away(Instant),
    /// Connecting; the earliest time at which the hello was sent.
    Opening(Connecting, Instant),
    Open(Box<Link>),
}

/// Events of the connection.
enum News {
    /// It is time to connect.
    Try,
    /// The response to a hello that was sent at this time.
    Answer(Result<Session, ClientError>, Instant),
    /// Messages of the server.
    Frame(Result<Vec<ToWorker>, ClientError>),
}

impl Way {
    /// The next event. Nothing is lost when the returned future is dropped.
    async fn next(&mut self) -> News {
        match self {
            Way::Away(until) => {
                sleep_until(*until).await;
                News::Try
            }
            Way::Opening(connecting, since) => News::Answer(connecting.await, *since),
            Way::Open(link) => News::Frame(link.next().await),
        }
    }
}

struct Worker {
    client: Client,
    file: Arc<WorkerFile>,
    slots: Slots,
    count: u64,
    hello: Hello,
    /// The configured name, until it was compared with the name that the server uses.
    named: Option<String>,
    in_flight: InFlight,
    /// The attempts named in the last hello.
    brought: Vec<AttemptRef>,
    tasks: JoinSet<()>,
    spare: Spare,
    to_loop: mpsc::Sender<OutboundMessage>,
    way: Way,
    patience: Backoff,
    term: Term,
    /// Attempts to accept, and when; the earliest first.
    accepts: VecDeque<(Instant, AttemptId, LeaseId)>,
    /// Assignments received in this session.
    heard: i64,
    /// The last credit sent in this session.
    said: Option<i64>,
}

impl Worker {
    async fn run(
        mut self,
        mut outbound: mpsc::Receiver<OutboundMessage>,
        mut shutdown: watch::Receiver<Shutdown>,
    ) {
        let mut ending = *shutdown.borrow_and_update();
        while ending == Shutdown::None || !self.tasks.is_empty() {
            tokio::select! {
                changed = shutdown.changed() => {
                    ending = if changed.is_ok() { *shutdown.borrow_and_update() } else { Shutdown::Now };
                    if ending == Shutdown::Now {
                        self.in_flight.lose_all();
                    }
                    if changed.is_err() {
                        break;
                    }
                }
                news = self.way.next() => self.hear(news),
                Some(message) = outbound.recv() => self.send(message),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                () = sleep_until(self.term.next()) => self.beat(ending),
                () = due(self.accepts.front()) => self.accept(),
            }
            while let Ok(message) = outbound.try_recv() {
                self.send(message);
            }
            self.credit(ending == Shutdown::None);
        }
        self.tasks.shutdown().await;
        if let Way::Open(link) = self.way {
            link.leave().await;
        }
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
            News::Answer(Err(error), _) | News::Frame(Err(error)) => self.away(&error.to_string()),
        }
    }

    fn connect(&mut self) {
        let hello = Hello { attempts: self.in_flight.list(), ..self.hello.clone() };
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
        let Welcome { worker, lease_ms, kept, lost, .. } = session.welcome.clone();
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
        self.in_flight.unanswered().into_iter().for_each(|message| self.say(message));
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
            ToWorker::Assign { attempt, lease, token, job } => self.take(attempt, lease, token, job),
            ToWorker::Renewed {} => self.term.renewed(),
            ToWorker::Drain {} => tracing::info!("the server is stopping"),
            ToWorker::Refused { to, attempt: None, detail, .. } => {
                tracing::warn!(?to, detail, "the server refused a message");
            }
            about_one => self.in_flight.hear(about_one),
        }
    }

    fn take(&mut self, attempt: AttemptId, lease: LeaseId, token: String, job: AssignedJob) {
        self.heard += 1;
        self.accepts.push_back((Instant::now() + ACCEPT, attempt, lease));
        let (order, orders) = watch::channel(Order::Go);
        let outbox = Outbox::new(attempt, self.to_loop.clone());
        let (client, file, spare) = (self.client.clone(), self.file.clone(), self.spare.clone());
        let one = Attempt { client, file, attempt, lease, token, job, spare, outbox, order: orders };
        let task = self.tasks.spawn(one.run(self.slots.clone())).id();
        self.in_flight.add(attempt, lease, task, order);
    }

    /// Accepts attempts that are due. An attempt that has already reported its end needs no accept.
    fn accept(&mut self) {
        let now = Instant::now();
        while let Some((_, attempt, lease)) = self.accepts.pop_front_if(|(at, ..)| *at <= now) {
            if self.in_flight.is_busy(attempt) {
                self.say(ToServer::Accept { attempt, lease });
            }
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
        if let (Some((attempt, lease)), Some(why)) = (self.in_flight.remove(task), panic) {
            tracing::error!(%attempt, why, "the task of an attempt failed");
            self.give_up(attempt, lease, "worker_broken", &why);
        }
    }

    /// Sends the total number of jobs that may be assigned: those received, plus one per free slot. The total stays
    /// correct when messages cross on the wire. Commands that wait for others are counted too; the server knows them
    /// and assigns more accordingly, which makes the number of free slots here negative.
    fn credit(&mut self, wants_jobs: bool) {
        let room = self.count.cast_signed() - self.in_flight.busy() as i64;
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
