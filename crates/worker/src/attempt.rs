//! The executor of commands: one attempt from its assignment to its outcome. It runs the command, forwards its output
//! and obeys cancels.

mod artifacts;
pub(crate) mod contract;
pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod filters;
pub(crate) mod here;
mod inputs;
mod result;

use std::sync::Arc;
use std::time::Duration;

use jobhall_client::{Client, ClientError};
use jobhall_core::{AttemptId, LeaseId};
use jobhall_protocol::{AssignedJob, Keep, LogStream, Outcome, OutcomeReport, ToServer, WorkerFile};
use tokio::time::{Instant, sleep_until, timeout};

use self::artifacts::Uploads;
use self::filter::kept::KeptValues;
use crate::executor::reporter::{AGAIN, Order, Reporter, broken, is_passing};
use crate::executor::{Assignment, Executor};
use crate::offers::Offers;
use crate::slots::Slot;
use crate::slots::ended::{Chunk, Ended, Stream};
use crate::slots::running::Running;
use crate::slots::setup::JobUser;
use crate::workspace::{Workspace, Workspaces};

/// The first output of an attempt is sent at once: someone may be looking. Later output is sent when this many bytes were
/// collected, or when the oldest are this old.
const GATHER_BYTES: usize = 256 * 1024;
const GATHER: Duration = Duration::from_millis(100);
/// Time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(10);
/// Runs the commands of a worker file, and of clients if that is allowed.
pub(crate) struct CommandExecutor {
    client: Client,
    offers: Offers,
    workspaces: Workspaces,
    kept: KeptValues,
}

impl CommandExecutor {
    pub fn new(client: Client, offers: Offers) -> CommandExecutor {
        let (workspaces, kept) = (Workspaces::default(), KeptValues::default());
        CommandExecutor { client, offers, workspaces, kept }
    }
}

impl Executor for CommandExecutor {
    fn run(
        &self,
        assignment: Assignment,
        slot: Slot,
        reporter: Reporter,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (client, workspaces, kept) = (self.client.clone(), self.workspaces.clone(), self.kept.clone());
        let (offers, file) = (self.offers.clone(), self.offers.now().file.clone());
        let Assignment { attempt, lease, token, job } = assignment;
        Attempt { client, file, offers, attempt, lease, token, job, workspaces, kept, reporter }.run(slot)
    }
}

/// The state of an attempt.
struct Attempt {
    client: Client,
    file: Arc<WorkerFile>,
    offers: Offers,
    attempt: AttemptId,
    lease: LeaseId,
    token: String,
    job: AssignedJob,
    workspaces: Workspaces,
    kept: KeptValues,
    reporter: Reporter,
}

