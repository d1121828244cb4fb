//! A node of a query: each step is a process with its input on standard input, its arguments as words, and its value on
//! standard output. What it writes to standard error is the log, and its exit code is the outcome.

pub(super) mod kept;
mod values;

use std::path::PathBuf;
use std::sync::Arc;

use jobhall_core::query::{ArgumentParam, InputPlace, NodeParams, StepParams, StoredValue};
use jobhall_protocol::{AssignedJob, Outcome, OutcomeReport, RetryVerdict};
use serde_json::value::RawValue;

use self::kept::{KeptValue, StepAnswer};
use self::values::{Left, SizeLimit};
use super::filters::Filter;
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
        for (at, answer) in self.kept.answers(&params).into_iter().enumerate() {
            let report = match answer {
                StepAnswer::Run => self.run_step(&slot, at, &params.steps[at], &files, gathered).await,
                StepAnswer::Kept(value) => put_kept(value, files.value(at), &files).await,
                StepAnswer::NotNeeded => None,
            };
            if let Some(report) = report {
                return Some(report).filter(|_| self.reporter.order() < Order::Lost);
            }
        }
        self.value_of(&params, &files).await
    }

    /// Keeps the value that a step has left, if it stays on this worker.
    async fn keep_value(&self, step: &StepParams, path: PathBuf) {
        let Some(identity) = step.kept else { return };
        let (kept, command) = (self.kept.clone(), step.command.clone());
        let kept = tokio::task::spawn_blocking(move || kept.keep(identity, &path)).await;
        if let Err(error) = kept.map_err(std::io::Error::other).and_then(|kept| kept) {
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

    /// Runs one step; none if it has left its value.
    async fn run_step(
        &mut self,
        slot: &Slot,
        at: usize,
        step: &StepParams,
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
        let command = self.step_command(&filter, at, step, files);
        if self.reporter.order() != Order::Go {
            return Some(contract::report(Outcome::Cancelled, None));
        }
        let running = match slot.part().run(command).await {
            Ok(running) => running,
            Err(error) => return Some(broken("not_run", &error)),
        };
        self.reporter.begun.set();
        let limit = SizeLimit::new(files.value(at), running.stopper());
        let ended = self.follow(running, gathered).await;
        if let Some(report) = limit.end() {
            return Some(report);
        }
        let cancelled = self.reporter.order() == Order::Cancel;
        if !cancelled && ended.status == Status::Exit(0) {
            if !is_unchanged(&filter).await {
                return Some(self.outdated(step).await);
            }
            self.keep_value(step, files.value(at)).await;
            return None;
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

    fn step_command(&self, filter: &Filter, at: usize, step: &StepParams, files: &Files<'_>) -> Command {
        let arguments: Vec<String> = step
            .arguments
            .iter()
            .map(|argument| match argument {
                ArgumentParam::Text(text) => text.clone(),
                ArgumentParam::Link(place) => files.of(*place).to_string_lossy().into_owned(),
            })
            .collect();
        let mut line = filter.declaration.command_line(&arguments);
        // A program with a path is found from the directory of the declaration, as all its files are.
        if let Some(program) = line.first_mut().filter(|program| program.contains('/')) {
            *program = filter.directory.join(&*program).to_string_lossy().into_owned();
        }
        let mut command = contract::of_user(Command::new(line), files.user.as_ref());
        for (name, value) in &filter.declaration.env {
            command = command.env(name, value);
        }
        command = command.directory(&filter.directory).stdout_file(files.value(at));
        if let Some(place) = step.input {
            command = command.stdin_file(files.of(place));
        }
        if let Some(format) = &step.format {
            command = command.env("JOBHALL_FORMAT", format);
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
        let (path, media_type) = (files.value(last), filter.declaration.media_type());
        let value = match values::look(&path) {
            Ok(Left::Bytes(bytes)) => StoredValue::new(media_type, bytes),
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

/// Writes a value that was kept to the file of its step; the report says why it could not be written.
async fn put_kept(value: Arc<KeptValue>, path: PathBuf, files: &Files<'_>) -> Option<OutcomeReport> {
    let file = match files.left.create_file(&path, files.user.as_ref()) {
        Ok(file) => file,
        Err(error) => return Some(broken("no_inputs", &error)),
    };
    let written = tokio::task::spawn_blocking(move || value.write(&file)).await;
    let written = written.map_err(std::io::Error::other).and_then(|written| written);
    written.err().map(|error| broken("no_inputs", &error))
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
