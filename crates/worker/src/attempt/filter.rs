//! A node of a query: each step is a process with its input on standard input, its arguments as words, and its value on
//! standard output. What it writes to standard error is the log, and its exit code is the outcome.

pub(super) mod kept;
mod values;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use jobhall_core::query::{
    ArgumentParam, INLINE_VALUE_BYTES, InputPlace, NodeParams, StepParams, StoredValue,
};
use jobhall_protocol::{AssignedJob, Outcome, OutcomeReport, RetryVerdict};
use serde_json::value::RawValue;

use self::kept::{KeptValue, StepAnswer};
use self::values::{Left, SizeLimit};
use super::filters::{Filter, Filters};
use super::here::{ASKED_FILE, COMMANDS_FILE, OwnCommands};
use super::{Attempt, Gathered, contract};
use crate::executor::reporter::{Order, broken};
use crate::slots::Slot;
use crate::slots::command::Command;
use crate::slots::ended::Status;
use crate::slots::setup::JobUser;
use crate::workspace::Workspace;

/// The types of jobs that are nodes of queries begin with this.
pub(crate) const PREFIX: &str = "q.";

/// Whether a job is a node of a query.
pub(crate) fn is_node(job: &AssignedJob) -> bool {
    job.job_type.starts_with(PREFIX)
}

/// What is run of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Step,
    /// The check of its command, whose output stands in the identity of its value.
    Check,
}

/// Files of a node.
struct Files<'a> {
    left: &'a Workspace,
    user: Option<JobUser>,
}

impl Files<'_> {
    fn input(&self, at: usize) -> PathBuf {
        self.left.file(&format!("input-{at}"))
    }

    fn source(&self, at: usize) -> PathBuf {
        self.left.file(&format!("source-{at}"))
    }

    fn value(&self, step: usize) -> PathBuf {
        self.left.file(&format!("value-{step}"))
    }

    /// What the check of a step writes.
    fn answer(&self, step: usize) -> PathBuf {
        self.left.file(&format!("answer-{step}"))
    }

    fn left_by(&self, run: Run, step: usize) -> PathBuf {
        match run {
            Run::Step => self.value(step),
            Run::Check => self.answer(step),
        }
    }

    /// The commands that the process of a step may run itself.
    fn own(&self) -> PathBuf {
        self.left.file("commands.json")
    }

    fn of(&self, place: InputPlace) -> PathBuf {
        match place {
            InputPlace::Step(at) => self.value(at),
            InputPlace::Input(at) => self.input(at),
            InputPlace::Source(at) => self.source(at),
        }
    }
}

impl Attempt {
    /// The outcome of a node; none if the attempt was lost.
    pub(super) async fn run_node(
        &mut self,
        slot: Slot,
        left: &Workspace,
        gathered: &mut Gathered,
    ) -> Option<OutcomeReport> {
        let params: NodeParams = match serde_json::from_str(self.job.params.get()) {
            Ok(params) => params,
            Err(error) => return Some(refused("bad_params", &error.to_string())),
        };
        let files = Files { left, user: slot.user() };
        if let Err(report) = self.take_inputs_of_node(&params, &files).await {
            return report.filter(|_| self.reporter.order() < Order::Lost);
        }
        if let Some(report) = self.seen(&params).await {
            return Some(report);
        }
        let run = if params.check { Run::Check } else { Run::Step };
        let mut ran = Vec::new();
        for (at, answer) in self.kept.answers(&params).into_iter().enumerate() {
            let report = match answer {
                StepAnswer::Run => {
                    ran.push(at);
                    self.run_step(&slot, (run, at, &params.steps[at]), &files, gathered).await
                }
                StepAnswer::Kept(value) => put_kept(value, files.value(at), &files).await,
                StepAnswer::NotNeeded => None,
            };
            if let Some(report) = report {
                return Some(report).filter(|_| self.reporter.order() < Order::Lost);
            }
        }
        if let Some(report) = self.check_again(&slot, &params, &files, gathered).await {
            return Some(report).filter(|_| self.reporter.order() < Order::Lost);
        }
        if !may_change(&params, &files) {
            for at in ran {
                self.keep_value(&params.steps[at], files.value(at)).await;
            }
        }
        self.value_of(&params, &files).await
    }

