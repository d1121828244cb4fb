//! `jobhall doctor`: can the hall be used from here?

use clap::Args;
use jobhall_client::{Client, ClientError, JobFilter};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human;
use crate::output::table::{Cell, Table};

const EXAMPLES: &str = "\
Examples:
  jobhall doctor
  jobhall doctor --server http://hall:7450 --json";

/// Clocks further apart than this make leases, schedules and logs hard to read.
const MOST_SKEW_MS: i64 = 5_000;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Warning,
    Failed,
}

#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    verdict: Verdict,
    detail: String,
    #[serde(skip)]
    exit: Exit,
}

impl Check {
    fn new(check: &'static str, verdict: Verdict, detail: impl Into<String>) -> Check {
        Check { check, verdict, detail: detail.into(), exit: Exit::Ok }
    }

    fn failed(check: &'static str, error: ClientError) -> Check {
        let Failure { exit, what, why, fix } = Failure::from(error);
        let parts = [Some(what), why, fix].into_iter().flatten();
        Check { check, verdict: Verdict::Failed, detail: parts.collect::<Vec<_>>().join("; "), exit }
    }
}

/// Runs the checks; the exit code is that of the first which failed.
pub async fn run(context: &Context) -> Outcome {
    let checks = checks(context, &context.client()?).await;
    context.output.list(&checks, || table(&checks))?;
    Ok(checks.iter().map(|check| check.exit).find(|exit| *exit != Exit::Ok).unwrap_or(Exit::Ok))
}

async fn checks(context: &Context, client: &Client) -> Vec<Check> {
    let alive = match client.livez().await {
        Ok(alive) => alive,
        Err(error) => return vec![Check::failed("server", error)],
    };
    let reached = Check::new("server", Verdict::Ok, format!("answers at {}", client.base_url()));
    let mut checks =
        vec![reached, version(alive.version.as_deref()), clock(alive.date.as_deref(), human::now_ms())];
    let token = token(context, client).await;
    let accepted = token.verdict == Verdict::Ok;
    checks.push(token);
    if accepted {
        checks.push(workers(client).await);
    }
    checks
}

fn version(hall: Option<&str>) -> Check {
    let own = env!("CARGO_PKG_VERSION");
    match hall {
        None => {
            Check::new("version", Verdict::Warning, format!("the hall does not tell its own; this is {own}"))
        }
        Some(hall) if hall == own => Check::new("version", Verdict::Ok, own),
        Some(hall) => Check::new("version", Verdict::Warning, format!("the hall has {hall}, this is {own}")),
    }
}

fn clock(date: Option<&str>, now_ms: i64) -> Check {
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let Some(date) = date else {
        return Check::new("clock", Verdict::Warning, "the hall does not tell its time");
    };
    // The header has whole seconds: half of one is the best guess.
    let skew = now_ms - (date.timestamp().as_millisecond() + 500);
    let verdict = if skew.abs() > MOST_SKEW_MS { Verdict::Warning } else { Verdict::Ok };
    Check::new("clock", verdict, format!("{} apart", human::length(skew.abs())))
}

async fn token(context: &Context, client: &Client) -> Check {
    let Some(token) = &context.settings.token else {
        let mut check = Check::new("token", Verdict::Failed, "none; set JOBHALL_TOKEN or JOBHALL_TOKEN_FILE");
        check.exit = Exit::Auth;
        return check;
    };
    let filter = JobFilter { limit: Some(1), ..JobFilter::default() };
    match client.jobs(&filter, None).await {
        Ok(_) => Check::new("token", Verdict::Ok, format!("accepted, from {}", token.origin)),
        Err(error) => Check::failed("token", error),
    }
}

async fn workers(client: &Client) -> Check {
    match client.workers().await {
        Ok(workers) if workers.is_empty() => {
            Check::new("workers", Verdict::Warning, "none: jobs will wait; start one with `jobhall worker`")
        }
        Ok(workers) => Check::new("workers", Verdict::Ok, format!("{} known", workers.len())),
        Err(error) => Check::failed("workers", error),
    }
}

fn table(checks: &[Check]) -> Table {
    let mut table = Table::new(&["CHECK", "VERDICT", "DETAIL"]);
    for check in checks {
        let (word, color) = match check.verdict {
            Verdict::Ok => ("✓ ok", anstyle::AnsiColor::Green),
            Verdict::Warning => ("! warning", anstyle::AnsiColor::Yellow),
            Verdict::Failed => ("✗ failed", anstyle::AnsiColor::Red),
        };
        let verdict = Cell::styled(word, anstyle::Style::new().fg_color(Some(color.into())));
        table.row([check.check.into(), verdict, (&check.detail).into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared_by_the_date_of_the_answer() {
        let date = "Sun, 15 Nov 2026 12:00:00 GMT";
        let at = 1_794_744_000_000;
        assert_eq!(clock(Some(date), at + 900).verdict, Verdict::Ok);
        assert_eq!(clock(Some(date), at + 60_000).verdict, Verdict::Warning);
        assert_eq!(clock(Some(date), at - 60_000).detail, "1m apart");
        assert_eq!(clock(Some("yesterday"), at).verdict, Verdict::Warning);
    }
}
