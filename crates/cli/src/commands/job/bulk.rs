//! `jobhall job bulk`: cancel, retry or delete all jobs that match, as one recorded operation.

use std::time::Duration;

use clap::{Args, Subcommand};
use jobhall_client::Client;
use jobhall_core::StateName;
use jobhall_protocol::{Operation, OperationState, StartOperation, Verb};

use crate::commands::job::filter::{FilterArgs, named};
use crate::commands::{confirm, interrupted};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::Format;
use crate::output::table::{Table, clean};

const EXAMPLES: &str = "\
Examples:
  jobhall job bulk retry --state failed,crashed --created-after 2026-11-15T00:00:00Z
  jobhall job bulk cancel --type thumbnail --state pending --yes
  jobhall job bulk delete --q 'no such host' --dry-run
  jobhall job bulk show 3";

/// Interval between progress requests.
const LOOK: Duration = Duration::from_millis(200);

/// The commands of `job bulk`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum BulkCommand {
    /// Cancel all pending jobs that match; ended ones are not counted
    #[command(after_help = "Example:\n  jobhall job bulk cancel --type thumbnail --yes")]
    Cancel(BulkArgs),
    /// Run all failed and crashed jobs that match again, as new jobs; --state selects others
    #[command(
        after_help = "Examples:\n  jobhall job bulk retry --type mail --dry-run\n  jobhall job bulk retry --state cancelled"
    )]
    Retry(BulkArgs),
    /// Delete all completed jobs that match
    #[command(after_help = "Example:\n  jobhall job bulk delete --state succeeded --queue mail --yes")]
    Delete(BulkArgs),
    /// List the operations
    #[command(after_help = "Example:\n  jobhall job bulk list --json")]
    List {
        /// Also those that only counted jobs
        #[arg(long)]
        dry_runs: bool,
    },
    /// Show the progress of an operation
    #[command(after_help = "Example:\n  jobhall job bulk show 3")]
    Show {
        /// The operation
        id: u64,
    },
    /// Stop an operation; changes that were made remain
    #[command(after_help = "Example:\n  jobhall job bulk stop 3")]
    Stop {
        /// The operation
        id: u64,
    },
}

/// Arguments of an operation.
#[derive(Debug, Args)]
pub struct BulkArgs {
    #[command(flatten)]
    pub which: FilterArgs,
    /// Select all jobs; required if nothing else selects any
    #[arg(long)]
    pub all: bool,
    /// Only count the jobs that match
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
}

/// Runs a command of `job bulk`.
pub async fn run(context: &Context, command: &BulkCommand) -> Outcome {
    let client = context.client()?;
    match command {
        BulkCommand::Cancel(args) => change(context, &client, Verb::Cancel, args).await,
        BulkCommand::Retry(args) => change(context, &client, Verb::Retry, args).await,
        BulkCommand::Delete(args) => change(context, &client, Verb::Delete, args).await,
        BulkCommand::List { dry_runs } => {
            let mut operations = client.operations(500).await?;
            operations.retain(|operation| *dry_runs || !operation.dry_run);
            context.output.list(&operations, || table(&operations))?;
            Ok(Exit::Ok)
        }
        BulkCommand::Show { id } => {
            let operation = client.operation(*id).await?;
            context.output.one(&operation, || told(&operation))?;
            Ok(Exit::Ok)
        }
        BulkCommand::Stop { id } => {
            let operation = client.cancel_operation(*id).await?;
            context.output.one(&operation, || told(&operation))?;
            Ok(Exit::Ok)
        }
    }
}

/// Counts first and asks for confirmation. Jobs submitted after the count are not changed.
async fn change(context: &Context, client: &Client, verb: Verb, args: &BulkArgs) -> Outcome {
    if !args.all && !args.which.narrows() && args.which.job_type.is_none() {
        return Err(Failure::usage("no jobs are selected").fix("give a filter, or --all"));
    }
    let filter = args.which.filter(states(verb, &args.which)?, None).wire();
    let dry = StartOperation { verb, filter, all: args.all, dry_run: true, up_to: None };
    let counted = follow(context, client, client.start_operation(&dry).await?, "counting").await?;
    let total = counted.total.unwrap_or(0);
    if total == 0 && counted.state == OperationState::Succeeded {
        return nothing(context, &counted);
    }
    if args.dry_run || counted.state != OperationState::Succeeded {
        context.output.one(&counted, || told(&counted))?;
        return Ok(verdict(&counted));
    }
    context.output.say(&format!("{total} {} match", jobs(total)));
    if !args.yes {
        confirm(&format!("{} {total} {}", name(verb), jobs(total)))?;
    }
    let asked = StartOperation { dry_run: false, up_to: Some(counted.up_to), ..dry };
    let ended = follow(context, client, client.start_operation(&asked).await?, doing(verb)).await?;
    context.output.one(&ended, || told(&ended))?;
    Ok(verdict(&ended))
}