    /// Runs the checks of the steps once more. If one has another answer than in the plan, its data may have changed while
    /// the step read it, and the value is not that of the identity.
    async fn check_again(
        &mut self,
        slot: &Slot,
        params: &NodeParams,
        files: &Files<'_>,
        gathered: &mut Gathered,
    ) -> Option<OutcomeReport> {
        for (at, step) in params.steps.iter().enumerate() {
            let Some(check) = step.check else { continue };
            if let Some(report) = self.run_step(slot, (Run::Check, at, step), files, gathered).await {
                return Some(report);
            }
            if values::digest_of(&files.answer(at)) != Some(check.answer) {
                let why =
                    format!("the check of {} had another answer after the step than before", step.command);
                let report = refused("check_changed", &why);
                return Some(OutcomeReport { retry: Some(RetryVerdict::Never), ..report });
            }
        }
        None
    }

    /// Keeps the value that a step has left, if it stays on this worker.
    async fn keep_value(&self, step: &StepParams, path: PathBuf) {
        let Some(identity) = step.kept else { return };
        let (kept, command) = (self.kept.clone(), step.command.clone());
        let kept = tokio::task::spawn_blocking(move || kept.keep(identity, &path)).await;
        if let Err(error) = kept.map_err(io::Error::other).and_then(|kept| kept) {
            tracing::warn!("the value of {command} is not kept: {error}");
        }
    }

    /// The report of an attempt whose value was made before from the same bytes; none if it has to run. A server that
    /// cannot say so is no reason not to run.
    async fn seen(&self, params: &NodeParams) -> Option<OutcomeReport> {
        if params.inputs.is_empty() || self.job.key.is_none() || self.reporter.order() != Order::Go {
            return None;
        }
        let (attempt, lease) = (self.attempt.to_string(), format!("{:032x}", self.lease.0));
        let value = self.client.seen_value(&attempt, &lease).await.ok()??;
        Some(OutcomeReport { value: Some(value), ..contract::report(Outcome::Skipped, None) })
    }

    /// The report for an attempt that was ordered to stop.
    fn stopped(&self) -> Option<OutcomeReport> {
        (self.reporter.order() < Order::Lost).then(|| contract::report(Outcome::Cancelled, None))
    }

    /// Runs one step, or its check; none if it has left its value.
    async fn run_step(
        &mut self,
        slot: &Slot,
        (run, at, step): (Run, usize, &StepParams),
        files: &Files<'_>,
        gathered: &mut Gathered,
    ) -> Option<OutcomeReport> {
        let name = step.command.as_str();
        let offer = self.offers.now();
        let filter = offer.filters.get(name).filter(|filter| filter.version == step.version).cloned();
        let Some(filter) = filter else { return Some(self.outdated(step).await) };
        if !is_unchanged(&filter).await {
            return Some(self.outdated(step).await);
        }
        if let Err(error) = write_own(&offer.filters, files) {
            return Some(broken("no_commands", &error));
        }
        let command = self.step_command(&filter, (run, at, step), files);
        if self.reporter.order() != Order::Go {
            return Some(contract::report(Outcome::Cancelled, None));
        }
        let running = match slot.part().run(command).await {
            Ok(running) => running,
            Err(error) => return Some(broken("not_run", &error)),
        };
        self.reporter.begun.set();
        let limit = SizeLimit::new(files.left_by(run, at), running.stopper());
        let ended = self.follow(running, gathered).await;
        if let Some(report) = limit.end() {
            return Some(report);
        }
        let cancelled = self.reporter.order() == Order::Cancel;
        if !cancelled && ended.status == Status::Exit(0) {
            return if is_unchanged(&filter).await { None } else { Some(self.outdated(step).await) };
        }
        Some(contract::outcome(&ended, cancelled, false, Ok(None)))
    }

    /// The report of a step whose command is not what the query was planned with. The new version is declared before
    /// the report, so that a repeated request is planned with it.
    async fn outdated(&self, step: &StepParams) -> OutcomeReport {
        self.offers.look().await;
        let (command, version) = (&step.command, &step.version);
        let why = format!(
            "a file of {command} has changed; this worker does not have {command}@{version} any more"
        );
        OutcomeReport { retry: Some(RetryVerdict::Never), ..refused("version_changed", &why) }
    }

