//! `jobhall schedule`: jobs that are created on a schedule.

mod set;

use clap::Subcommand;
use jobhall_client::{Client, Versioned};
use jobhall_protocol::{Code, Schedule, SetSchedule, Tick};
use serde::Serialize;

use crate::commands::job::random_key;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human::{age, now_ms};
use crate::output::table::Table;
use crate::suggest;

const EXAMPLES: &str = "\
Examples:
  jobhall schedule set nightly --cron '0 3 * * *' --zone Europe/Berlin --type report
  jobhall schedule set poll --every 5m --type poll --params '{\"feed\":1}'
  jobhall schedule next nightly
  jobhall schedule pause nightly";

/// The commands of `schedule`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum ScheduleCommand {
    /// List the schedules
    #[command(after_help = "Example:\n  jobhall schedule list --json")]
    List,
    /// Show a schedule
    #[command(after_help = "Example:\n  jobhall schedule show nightly")]
    Show {
        /// The schedule
        name: String,
    },
    /// Create or change a schedule; omitted options keep their values
    Set(Box<set::SetArgs>),
    /// Remove a schedule; the jobs that it created remain
    #[command(after_help = "Example:\n  jobhall schedule remove nightly")]
    Remove {
        /// The schedule
        name: String,
    },
    /// Pause a schedule: its ticks create no jobs
    #[command(after_help = "Example:\n  jobhall schedule pause nightly")]
    Pause {
        /// The schedule
        name: String,
    },
    /// Resume a schedule at its next tick; ticks missed while paused are dropped
    #[command(after_help = "Example:\n  jobhall schedule resume nightly")]
    Resume {
        /// The schedule
        name: String,
    },
    /// Create the job of a schedule now
    #[command(after_help = "Example:\n  jobhall schedule run nightly")]
    Run {
        /// The schedule
        name: String,
    },
    /// Show the next ticks of a schedule
    #[command(after_help = "Example:\n  jobhall schedule next nightly --count 10")]
    Next {
        /// The schedule
        name: String,
        /// Number of ticks
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
        count: u64,
    },
}

pub async fn run(context: &Context, command: &ScheduleCommand) -> Outcome {
    let client = context.client()?;
    match command {
        ScheduleCommand::List => {
            let schedules = client.schedules().await?;
            if schedules.is_empty() {
                context.output.say("no schedules yet; create one with `jobhall schedule set`");
            }
            context.output.list(&schedules, || table(&schedules))?;
        }
        ScheduleCommand::Show { name } => {
            let found = client.schedule(name).await;
            show(context, known(&client, name, found).await?)?;
        }
        ScheduleCommand::Set(args) => {
            let given = args.given()?;
            show(context, client.set_schedule(&args.name, &given, args.if_match.as_deref()).await?)?;
        }
        ScheduleCommand::Remove { name } => {
            known(&client, name, client.remove_schedule(name).await).await?;
            context.output.say(&format!("schedule {name} removed"));
        }
        ScheduleCommand::Pause { name } => pause(context, &client, name, true).await?,
        ScheduleCommand::Resume { name } => pause(context, &client, name, false).await?,
        ScheduleCommand::Run { name } => {
            let made = client.run_schedule(name, Some(&random_key())).await;
            let made = known(&client, name, made).await?;
            context.output.one(&made, || format!("job {} {}", made.id, made.disposition))?;
        }
        ScheduleCommand::Next { name, count } => {
            let ticks = known(&client, name, client.next_ticks(name, *count).await).await?;
            context.output.list(&ticks, || next(&ticks))?;
        }
    }
    Ok(Exit::Ok)
}

/// Only an existing schedule can be paused; a plain set would create a missing one.
async fn pause(context: &Context, client: &Client, name: &str, paused: bool) -> Outcome<()> {
    let given = SetSchedule { paused: Some(paused), ..SetSchedule::default() };
    known(client, name, client.schedule(name).await).await?;
    show(context, client.set_schedule(name, &given, Some("*")).await?)
}

/// The schedule found; if there is none, the error suggests a similar name.
async fn known<T>(client: &Client, name: &str, found: Result<T, jobhall_client::ClientError>) -> Outcome<T> {
    match found {
        Err(error) if error.code() == Some(Code::NotFound) => {
            let all = client.schedules().await.unwrap_or_default();
            let hint = suggest::hint(name, all.iter().map(|schedule| schedule.name.as_str()));
            Err(Failure::new(Exit::NotFound, format!("there is no schedule {name:?}{hint}"))
                .fix("see `jobhall schedule list`"))
        }
        found => Ok(found?),
    }
}

/// A schedule with its version.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    schedule: Schedule,
    version: Option<String>,
}

fn show(context: &Context, found: Versioned<Schedule>) -> Outcome<()> {
    let shown = Shown { schedule: found.value, version: found.version };
    context.output.one(&shown, || told(&shown))
}

/// The cron expression with its time zone, or the interval.
fn when(schedule: &Schedule) -> String {
    match (&schedule.cron, schedule.every) {
        (Some(line), _) => format!("{line} {}", schedule.zone),
        (None, Some(every)) => format!("every {every}"),
        (None, None) => String::new(),
    }
}

fn coming(schedule: &Schedule, now_ms: i64) -> String {
    match schedule.next_tick {
        _ if schedule.paused => "paused".to_owned(),
        Some(tick) => age(tick, now_ms),
        None => "never".to_owned(),
    }
}

fn job_id(schedule: &Schedule) -> String {
    schedule.last_job.map(|id| id.to_string()).unwrap_or_default()
}

fn table(schedules: &[Schedule]) -> Table {
    let now = now_ms();
    let mut table = Table::new(&["~SCHEDULE", "~WHEN", "NEXT", "~TYPE", "LAST JOB"]);
    for schedule in schedules {
        table.row([
            (&schedule.name).into(),
            when(schedule).into(),
            coming(schedule, now).into(),
            (&schedule.job.job_type).into(),
            job_id(schedule).into(),
        ]);
    }
    table
}

fn next(ticks: &[Tick]) -> Table {
    let mut table = Table::new(&["TICK", "STARTS"]);
    ticks.iter().for_each(|tick| table.row([tick.tick.to_string().into(), tick.run_at.to_string().into()]));
    table
}

fn told(shown: &Shown) -> String {
    let schedule = &shown.schedule;
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let moment = |at: Option<jobhall_protocol::Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let facts = [
        ("schedule", schedule.name.clone()),
        ("when", when(schedule)),
        ("next", if schedule.paused { "paused".to_owned() } else { moment(schedule.next_tick) }),
        ("jitter", schedule.jitter.to_string()),
        ("catch up", word(serde_json::json!(schedule.catch_up))),
        ("overlap", word(serde_json::json!(schedule.overlap))),
        ("job", serde_json::to_string(&schedule.job).unwrap_or_default()),
        ("last tick", moment(schedule.last_tick)),
        ("last job", job_id(schedule)),
        ("version", shown.version.clone().unwrap_or_default()),
    ];
    facts.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}
