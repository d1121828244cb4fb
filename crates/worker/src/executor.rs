//! The process contract: turns a job into a command, and the command's end into an outcome.

use jobhall_client::Trust;
use jobhall_protocol::{
    AssignedJob, EXEC, Exec, Failure, Outcome, OutcomeReport, RetryVerdict, Span, WorkerFile,
};

use crate::artifacts::Value;
use crate::command::Command;
use crate::ended::{Ended, Status};
use crate::outputs::Outputs;

/// The exit code that requests a retry.
const TRY_AGAIN: i32 = 75;
/// The delay of that retry.
const TRY_AGAIN_MS: u64 = 5_000;

/// The command for this job, or why there is none.
pub fn command(job: &AssignedJob, file: &WorkerFile) -> Result<Command, Failure> {
    if let Some(typed) = file.types.get(&job.job_type) {
        return Ok(Command::new(typed.run.clone()).stdin(job.params.get().as_bytes().to_vec()));
    }
    if job.job_type != EXEC {
        return Err(refused("unknown_type", format!("this worker has no command for type {}", job.job_type)));
    }
    if !file.allow_exec {
        return Err(refused("exec_not_allowed", "this worker does not run commands of clients".to_owned()));
    }
    let exec: Exec = serde_json::from_str(job.params.get())
        .map_err(|error| refused("bad_params", format!("params of exec: {error}")))?;
    exec_command(exec)
}

fn exec_command(exec: Exec) -> Result<Command, Failure> {
    let mut command = match (exec.argv, exec.script) {
        (Some(argv), None) if !argv.is_empty() => Command::new(argv),
        (None, Some(script)) => Command::script(&script),
        _ => return Err(refused("bad_params", "params of exec: give either argv or script".to_owned())),
    };
    for (name, value) in exec.env {
        command = command.env(name, value);
    }
    if let Some(cwd) = exec.cwd {
        command = command.directory(cwd);
    }
    Ok(command.stdin(exec.stdin.unwrap_or_default().into_bytes()))
}

/// Adds the variables that the process of every job gets.
pub(crate) fn with_contract(
    command: Command,
    job: &AssignedJob,
    claim: &str,
    server: &str,
    left: &Outputs,
) -> Command {
    command
        .env("CI", "true")
        .env("JOBHALL_JOB", job.id.to_string())
        .env("JOBHALL_ATTEMPT", job.attempt.to_string())
        .env("JOBHALL_CLAIM", claim)
        .env("JOBHALL_SERVER", server)
        .env("JOBHALL_RESULT", left.result())
        .env("JOBHALL_OUTPUT", left.output())
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
