//! `jobhall stats`: statistics of the hall.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jobhall_protocol::{Disk, Durations, Kept, Rates, Stats};

use crate::commands::{keep, until_interrupted};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::Format;
use crate::output::human::{bytes, length};

const EXAMPLES: &str = "\
Examples:
  jobhall stats
  jobhall stats --watch
  jobhall stats --json --fields jobs,workers
  jobhall stats --watch --jsonl          a line every two seconds";

/// Interval between refreshes.
const EVERY: Duration = Duration::from_secs(2);

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatsArgs {
    /// Refresh every two seconds, on a terminal or as lines of JSON
    #[arg(long)]
    pub watch: bool,
}

/// Shows the statistics, once or until Ctrl-C.
pub async fn run(context: &Context, args: &StatsArgs) -> Outcome {
    let client = context.client()?;
    if !args.watch {
        let stats = client.stats().await?;
        context.output.one(&stats, || told(&stats))?;
        return Ok(Exit::Ok);
    }
    let lines = context.output.format == Format::Jsonl;
    if !lines && !context.output.can_redraw() {
        return Err(
            Failure::usage("--watch needs a terminal").fix("add --jsonl for a line every two seconds")
        );
    }
    let watch = async {
        loop {
            let stats = client.stats().await?;
            if !lines {
                context.output.redraw()?;
            }
            context.output.one(&stats, || told(&stats))?;
            tokio::time::sleep(EVERY).await;
        }
    };
    until_interrupted(watch).await
}

fn told(stats: &Stats) -> String {
    let workers = &stats.workers;
    let mut facts = vec![
        ("version", stats.version.clone()),
        ("up for", length(whole(stats.uptime_ms))),
        ("open jobs", by_name(&stats.jobs)),
        ("ready", ready(stats)),
        ("submitted", format!("{} since start; {}", stats.totals.submitted, rates(stats.submitted))),
        ("completed", format!("{}; {}", by_name(&stats.totals.completed), rates(stats.completed))),
        ("attempts", by_name(&stats.totals.attempts)),
        ("wait", durations(stats.wait)),
        ("run", durations(stats.run)),
        ("commit", durations(stats.commit)),
        ("workers", format!("{} busy, {} idle, {} awaited", workers.busy, workers.idle, workers.awaited)),
        ("slots", format!("{} busy, {} free", workers.busy_slots, workers.free_slots)),
        ("connections", format!("{}, {} of them live", stats.connections, stats.live_clients)),
    ];
    if let Some(kept) = &stats.kept {
        facts.extend([("kept", number_kept(kept)), ("retention", rule(kept))]);
    }
    facts.extend(stats.disk.map(|disk| ("disk", sizes(&disk))));
    facts.iter().map(|(name, value)| format!("{name:<12} {value}\n")).collect()
}

fn number_kept(kept: &Kept) -> String {
    let Some(jobs) = kept.jobs else { return "not counted yet".to_owned() };
    let types: Vec<_> = kept.types.iter().map(|one| format!("{} {}", one.jobs, one.job_type)).collect();
    let types = if types.is_empty() { String::new() } else { format!(": {}", types.join(", ")) };
    format!("{jobs} completed jobs{types}")
}

fn rule(kept: &Kept) -> String {
    let rule = &kept.retention;
    if !rule.is_set {
        return "no rule: completed jobs are kept forever".to_owned();
    }
    keep::sentence(rule.keep_ms, rule.keep_count)
}

fn sizes(disk: &Disk) -> String {
    let blobs = disk.blob_bytes.map(|size| format!(", blobs {}", bytes(size))).unwrap_or_default();
    format!("store {}{blobs}, {} free", bytes(disk.store_bytes), bytes(disk.free_bytes))
}

fn whole(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// The non-zero counts.
fn by_name(counts: &BTreeMap<String, u64>) -> String {
    let some: Vec<_> =
        counts.iter().filter(|(_, n)| **n > 0).map(|(name, n)| format!("{n} {name}")).collect();
    if some.is_empty() { "none".to_owned() } else { some.join(", ") }
}

fn ready(stats: &Stats) -> String {
    let oldest = stats.oldest_ready_ms.map(|ms| format!(", the oldest for {}", length(whole(ms))));
    format!("{}{}", stats.ready, oldest.unwrap_or_default())
}

fn rates(rates: Rates) -> String {
    format!("{:.1}/s in 1 min, {:.1}/s in 5 min", rates.per_s_1m, rates.per_s_5m)
}

fn durations(durations: Durations) -> String {
    match (durations.p50_ms, durations.p95_ms) {
        (Some(p50), Some(p95)) => format!("p50 {}, p95 {} of {}", short(p50), short(p95), durations.count),
        _ => "none yet".to_owned(),
    }
}

/// A duration that may be very short.
fn short(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.1} ms"),
        ..1_000.0 => format!("{ms:.0} ms"),
        ..100_000.0 => format!("{:.1} s", ms / 1_000.0),
        _ => format!("{:.0} min", ms / 60_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_keep_their_digits() {
        let said = [0.25, 9.9, 10.4, 999.0, 1_500.0, 600_000.0].map(short);
        assert_eq!(said, ["0.2 ms", "9.9 ms", "10 ms", "999 ms", "1.5 s", "10 min"]);
    }

    #[test]
    fn what_is_kept_is_told_with_its_rule() {
        let kept = |text: &str| serde_json::from_str::<Kept>(text).unwrap();
        let some = kept(
            r#"{"jobs":7,"types":[{"type":"mail","jobs":5},{"type":"exec","jobs":2}],
                "retention":{"keep_ms":86400000,"keep_count":null,"is_set":true}}"#,
        );
        assert_eq!(number_kept(&some), "7 completed jobs: 5 mail, 2 exec");
        assert_eq!(rule(&some), "completed jobs are kept for 1d");
        let new =
            kept(r#"{"jobs":null,"types":[],"retention":{"keep_ms":null,"keep_count":null,"is_set":false}}"#);
        assert_eq!(number_kept(&new), "not counted yet");
        assert_eq!(rule(&new), "no rule: completed jobs are kept forever");
        let disk = Disk { store_bytes: 1_024, free_bytes: 2_048, blob_bytes: Some(512) };
        assert_eq!(sizes(&disk), "store 1.0 KiB, blobs 512 B, 2.0 KiB free");
    }

    #[test]
    fn what_is_zero_is_not_told() {
        let counts = [("queued".to_owned(), 2), ("blocked".to_owned(), 0), ("running".to_owned(), 1)];
        assert_eq!(by_name(&counts.into()), "2 queued, 1 running");
        assert_eq!(by_name(&BTreeMap::new()), "none");
    }
}
