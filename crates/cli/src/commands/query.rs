//! `jobhall query`: asking a query, in the form of a URL or of a pipe.

mod answer;
mod each;
pub(super) mod edited;
mod explain;
mod head;
mod here;
mod large;
mod metadata;
mod tree;
mod within;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use jobhall_client::ClientError;
use jobhall_core::query::{Pipe, PipeHead, Query, QueryError, TEXT_BYTES_MAX, is_pipe};
use jobhall_protocol::{ArgumentType, CommandArgument, KnownCommand, Problem, REFRESH_ALL};

use crate::commands::{embedded, until_interrupted};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::Format;
use crate::output::table::Table;

use head::Local;

const EXAMPLES: &str = "\
Examples:
  jobhall query 'numbers 100 | head 3'            words as in a shell, and | between the steps
  jobhall query '@sales.csv | clean'              begin with a file, or - for standard input
  jobhall query numbers-100/head-3 -o first.txt   the same as a URL
  jobhall query numbers-100/head-3 --url          where a browser or curl finds it
  jobhall query 'numbers 100 | head 3' --explain  what would run, and why
  jobhall query 'numbers 100 | head 3' --json     the value and its steps as one document
  jobhall query 'numbers 100 | head 3' --refresh=head     compute head anew, and what follows it
  jobhall query 'numbers 100 | head {}' --each counts.txt     once for each line
  jobhall query commands                          what a query can use";

/// Arguments of `query`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct QueryArgs {
    #[command(subcommand)]
    pub command: Option<QueryCommand>,
    /// The query: the text of a URL, or a pipe of commands
    #[arg(value_name = "QUERY", allow_hyphen_values = true)]
    pub query: Option<String>,
    /// Write the value to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the address of the value and ask for nothing
    #[arg(long, conflicts_with = "output")]
    pub url: bool,
    /// Do not wait: print the promise of the value
    #[arg(long, conflicts_with_all = ["output", "url"])]
    pub no_wait: bool,
    /// Show how each step would be answered, and run nothing
    #[arg(long, conflicts_with_all = ["output", "url", "no_wait"])]
    pub explain: bool,
    /// Only a value that is cached: exit 104 if it is not
    #[arg(long, conflicts_with_all = ["url", "no_wait", "explain"])]
    pub cached: bool,
    /// Show what is known of the query, such as its state, times, log and a preview, and run nothing
    #[arg(long, conflicts_with_all = ["output", "url", "no_wait", "explain", "cached"])]
    pub meta: bool,
    /// Compute all steps anew, or those of the command STEP and what follows them
    #[arg(long, value_name = "STEP", num_args = 0..=1, require_equals = true, default_missing_value = REFRESH_ALL,
          conflicts_with_all = ["url", "explain", "cached", "meta"])]
    pub refresh: Option<String>,
    /// Ask once for each line of this file, which is an argument in the place of {}; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "no_wait", "explain", "cached", "meta"])]
    pub each: Option<PathBuf>,
}

/// The commands of `query`.
#[derive(Debug, Subcommand)]
pub enum QueryCommand {
    /// List the commands that queries can use
    #[command(after_help = "Example:\n  jobhall query commands --json")]
    Commands,
}

/// The canonical text of a query. Local data that it begins with is named by its digest, and not sent.
pub(super) fn canonical(text: &str) -> Outcome<String> {
    let (head, query) = parse(text)?;
    Ok(head::read(head.as_ref(), query)?.1.text())
}

pub async fn run(context: &Context, args: &QueryArgs) -> Outcome {
    match (&args.command, &args.query) {
        (Some(QueryCommand::Commands), _) => embedded::on_any(context, commands).await,
        (None, Some(text)) => {
            if let Some(file) = args.each.as_ref().filter(|_| within::attempt(context).is_none()) {
                let asked =
                    async |context: &Context| until_interrupted(each::run(context, args, text, file)).await;
                return embedded::on_any(context, asked).await;
            }
            let (head, query) = parse(text)?;
            let (local, query) = head::read(head.as_ref(), query)?;
            let asked = async |context: &Context| {
                until_interrupted(ask(context, args, text, local.as_ref(), &query)).await
            };
            if args.url { asked(context).await } else { embedded::on_any(context, asked).await }
        }
        (None, None) => Err(Failure::usage("no query was given").fix("see jobhall query --help")),
    }
}