impl Attempt {
    /// Runs the attempt to its end.
    async fn run(mut self, slot: Slot) {
        let mut gathered = Gathered::default();
        let (attempt, job) = (self.attempt, self.job.id);
        tracing::info!(job, %attempt, r#type = self.job.job_type, "attempt begins");
        match self.work(slot, &mut gathered).await {
            Some(report) => {
                tracing::info!(job, %attempt, outcome = report.outcome.as_str(), "attempt ended");
                self.reporter.report(report, gathered.piece(self.attempt, self.lease)).await;
            }
            None => tracing::info!(job, %attempt, outcome = "lost", "attempt ended"),
        }
    }

    /// The outcome; none if the attempt was lost. The last of its output is left in `gathered`.
    async fn work(&mut self, slot: Slot, gathered: &mut Gathered) -> Option<OutcomeReport> {
        let user = slot.user();
        let mut left = match self.workspaces.take(&self.attempt.to_string(), user.as_ref()) {
            Ok(left) => left,
            Err(error) => return Some(broken("no_scratch", &error)),
        };
        if filter::is_node(&self.job) {
            let report = self.run_node(slot, &left, gathered).await;
            if let Some(report) = &report {
                self.keep_if_failed(&mut left, report, gathered).await;
            }
            return report;
        }
        let command = match contract::command(&self.job, &self.file, user.as_ref()) {
            Ok(command) => command,
            Err(failure) => return Some(contract::report(Outcome::Failed, Some(failure))),
        };
        let claim = self.attempt.claim.to_string();
        let command = contract::with_contract(command, &self.job, &claim, self.client.base_url(), &left);
        let command = contract::with_access(command, &self.token, self.client.trust());
        if self.job.inputs > 0
            && let Err(why) = self.take_inputs(&left, user.as_ref()).await
        {
            return Some(broken("no_inputs", &why)).filter(|_| self.reporter.order() < Order::Lost);
        }
        if self.job.at_most_once && !self.reporter.accept().await {
            return None;
        }
        if self.reporter.order() == Order::Cancel {
            return Some(contract::report(Outcome::Cancelled, None));
        }
        let running = match slot.run(command).await {
            Ok(running) => running,
            Err(error) => return Some(broken("not_run", &error)),
        };
        self.reporter.begun.set();
        let ended = self.follow(running, gathered).await;
        if self.job.inputs > 0 {
            // Without it the workspace may be as new. The job may have removed it.
            let _may_be_gone = std::fs::remove_file(left.inputs());
        }
        // Most jobs leave nothing. Looked at once, because it is a good part of the cost of a short job.
        let is_untouched = left.is_untouched();
        let (value, notes) = if is_untouched {
            (Ok(None), String::new())
        } else {
            self.uploads().put_all(&ended, &left).await
        };
        self.say(gathered, &notes).await;
        let order = self.reporter.order();
        let report = contract::outcome(&ended, order == Order::Cancel, self.job.external, value);
        self.keep_if_failed(&mut left, &report, gathered).await;
        if is_untouched {
            self.workspaces.put(left);
        }
        (order < Order::Lost).then_some(report)
    }

    /// Reads the inputs of the job and writes them to a file for its process. An unreachable server is waited for as
    /// long as the attempt goes on.
    async fn take_inputs(&mut self, left: &Workspace, user: Option<&JobUser>) -> Result<(), String> {
        let (attempt, lease) = (self.attempt.to_string(), format!("{:032x}", self.lease.0));
        while *self.reporter.order.borrow_and_update() == Order::Go {
            let read = tokio::select! {
                read = self.client.inputs(&attempt, Some(&lease)) => read,
                Ok(()) = self.reporter.order.changed() => continue,
            };
            match read {
                Ok(inputs) => {
                    let text = inputs::document(inputs).map_err(|error| error.to_string())?;
                    return left.write_inputs(&text, user).map_err(|error| error.to_string());
                }
                Err(ClientError::Problem(problem)) if !is_passing(problem.code) => {
                    return Err(problem.detail);
                }
                Err(error) => {
                    tracing::warn!(%attempt, "failed to read the inputs, trying again: {error}");
                    let _ = timeout(AGAIN, self.reporter.order.changed()).await;
                }
            }
        }
        // The caller sees the order: a cancelled attempt is reported as such, a lost one is not.
        if self.reporter.order() == Order::Lost { Err("the lease is lost".to_owned()) } else { Ok(()) }
    }

    async fn keep_if_failed(
        &mut self,
        left: &mut Workspace,
        report: &OutcomeReport,
        gathered: &mut Gathered,
    ) {
        let has_failed = matches!(report.outcome, Outcome::Failed | Outcome::Crashed);
        if has_failed && self.file.keep == Some(Keep::Failed) {
            let words = format!("jobhall: the workspace is kept in {}\n", left.keep().display());
            self.say(gathered, &words).await;
        }
    }

    fn uploads(&self) -> Uploads {
        Uploads {
            client: self.client.clone(),
            attempt: self.attempt.to_string(),
            lease: format!("{:032x}", self.lease.0),
            order: self.reporter.order.clone(),
        }
    }

    /// Adds a message of the worker to the log.
    async fn say(&mut self, gathered: &mut Gathered, words: &str) {
        if words.is_empty() {
            return;
        }
        if gathered.stream != LogStream::Stderr
            && let Some(piece) = gathered.piece(self.attempt, self.lease)
        {
            self.reporter.deliver(vec![piece]).await;
            gathered.passed_on();
        }
        gathered.stream = LogStream::Stderr;
        gathered.bytes.extend_from_slice(words.as_bytes());
    }

    /// Forwards the output until the command has ended, and stops the command when ordered to.
    async fn follow(&mut self, mut running: Running, gathered: &mut Gathered) -> Ended {
        let mut obeyed = Order::Go;
        loop {
            let order = *self.reporter.order.borrow_and_update();
            if order > obeyed {
                obeyed = order;
                running.stop(if order == Order::Lost { Duration::ZERO } else { GRACE }).await;
            }
            tokio::select! {
                chunk = running.next() => match chunk {
                    Some(chunk) => self.gather(gathered, chunk, &running).await,
                    None => break,
                },
                () = gathered.ripe() => self.pass_on(gathered, &running).await,
                changed = self.reporter.order.changed() => {
                    if changed.is_err() {
                        running.stop(Duration::ZERO).await;
                    }
                }
            }
        }
        running.wait().await
    }

    async fn gather(&mut self, gathered: &mut Gathered, chunk: Chunk, running: &Running) {
        let stream = match chunk.stream {
            Stream::Stdout => LogStream::Stdout,
            _ => LogStream::Stderr,
        };
        if stream != gathered.stream {
            self.pass_on(gathered, running).await;
        }
        if gathered.add(stream, &chunk.bytes) {
            self.pass_on(gathered, running).await;
        }
    }

    /// Sends the collected output. Waits while the server is unreachable; the child's pipe fills meanwhile. A cancel is
    /// obeyed in that time too.
    async fn pass_on(&mut self, gathered: &mut Gathered, running: &Running) {
        let Some(piece) = gathered.piece(self.attempt, self.lease) else { return };
        let stopper = running.stopper();
        let mut order = self.reporter.order.clone();
        let told = async {
            while order.changed().await.is_ok() {
                let grace = if *order.borrow() == Order::Lost { Duration::ZERO } else { GRACE };
                stopper.stop(grace).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.reporter.deliver(vec![piece]) => gathered.passed_on(),
            () = told => {}
        }
    }
}

/// Output of one stream that was not sent yet.
struct Gathered {
    stream: LogStream,
    bytes: Vec<u8>,
    offset: u64,
    due: Option<Instant>,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered { stream: LogStream::Stdout, bytes: Vec::new(), offset: 0, due: None }
    }
}

impl Gathered {
    /// Adds output of this stream, and returns whether all of it is to be sent now.
    fn add(&mut self, stream: LogStream, bytes: &[u8]) -> bool {
        let is_first = self.offset == 0 && self.bytes.is_empty();
        self.stream = stream;
        self.due.get_or_insert_with(|| Instant::now() + GATHER);
        self.bytes.extend_from_slice(bytes);
        is_first || self.bytes.len() >= GATHER_BYTES
    }

