//! `jobhall doctor`: checks that the server can be used from this machine.

use clap::Args;
use jobhall_client::{Client, ClientError};
use jobhall_protocol::{Disk, Retention, Stats};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::commands::keep;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human;
use crate::output::table::{Cell, Table};

const EXAMPLES: &str = "\
Examples:
  jobhall doctor
  jobhall doctor --server http://hall:7450 --json";

/// With a larger clock difference leases, schedules and logs are hard to read.
const MOST_SKEW_MS: i64 = 5_000;

/// Warn if the server's disk has less free space than this.
const LITTLE_DISK: u64 = 1 << 30;
/// Warn if fewer files than this can be opened.
const FEW_FILES: u64 = 1_024;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {}

/// The result of a check.
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

/// Runs the checks; returns the exit code of the first that failed.
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
        vec![reached, ready(client).await, clock(alive.date.as_deref(), human::now_ms()), files()];
    match token(context, client).await {
        Ok((token, stats)) => {
            let told = [version(&stats.version), disk(stats.disk), workers(&stats)];
            checks.extend([token].into_iter().chain(told));
            checks.extend(stats.kept.as_ref().map(|kept| retention(&kept.retention)));
        }
        Err(token) => checks.push(token),
    }
    checks
}

async fn ready(client: &Client) -> Check {
    match client.readyz().await {
        Ok(()) => Check::new("ready", Verdict::Ok, "accepts work"),
        Err(error) => Check::failed("ready", error),
    }
}

fn version(hall: &str) -> Check {
    let own = env!("CARGO_PKG_VERSION");
    if hall == own {
        Check::new("version", Verdict::Ok, own)
    } else {
        Check::new("version", Verdict::Warning, format!("the server has {hall}, this is {own}"))
    }
}

/// The limit of open files for programs started here; the server's limit may differ.
fn files() -> Check {
    let limit = getrlimit(Resource::Nofile).current;
    let told = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {limit} open files"));
    if limit.is_some_and(|limit| limit < FEW_FILES) {
        return Check::new(
            "files",
            Verdict::Warning,
            format!("{told}; raise it with `ulimit -n {FEW_FILES}`"),
        );
    }
    Check::new("files", Verdict::Ok, told)
}

fn disk(disk: Option<Disk>) -> Check {
    let Some(disk) = disk else {
        return Check::new("disk", Verdict::Warning, "the server does not report its disk space");
    };
    let told =
        format!("{} free, the store has {}", human::bytes(disk.free_bytes), human::bytes(disk.store_bytes));
    let verdict = if disk.free_bytes < LITTLE_DISK { Verdict::Warning } else { Verdict::Ok };
    Check::new("disk", verdict, told)
}

/// A store of an earlier version has no rule until someone sets one.
fn retention(rule: &Retention) -> Check {
    if !rule.is_set {
        let told = "no rule is set: completed jobs are kept forever, and the store grows; \
                    set one with `jobhall retention set --keep 30d --keep-count 1000000`";
        return Check::new("retention", Verdict::Warning, told);
    }
    Check::new("retention", Verdict::Ok, keep::sentence(rule.keep_ms, rule.keep_count))
}

fn clock(date: Option<&str>, now_ms: i64) -> Check {
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let Some(date) = date else {
        return Check::new("clock", Verdict::Warning, "the server does not report its time");
    };
    // The header has whole seconds: half a second is the best estimate.
    let skew = now_ms - (date.timestamp().as_millisecond() + 500);
    let verdict = if skew.abs() > MOST_SKEW_MS { Verdict::Warning } else { Verdict::Ok };
    Check::new("clock", verdict, format!("{} apart", human::length(skew.abs())))
}

/// Checks the token, and what the server reports with it.
async fn token(context: &Context, client: &Client) -> Result<(Check, Stats), Check> {
    let Some(token) = &context.settings.token else {
        let mut check = Check::new("token", Verdict::Failed, "none; set JOBHALL_TOKEN or JOBHALL_TOKEN_FILE");
        check.exit = Exit::Auth;
        return Err(check);
    };
    let stats = client.stats().await.map_err(|error| Check::failed("token", error))?;
    let jobhall_protocol::Asker { name, role } = &stats.token;
    let told = format!("accepted as {name}, role {role}, from {}", token.origin);
    Ok((Check::new("token", Verdict::Ok, told), stats))
}

fn workers(stats: &Stats) -> Check {
    let workers = &stats.workers;
    if workers.idle + workers.busy == 0 {
        let told = "none: jobs will not run; start one with `jobhall worker`";
        return Check::new("workers", Verdict::Warning, told);
    }
    let told = format!("{} busy, {} idle, {} free slots", workers.busy, workers.idle, workers.free_slots);
    Check::new("workers", Verdict::Ok, told)
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
    fn another_version_and_a_full_disk_are_warnings() {
        assert_eq!(version(env!("CARGO_PKG_VERSION")).verdict, Verdict::Ok);
        assert_eq!(version("99.0.0").verdict, Verdict::Warning);
        let with = |free_bytes| disk(Some(Disk { store_bytes: 1, free_bytes, blob_bytes: None })).verdict;
        assert_eq!([with(LITTLE_DISK), with(LITTLE_DISK - 1)], [Verdict::Ok, Verdict::Warning]);
        assert_eq!(disk(None).verdict, Verdict::Warning);
    }

    #[test]
    fn a_store_without_a_rule_for_completed_jobs_is_a_warning_with_a_fix() {
        let rule = |is_set| retention(&Retention { keep_ms: None, keep_count: Some(5), is_set });
        let check = rule(false);
        assert_eq!((check.verdict, check.exit), (Verdict::Warning, Exit::Ok));
        assert!(check.detail.contains("`jobhall retention set --keep 30d"), "{}", check.detail);
        assert_eq!(rule(true).verdict, Verdict::Ok);
    }

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