async fn ask(
    context: &Context,
    args: &QueryArgs,
    text: &str,
    local: Option<&Local>,
    query: &Query,
) -> Outcome {
    let canonical = query.text();
    if args.url {
        let server = &context.settings.server()?.value;
        let first = server.split(',').next().unwrap_or_default().trim_end_matches('/');
        context.output.line(&format!("{first}/q/{canonical}"))?;
        return Ok(Exit::Ok);
    }
    if let Some(attempt) = within::attempt(context) {
        return within::ask(context, args, &attempt, query, local.is_some()).await;
    }
    let client = context.client()?;
    if let Some(local) = local {
        local.send(context).await?;
    }
    edited::wait_until_declared(&client, query).await?;
    if args.explain {
        let plan = client.explain_query(&canonical).await.map_err(failed)?;
        match context.output.format {
            Format::Human => context.output.list(&plan.steps, || explain::table(&plan))?,
            Format::Json | Format::Jsonl => context.output.one(&plan, String::new)?,
        }
        return Ok(Exit::Ok);
    }
    if args.meta {
        let known = client.query_metadata(&canonical).await.map_err(failed)?;
        context.output.one(&known, || metadata::text(&known))?;
        return Ok(Exit::Ok);
    }
    let refresh = args.refresh.as_deref();
    if args.no_wait {
        let promise = match refresh {
            Some(refresh) => client.refresh_query(&canonical, refresh).await,
            None => client.submit_query(&canonical).await,
        };
        let promise = promise.map_err(failed)?;
        context.output.one(&promise, || format!("{} {}", promise.id, promise.state))?;
        return Ok(Exit::Ok);
    }
    if is_pipe(text) {
        context.output.say(&canonical);
    }
    if args.cached && !explain::is_cached(&client, &canonical).await.map_err(failed)? {
        return Err(Failure::new(Exit::Nothing, "the value is not cached")
            .fix("see what would run with --explain, or leave --cached away"));
    }
    let begun = Instant::now();
    let is_document = context.output.format != Format::Human;
    let manner = answer::Manner { with_steps: is_document, refresh };
    let answer = answer::ask(&client, &context.output, &canonical, manner).await.map_err(failed)?;
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (mut answer, path) = (answer, args.output.as_deref());
    match answer.take_large() {
        Some(_) if is_document && path.is_none() => return Err(answer::too_large()),
        Some(large) => large::write(context, large, path, &failed).await?,
        None => {
            if let Some(path) = path {
                std::fs::write(path, answer.bytes()).map_err(|error| {
                    Failure::usage(format!("failed to write {}", path.display())).why(error.to_string())
                })?;
            } else if !is_document {
                context.output.raw(answer.bytes())?;
            }
        }
    }
    if is_document {
        let file = path.map(|path| path.display().to_string());
        context.output.one(&answer.document(&canonical, file), String::new)?;
    }
    // A value on the terminal is enough of an answer.
    if args.output.is_some() || !std::io::stdout().is_terminal() {
        context.output.say(&answer.summary(query.steps.len(), took));
    }
    Ok(Exit::Ok)
}

/// The query of a text, in the form of a URL or of a pipe, and what the pipe begins with.
pub(super) fn parse(text: &str) -> Outcome<(Option<PipeHead>, Query)> {
    if !is_pipe(text) {
        let query = Query::parse(text, TEXT_BYTES_MAX).map_err(|error| wrong(&error, text))?;
        return Ok((None, query));
    }
    let Pipe { head, query } = Pipe::parse(text).map_err(|error| wrong(&error, text))?;
    Ok((head, query))
}

fn wrong(error: &QueryError, text: &str) -> Failure {
    let what = error.message(text);
    if text.contains('\n') {
        return Failure::usage(what);
    }
    Failure::usage(what).why(marked(text, &error.span.marks(text)))
}

fn marked(text: &str, marks: &str) -> String {
    format!("\n    {text}\n    {marks}")
}

/// A refusal or a failed step, with its place in the query.
pub(super) fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::Problem(Problem {
            query: Some(query),
            code,
            detail,
            title,
            status,
            kind,
            request_id,
        }) => {
            let marks = query.marks.as_deref().map(|marks| marked(&query.query, marks));
            let problem = Problem { query: None, code, detail, title, status, kind, request_id };
            let failure = Failure::from(ClientError::Problem(problem));
            let failure = match marks {
                Some(marks) => failure.why(marks),
                None => failure,
            };
            match query.job {
                Some(job) => failure.fix(format!("see `jobhall job log {job}`")),
                None => failure,
            }
        }
        error => Failure::from(error),
    }
}

async fn commands(context: &Context) -> Outcome {
    let known = context.client()?.commands().await?;
    context.output.list(&known, || table(&known))?;
    Ok(Exit::Ok)
}

fn table(known: &[KnownCommand]) -> Table {
    let mut table = Table::new(&["COMMAND", "VERSION", "~WORKERS", "~MODES", "~HELP"]);
    for command in known {
        let arguments: String = command.command.args.iter().map(argument).collect();
        let workers = if command.workers.is_empty() { "none".to_owned() } else { command.workers.join(",") };
        table.row([
            format!("{}{arguments}", command.name).into(),
            command.version.as_str().into(),
            workers.into(),
            modes(command).into(),
            command.command.help.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}

/// ` column:text`, or ` [rows:int=10]` for one that may be left out.
fn argument(argument: &CommandArgument) -> String {
    let kind = match argument.kind {
        ArgumentType::OneOf => argument.values.join("|"),
        kind => serde_json::to_string(&kind).unwrap_or_default().trim_matches('"').to_owned(),
    };
    match &argument.default {
        Some(default) => format!(" [{}:{kind}={default}]", argument.name),
        None => format!(" {}:{kind}", argument.name),
    }
}

fn modes(command: &KnownCommand) -> String {
    let command = &command.command;
    let all = [
        (command.volatile, "volatile"),
        (command.soft_volatile, "soft_volatile"),
        (command.inline, "inline"),
        (!command.serialisable, "not serialisable"),
        (!command.cacheable, "not cacheable"),
        (command.mainthread, "mainthread"),
    ];
    all.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect::<Vec<_>>().join(",")
}
