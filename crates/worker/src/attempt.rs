//! One attempt, from its assignment to its outcome: run the command, pass on its output, obey cancels.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jobhall_client::{Client, ClientError, Lease, Stream};
use jobhall_protocol::{Assigned, Code, Outcome, OutcomeReport, WorkerFile};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::ended::{Chunk, Ended};
use crate::executor;
use crate::running::Running;
use crate::slots::Slot;

/// Output is passed on when so many bytes have gathered, or when the oldest is this old.
const GATHER_BYTES: usize = 256 * 1024;
const GATHER: Duration = Duration::from_millis(100);
/// How long a command has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(10);
/// Pause between two tries to reach the hall.
const AGAIN: Duration = Duration::from_millis(500);

/// What an attempt must do, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Go on.
    Go,
    /// Stop, and report that it was cancelled.
    Cancel,
    /// Stop at once and report nothing: it is someone else's now.
    Lost,
}

/// What an attempt works with.
pub(crate) struct Attempt {
    pub client: Client,
    pub file: Arc<WorkerFile>,
    pub assigned: Assigned,
    pub order: watch::Receiver<Order>,
    /// Told when the hall says that the lease is lost.
    pub lost: Arc<watch::Sender<Order>>,
}

impl Attempt {
    /// Runs it to its end.
    pub async fn run(mut self, slot: Slot) {
        if let Err(error) = self.client.accept(self.lease()).await
            && is_lost(&error)
        {
            return;
        }
        if let Some(report) = self.work(slot).await {
            self.report(&report).await;
        }
    }

    fn lease(&self) -> Lease<'_> {
        Lease { attempt: &self.assigned.id, lease: &self.assigned.lease }
    }

    /// The outcome; none if the attempt was lost.
    async fn work(&mut self, slot: Slot) -> Option<OutcomeReport> {
        let scratch = match tempfile::tempdir() {
            Ok(scratch) => scratch,
            Err(error) => return Some(broken("no_scratch", &error)),
        };
        let result = scratch.path().join("result.json");
        let job = &self.assigned.job;
        let command = match executor::command(job, &self.file) {
            Ok(command) => command,
            Err(failure) => return Some(executor::report(Outcome::Failed, Some(failure))),
        };
        let claim = self.assigned.id.rsplit('-').next().unwrap_or_default();
        let command = executor::with_contract(command, job, claim, self.client.base_url(), &result);
        let command = executor::with_access(command, &self.assigned.token, self.client.trust());
        let running = match slot.run(command).await {
            Ok(running) => running,
            Err(error) => return Some(broken("not_run", &error)),
        };
        let ended = self.follow(running).await;
        let order = *self.order.borrow();
        (order < Order::Lost).then(|| executor::outcome(&ended, order == Order::Cancel, &result))
    }

    /// Passes on the output until the command has ended, and stops it when told to.
    async fn follow(&mut self, mut running: Running) -> Ended {
        let mut gathered = Gathered::default();
        let mut obeyed = Order::Go;
        loop {
            let order = *self.order.borrow_and_update();
            if order > obeyed {
                obeyed = order;
                running.stop(if order == Order::Lost { Duration::ZERO } else { GRACE }).await;
            }
            tokio::select! {
                chunk = running.next() => match chunk {
                    Some(chunk) => self.gather(&mut gathered, chunk).await,
                    None => break,
                },
                () = gathered.ripe() => self.pass_on(&mut gathered).await,
                changed = self.order.changed() => {
                    if changed.is_err() {
                        running.stop(Duration::ZERO).await;
                    }
                }
            }
        }
        self.pass_on(&mut gathered).await;
        running.wait().await
    }

    async fn gather(&mut self, gathered: &mut Gathered, chunk: Chunk) {
        let stream = match chunk.stream {
            crate::ended::Stream::Stdout => Stream::Stdout,
            _ => Stream::Stderr,
        };
        if stream != gathered.stream {
            self.pass_on(gathered).await;
        }
        gathered.stream = stream;
        gathered.due.get_or_insert_with(|| Instant::now() + GATHER);
        gathered.bytes.extend_from_slice(&chunk.bytes);
        if gathered.bytes.len() >= GATHER_BYTES {
            self.pass_on(gathered).await;
        }
    }

    /// Sends what has gathered. The hall being away is waited out: the child's pipe fills meanwhile.
    async fn pass_on(&mut self, gathered: &mut Gathered) {
        let bytes = Bytes::from(std::mem::take(&mut gathered.bytes));
        gathered.due = None;
        while !bytes.is_empty() && *self.order.borrow() < Order::Lost {
            let sent = self.client.append_log(self.lease(), gathered.stream, gathered.offset, bytes.clone());
            match sent.await {
                Ok(_) => {
                    gathered.offset += bytes.len() as u64;
                    return;
                }
                Err(error) if is_lost(&error) => {
                    self.lost.send_replace(Order::Lost);
                }
                Err(error) if is_passing(&error) => tokio::time::sleep(AGAIN).await,
                Err(error) => {
                    tracing::warn!(%error, attempt = self.assigned.id, "output was not taken");
                    return;
                }
            }
        }
    }

    /// Tells the outcome until the hall has heard it or the lease is lost.
    async fn report(&mut self, report: &OutcomeReport) {
        while *self.order.borrow() < Order::Lost {
            match self.client.outcome(self.lease(), report).await {
                Err(error) if !is_lost(&error) && is_passing(&error) => {
                    let _ = timeout(AGAIN, self.order.changed()).await;
                }
                Err(error) => {
                    tracing::warn!(%error, attempt = self.assigned.id, "the outcome was not taken");
                    return;
                }
                Ok(_) => return,
            }
        }
    }
}

/// Output of one stream that has not been passed on.
struct Gathered {
    stream: Stream,
    bytes: Vec<u8>,
    offset: u64,
    due: Option<Instant>,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered { stream: Stream::Stdout, bytes: Vec::new(), offset: 0, due: None }
    }
}

impl Gathered {
    async fn ripe(&self) {
        match self.due {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

fn broken(reason: &str, error: &dyn std::fmt::Display) -> OutcomeReport {
    executor::report(Outcome::Crashed, Some(executor::refused(reason, error.to_string())))
}

/// Whether the hall said that the attempt is not this worker's any more.
pub(crate) fn is_lost(error: &ClientError) -> bool {
    matches!(error, ClientError::Problem(problem) if matches!(problem.code, Code::LeaseLost | Code::NotFound))
}

/// Whether trying again may help.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Untrusted { .. } => true,
        ClientError::Problem(problem) => {
            matches!(
                problem.code,
                Code::Unavailable | Code::TooManyRequests | Code::StorageFull | Code::Internal
            )
        }
        _ => false,
    }
}