/// The states that a verb applies to. Without `--state`, a retry takes only jobs that failed or crashed.
fn states(verb: Verb, which: &FilterArgs) -> Outcome<Vec<String>> {
    let applies = |state: StateName| match verb {
        Verb::Cancel => !state.is_terminal(),
        Verb::Retry | Verb::Delete => state.is_terminal(),
    };
    let given = which.states()?;
    if given.is_empty() {
        let failed = |state| verb != Verb::Retry || matches!(state, StateName::Failed | StateName::Crashed);
        return Ok(named(|state| applies(state) && failed(state)));
    }
    let able = named(applies);
    let states: Vec<_> = given.into_iter().filter(|state| able.contains(state)).collect();
    if states.is_empty() {
        return Err(Failure::usage(format!("{} has no effect in these states", name(verb)))
            .fix(format!("give some of --state {}", able.join(","))));
    }
    Ok(states)
}

fn nothing(context: &Context, counted: &Operation) -> Outcome {
    if context.output.format == Format::Human {
        context.output.say("no jobs match");
    } else {
        context.output.one(counted, String::new)?;
    }
    Ok(Exit::Nothing)
}

/// Waits for the end. Ctrl-C exits, and the operation continues on the server.
async fn follow(
    context: &Context,
    client: &Client,
    started: Operation,
    what: &'static str,
) -> Outcome<Operation> {
    let id = started.id;
    let mut progress = context.output.progress(started.total.unwrap_or(0), what);
    let mut operation = started;
    while operation.state == OperationState::Running {
        progress.set(operation.done + operation.failed + operation.skipped, "");
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = interrupted() => {
                progress.finish();
                context.output.say(&format!("the operation continues on the server: see `jobhall job bulk show {id}`"));
                return Err(Failure::new(Exit::Interrupted, "interrupted"));
            }
        }
        operation = client.operation(id).await?;
    }
    progress.finish();
    Ok(operation)
}

fn verdict(operation: &Operation) -> Exit {
    match operation.state {
        OperationState::Failed => Exit::Unexpected,
        OperationState::Cancelled => Exit::Cancelled,
        OperationState::Running | OperationState::Succeeded if operation.failed > 0 => Exit::Conflict,
        OperationState::Running | OperationState::Succeeded => Exit::Ok,
    }
}

fn name(verb: Verb) -> &'static str {
    match verb {
        Verb::Cancel => "cancel",
        Verb::Retry => "retry",
        Verb::Delete => "delete",
    }
}

fn doing(verb: Verb) -> &'static str {
    match verb {
        Verb::Cancel => "cancelling",
        Verb::Retry => "retrying",
        Verb::Delete => "deleting",
    }
}

fn jobs(count: u64) -> &'static str {
    if count == 1 { "job" } else { "jobs" }
}

fn state(operation: &Operation) -> &'static str {
    match operation.state {
        OperationState::Running => "running",
        OperationState::Succeeded => "succeeded",
        OperationState::Failed => "failed",
        OperationState::Cancelled => "cancelled",
    }
}

fn total(operation: &Operation) -> String {
    operation.total.map_or_else(|| "?".to_owned(), |total| total.to_string())
}

fn told(operation: &Operation) -> String {
    let Operation { id, verb, done, failed, skipped, dry_run, .. } = operation;
    let dry = if *dry_run { " (dry run)" } else { "" };
    let error = operation.error.as_ref().map(|error| format!("\nlast error: {}", clean(error)));
    format!(
        "operation {id}: {}{dry} {}: {} matched, {done} done, {failed} failed, {skipped} skipped{}",
        name(*verb),
        state(operation),
        total(operation),
        error.unwrap_or_default()
    )
}

fn table(operations: &[Operation]) -> Table {
    let mut table =
        Table::new(&["ID", "VERB", "STATE", "TOTAL", "DONE", "FAILED", "SKIPPED", "WHO", "STARTED"]);
    for operation in operations {
        let verb = name(operation.verb);
        table.row([
            operation.id.to_string().into(),
            if operation.dry_run { format!("{verb} (dry run)") } else { verb.to_owned() }.into(),
            state(operation).to_owned().into(),
            total(operation).into(),
            operation.done.to_string().into(),
            operation.failed.to_string().into(),
            operation.skipped.to_string().into(),
            clean(&operation.who).into(),
            operation.created_at.to_string().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_takes_the_states_that_it_applies_to() {
        let which = |state: &[&str]| FilterArgs {
            state: state.iter().map(|state| (*state).to_owned()).collect(),
            ..FilterArgs::default()
        };
        assert_eq!(states(Verb::Retry, &which(&[])).unwrap(), ["failed", "crashed"]);
        assert_eq!(states(Verb::Retry, &which(&["succeeded"])).unwrap(), ["succeeded"]);
        assert_eq!(states(Verb::Cancel, &which(&[])).unwrap(), which(&["pending"]).states().unwrap());
        assert_eq!(states(Verb::Cancel, &which(&["completed", "running"])).unwrap(), ["running"]);
        assert_eq!(states(Verb::Delete, &which(&[])).unwrap(), which(&["completed"]).states().unwrap());
        let failure = states(Verb::Cancel, &which(&["failed"])).unwrap_err();
        assert_eq!(
            (failure.exit, failure.what.as_str()),
            (Exit::Usage, "cancel has no effect in these states")
        );
    }
}
