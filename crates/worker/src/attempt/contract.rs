//! The process contract: turns a job into a command, and the command's end into an outcome.

use jobhall_client::Trust;
use jobhall_protocol::{
    Allow, AssignedJob, EXEC, Exec, Failure, Outcome, OutcomeReport, RetryVerdict, Span, TypeCommand,
    WorkerFile,
};

use super::filter;
use crate::attempt::artifacts::Value;
use crate::slots::command::Command;
use crate::slots::ended::{Ended, Status};
use crate::slots::setup::JobUser;
use crate::workspace::Workspace;

/// The exit code that requests a retry.
const TRY_AGAIN: i32 = 75;
/// The delay of that retry.
const TRY_AGAIN_MS: u64 = 5_000;

/// The command for this job, or why there is none.
pub fn command(job: &AssignedJob, file: &WorkerFile, user: Option<&JobUser>) -> Result<Command, Failure> {
    if let Some(typed) = file.types.get(&job.job_type) {
        return Ok(of_user(typed_command(typed), user).stdin(job.params.get().as_bytes().to_vec()));
    }
    if job.job_type != EXEC {
        return Err(refused("unknown_type", format!("this worker has no command for type {}", job.job_type)));
    }
    if !file.allow.contains(&Allow::Exec) {
        return Err(refused("exec_not_allowed", "this worker does not run commands of clients".to_owned()));
    }
    let exec: Exec = serde_json::from_str(job.params.get())
        .map_err(|error| refused("bad_params", format!("params of exec: {error}")))?;
    exec_command(exec, user)
}

pub(crate) fn of_user(command: Command, user: Option<&JobUser>) -> Command {
    match user {
        Some(user) => command.env("HOME", &user.home).env("USER", &user.name),
        None => command,
    }
}

/// A relative path of a program is relative to the directory in which the worker was started.
fn typed_command(typed: &TypeCommand) -> Command {
    let mut argv = typed.run.clone();
    if let Some(program) = argv.first_mut().filter(|program| program.contains('/'))
        && let Ok(path) = std::path::absolute(&*program)
        && let Ok(path) = path.into_os_string().into_string()
    {
        *program = path;
    }
    let command = Command::new(argv);
    match &typed.cwd {
        Some(cwd) => command.directory(cwd),
        None => command,
    }
}

fn exec_command(exec: Exec, user: Option<&JobUser>) -> Result<Command, Failure> {
    let command = match (exec.argv, exec.script) {
        (Some(argv), None) if !argv.is_empty() => Command::new(argv),
        (None, Some(script)) => Command::script(&script),
        _ => return Err(refused("bad_params", "params of exec: give either argv or script".to_owned())),
    };
    let mut command = of_user(command, user);
    for (name, value) in exec.env {
        command = command.env(name, value);
    }
    if let Some(cwd) = exec.cwd {
        command = command.directory(cwd);
    }
    Ok(command.stdin(exec.stdin.unwrap_or_default().into_bytes()))
}

/// Adds the variables that the process of every job gets, and the workspace.
pub(crate) fn with_contract(
    command: Command,
    job: &AssignedJob,
    claim: &str,
    server: &str,
    left: &Workspace,
) -> Command {
    let command = match job.inputs {
        0 => command,
        // Its inputs are files of their own.
        _ if filter::is_node(job) => command,
        _ => command.env("JOBHALL_INPUTS", left.inputs()),
    };
    command
        .env("CI", "true")
        .env("JOBHALL_JOB", job.id.to_string())
        .env("JOBHALL_ATTEMPT", job.attempt.to_string())
        .env("JOBHALL_CLAIM", claim)
        .env("JOBHALL_SERVER", server)
        .env("JOBHALL_RESULT", left.result())
        .env("JOBHALL_OUTPUT", left.output())
        .default_env("TMPDIR", left.temporary())
        .default_directory(left.work())
}

/// Adds access to the server: a token that expires with the lease, and the trusted certificates.
pub fn with_access(command: Command, token: &str, trust: &Trust) -> Command {
    let command = command.env("JOBHALL_TOKEN", token);
    match trust {
        Trust::System => command,
        Trust::Authority(path) => command.env("JOBHALL_CA", path),
        Trust::Certificate(path) => command.env("JOBHALL_PIN", path),
    }
}

/// The outcome for the end of a command, with its value, or why there is none.
pub(crate) fn outcome(ended: &Ended, cancelled: bool, external: bool, value: Value) -> OutcomeReport {
    if cancelled {
        return report(Outcome::Cancelled, None);
    }
    match &ended.status {
        // The work continues externally: another party reports its outcome.
        Status::Exit(0) if external => report(Outcome::Started, None),
        Status::Exit(0) => match value {
            Ok(value) => OutcomeReport { value, ..report(Outcome::Succeeded, None) },
            Err(failure) => report(Outcome::Failed, Some(failure)),
        },
        Status::Exit(TRY_AGAIN) => {
            let failure = refused("try_again", format!("exit code {TRY_AGAIN} asks for another attempt"));
            let retry = Some(RetryVerdict::In(Span(TRY_AGAIN_MS)));
            OutcomeReport { retry, ..report(Outcome::Failed, Some(failure)) }
        }
        Status::Exit(code) => {
            report(Outcome::Failed, Some(refused(&format!("exit_{code}"), ended.status.to_string())))
        }
        Status::Signal(signal) => {
            report(Outcome::Crashed, Some(refused(&format!("signal_{signal}"), ended.status.to_string())))
        }
        status => report(Outcome::Crashed, Some(refused("not_run", status.to_string()))),
    }
}

/// A report without value and verdict.
pub fn report(outcome: Outcome, error: Option<Failure>) -> OutcomeReport {
    OutcomeReport { outcome, value: None, error, retry: None, params: None }
}

pub(crate) fn refused(reason: &str, explanation: String) -> Failure {
    Failure { reason: reason.to_owned(), explanation, data: None }
}