    async fn ripe(&self) {
        match self.due {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// All of it as a message, if not empty.
    fn piece(&self, attempt: AttemptId, lease: LeaseId) -> Option<ToServer> {
        let (offset, stream, bytes) = (self.offset, self.stream, self.bytes.clone());
        (!bytes.is_empty()).then_some(ToServer::Log { attempt, lease, offset, stream, bytes })
    }

    fn passed_on(&mut self) {
        self.offset += self.bytes.len() as u64;
        self.bytes.clear();
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ground_12_the_first_output_leaves_at_once_and_later_output_is_gathered() {
        let mut gathered = Gathered::default();
        assert!(gathered.add(LogStream::Stderr, b"first"), "without waiting");
        gathered.passed_on();
        assert!(!gathered.add(LogStream::Stdout, b"a"));
        let begin = Instant::now();
        advance(GATHER / 2).await;
        assert!(!gathered.add(LogStream::Stdout, b"b"));
        gathered.ripe().await;
        assert_eq!(Instant::now() - begin, GATHER, "the oldest byte counts");
        assert_eq!((gathered.bytes.as_slice(), gathered.offset), (&b"ab"[..], 5));
        gathered.passed_on();
        assert!(gathered.add(LogStream::Stdout, &[0; GATHER_BYTES]), "no more is gathered");
    }
}