    fn step_command(
        &self,
        filter: &Filter,
        (run, at, step): (Run, usize, &StepParams),
        files: &Files<'_>,
    ) -> Command {
        let arguments: Vec<String> = step
            .arguments
            .iter()
            .map(|argument| match argument {
                ArgumentParam::Text(text) => text.clone(),
                ArgumentParam::Link(place) => files.of(*place).to_string_lossy().into_owned(),
            })
            .collect();
        let mut line = match run {
            Run::Step => filter.declaration.command_line(&arguments),
            Run::Check => filter.declaration.check_line(&arguments),
        };
        // A program with a path is found from the directory of the declaration, as all its files are.
        if let Some(program) = line.first_mut().filter(|program| program.contains('/')) {
            *program = filter.directory.join(&*program).to_string_lossy().into_owned();
        }
        let mut command = contract::of_user(Command::new(line), files.user.as_ref());
        for (name, value) in &filter.declaration.env {
            command = command.env(name, value);
        }
        command = command.directory(&filter.directory).stdout_file(files.left_by(run, at));
        if let Some(place) = step.input.filter(|_| run == Run::Step) {
            command = command.stdin_file(files.of(place));
        }
        if let Some(format) = &step.format {
            command = command.env("JOBHALL_FORMAT", format);
        }
        if files.own().exists() {
            command = command.env(COMMANDS_FILE, files.own());
        }
        let claim = self.attempt.claim.to_string();
        let command = contract::with_contract(command, &self.job, &claim, self.client.base_url(), files.left);
        contract::with_access(command, &self.token, self.client.trust())
    }

    /// The outcome of a node whose steps have all succeeded.
    async fn value_of(&self, params: &NodeParams, files: &Files<'_>) -> Option<OutcomeReport> {
        let last = params.steps.iter().enumerate().next_back();
        let filters = self.offers.now().filters.clone();
        let found = last.and_then(|(at, step)| Some((at, filters.get(step.command.as_str())?)));
        let Some((last, filter)) = found else { return Some(refused("bad_params", "there are no steps")) };
        let (path, media_type) = match params.check {
            true => (files.answer(last), "text/plain"),
            false => (files.value(last), filter.declaration.media_type()),
        };
        let value = match values::look(&path) {
            Ok(Left::Bytes(bytes)) => StoredValue::new(media_type, bytes),
            Ok(Left::Large) if params.check => {
                let why = format!("the answer of a check has at most {INLINE_VALUE_BYTES} bytes");
                return Some(refused("answer_too_large", &why));
            }
            Ok(Left::Large) => match self.send_value(&path, media_type).await {
                Ok(value) => value,
                Err(report) => return report,
            },
            Err(error) => return Some(broken("no_value", &error)),
        };
        let json = serde_json::to_string(&value).and_then(RawValue::from_string);
        Some(match json {
            Ok(json) => OutcomeReport { value: Some(json), ..contract::report(Outcome::Succeeded, None) },
            Err(error) => broken("no_value", &error),
        })
    }
}

/// Leaves the commands that the process of a step may run itself.
fn write_own(filters: &Filters, files: &Files<'_>) -> io::Result<()> {
    let path = files.own();
    let own = if path.exists() { None } else { OwnCommands::of(filters) };
    match own {
        Some(own) => files.left.write_file(&path, &serde_json::to_vec(&own)?, files.user.as_ref()),
        None => Ok(()),
    }
}

/// Writes a value that was kept to the file of its step; the report says why it could not be written.
async fn put_kept(value: Arc<KeptValue>, path: PathBuf, files: &Files<'_>) -> Option<OutcomeReport> {
    let file = match files.left.create_file(&path, files.user.as_ref()) {
        Ok(file) => file,
        Err(error) => return Some(broken("no_inputs", &error)),
    };
    let written = tokio::task::spawn_blocking(move || value.write(&file)).await;
    let written = written.map_err(io::Error::other).and_then(|written| written);
    written.err().map(|error| broken("no_inputs", &error))
}

/// Whether the values of these steps may be others later although their identities stay the same: one expires, or a process
/// has asked for other queries.
fn may_change(params: &NodeParams, files: &Files<'_>) -> bool {
    let expires = params.steps.iter().any(|step| step.expires.is_some()) || params.inputs_expire_at.is_some();
    expires || files.left.file(ASKED_FILE).exists()
}

/// Whether the files of a command are as they were declared.
async fn is_unchanged(filter: &Filter) -> bool {
    let filter = filter.clone();
    let unchanged = tokio::task::spawn_blocking(move || filter.is_unchanged()).await;
    matches!(unchanged, Ok(Ok(true)))
}

fn refused(reason: &str, why: &str) -> OutcomeReport {
    contract::report(Outcome::Failed, Some(contract::refused(reason, why.to_owned())))
}
