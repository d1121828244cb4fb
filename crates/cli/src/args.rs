//! The command line as clap reads it: the globals and the list of commands.

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    artifact, audit, cache, call, completions, config, doctor, events, group, help, input, job, key, man,
    move_up, nodes, progress, query, queue, recipe, retention, run, schedule, server, slot, source, stats,
    token, types, up, worker, worker_list,
};
use crate::settings::file::{COLORS, FORMATS, LEVELS, Layer};

const EXAMPLES: &str = "\
Examples:
  jobhall up                                  start a server and a worker on this machine
  jobhall run -- make test                    run a command as a job, with a live log
  jobhall job submit thumbnail --params '{\"file\":\"a.png\"}'
  jobhall job list --state running,queued
  jobhall job explain 17                      why is it not running?

Exit codes: jobhall help exit-codes";

/// Run jobs on your own machines: submit them, watch them, and see why one is waiting.
#[derive(Debug, Parser)]
#[command(name = "jobhall", version, after_help = EXAMPLES, disable_help_subcommand = true, max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Server URL; separate the URLs of several nodes with commas [env: JOBHALL_SERVER] [default: the server on
    /// --data, or your running server, or http://127.0.0.1:7450]
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// API token (prefer JOBHALL_TOKEN or a file) [env: JOBHALL_TOKEN, JOBHALL_TOKEN_FILE]
    #[arg(long, global = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Data directory of a local server: its address and admin.token are used [env: JOBHALL_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<String>,
    /// Certificate of the CA that signed the server's certificate [env: JOBHALL_CA]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<String>,
    /// Print one JSON document
    #[arg(long, global = true, conflicts_with = "jsonl")]
    pub json: bool,
    /// Print one JSON document per line, as results arrive
    #[arg(long, global = true)]
    pub jsonl: bool,
    /// Show only these fields, in this order
    #[arg(long, global = true, value_name = "A,B", value_delimiter = ',')]
    pub fields: Vec<String>,
    /// When to use colours [env: JOBHALL_COLOR, NO_COLOR]
    #[arg(long, global = true, value_name = "WHEN", value_parser = COLORS)]
    pub color: Option<String>,
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more details
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

impl Globals {
    /// The flags as the settings layer with the highest precedence.
    pub fn layer(&self) -> Layer {
        Layer {
            server: self.server.clone(),
            token: self.token.clone(),
            data: self.data.clone(),
            color: self.color.clone(),
            ca: self.ca.clone(),
            ..Layer::default()
        }
    }
}

/// Logging options of long-running commands.
#[derive(Clone, Debug, Default, Args)]
pub struct LogArgs {
    /// Log level on standard error [env: JOBHALL_LOG] [default: warn]
    #[arg(long, value_name = "LEVEL", value_parser = LEVELS)]
    pub log: Option<String>,
    /// Log format [env: JOBHALL_LOG_FORMAT] [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = FORMATS)]
    pub log_format: Option<String>,
}

impl Cli {
    /// The logging options, for long-running commands.
    pub fn log(&self) -> Option<&LogArgs> {
        match &self.command {
            Command::Up(args) => Some(&args.log),
            Command::Server(args) => Some(&args.log),
            Command::Worker(args) => Some(&args.log),
            _ => None,
        }
    }

    /// The flags as the settings layer with the highest precedence.
    pub fn layer(&self) -> Layer {
        let LogArgs { log, log_format } = self.log().cloned().unwrap_or_default();
        Layer { log, log_format, ..self.globals.layer() }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a server and a worker on this machine
    Up(up::UpArgs),
    /// Run a command as a job with a live log; the exit code reports the outcome
    Run(run::RunArgs),
    /// Submit, watch and manage jobs
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Create and follow groups of jobs
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// Store files as artifacts, from inside a job
    #[command(subcommand)]
    Artifact(artifact::ArtifactCommand),
    /// Ask for the value of a chain of commands, which is computed once for all who ask
    Query(query::QueryArgs),
    /// Store data that queries begin with
    #[command(subcommand)]
    Source(source::SourceCommand),
    /// Bind keys to queries, and make their values
    #[command(subcommand)]
    Recipe(recipe::RecipeCommand),
    /// Show, pin and remove the stored values of queries
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Show and configure queues
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Show statistics of the hall
    Stats(stats::StatsArgs),
    /// List the nodes of the hall
    Nodes(nodes::NodesArgs),
    /// Show and configure job types
    #[command(subcommand)]
    Type(types::TypeCommand),
    /// Show and change how long completed jobs are kept
    #[command(subcommand)]
    Retention(retention::RetentionCommand),
    /// Create jobs on a schedule
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Create, list and revoke tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Show and rotate the key file of the hall
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Show the audit log
    Audit(audit::AuditArgs),
    /// Start a sub-job and wait for its result, from inside a job
    Call(call::CallArgs),
    /// Read results and artifacts of the jobs that a job comes after, from inside that job
    Input(input::InputArgs),
    /// Report progress, from inside a job
    Progress(progress::ProgressArgs),
    /// Watch the events of the hall
    Events(events::EventsArgs),
    /// Start a server without a worker
    Server(server::ServerArgs),
    /// Start a worker, or list and show workers
    Worker(worker::WorkerArgs),
    /// Move the data of a stopped hall from SQLite to PostgreSQL
    Move(move_up::MoveArgs),
    /// Check that the server can be used from this machine
    Doctor(doctor::DoctorArgs),
    /// Show the settings in effect
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print shell completions
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write all manual pages
    Man(man::ManArgs),
    /// Show help for a command or the exit codes
    Help(help::HelpArgs),
    /// The supervisor of a job's processes; started by the worker only
    #[command(name = "__slot", hide = true)]
    Slot(slot::SlotArgs),
    /// The same as `job submit`
    #[command(hide = true)]
    Submit(Box<job::SubmitArgs>),
    /// The same as `job list`
    #[command(hide = true)]
    Ls(job::ListArgs),
    /// The same as `job log`
    #[command(hide = true)]
    Logs(job::LogArgs),
    /// The same as `job list --state assigned,accepted,running,waiting`
    #[command(hide = true)]
    Ps(job::ListArgs),
    /// The same as `stats`
    #[command(hide = true)]
    Status(stats::StatsArgs),
    /// The same as `worker list`
    #[command(hide = true)]
    Workers(worker_list::ListArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn globals_may_stand_behind_the_command() {
        let cli = Cli::try_parse_from([
            "jobhall", "job", "list", "--json", "--server", "http://x", "--fields", "id,state",
        ])
        .unwrap();
        assert!(cli.globals.json);
        assert_eq!(cli.globals.fields, ["id", "state"]);
        assert_eq!(cli.globals.layer().server.as_deref(), Some("http://x"));
        assert!(Cli::try_parse_from(["jobhall", "--json", "--jsonl", "stats"]).is_err());
    }

    #[test]
    fn a_mistyped_command_gets_a_suggestion() {
        let error = Cli::try_parse_from(["jobhall", "jop", "list"]).unwrap_err().to_string();
        assert!(error.contains("'job'"), "{error}");
    }

    #[test]
    fn each_command_has_an_example() {
        fn check(command: &clap::Command) {
            let name = command.get_name();
            let example = command.get_after_help().is_some_and(|help| help.to_string().contains("Example"));
            assert!(example || command.is_hide_set(), "{name} has no example");
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
