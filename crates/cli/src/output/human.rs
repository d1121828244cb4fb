//! Text output of jobs, attempts and times.

use jobhall_protocol::{Artifact, Attempt, Failure, Indicator, Input, Job, Timestamp};

use crate::output::state;
use crate::output::table::{Cell, Table, clean};

/// The current time on this machine's clock.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// A duration in its one or two largest units, such as `3s`, `4m`, `2h 5m`, `12d`.
pub fn length(ms: i64) -> String {
    let s = ms.max(0) / 1_000;
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m", s / 60),
        3_600..86_400 if s % 3_600 >= 60 => format!("{}h {}m", s / 3_600, s % 3_600 / 60),
        3_600..86_400 => format!("{}h", s / 3_600),
        _ => format!("{}d", s / 86_400),
    }
}

/// A size in its largest unit.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = usize::try_from(bytes.max(1).ilog2() / 10).unwrap_or(0).min(units.len() - 1);
    let tenths = (u128::from(bytes) * 10) >> (10 * at);
    if at == 0 { format!("{bytes} B") } else { format!("{}.{} {}", tenths / 10, tenths % 10, units[at]) }
}

/// How long ago a time was, or `in` how long it will be.
pub fn age(at: Timestamp, now_ms: i64) -> String {
    let passed = now_ms - at.0.as_ms();
    if passed < 0 { format!("in {}", length(-passed)) } else { length(passed) }
}

pub fn jobs(jobs: &[Job], now_ms: i64) -> Table {
    let mut table =
        Table::new(&["ID", "STATE", "~TYPE", "~KEY", "~QUEUE", "TRIES", "AGE", "~WORKER", "~NOTE"]);
    for job in jobs {
        table.row([
            job.id.to_string().into(),
            state::cell(&job.state),
            (&job.job_type).into(),
            job.key.as_deref().unwrap_or("").into(),
            (&job.queue).into(),
            tries(job, "/").into(),
            age(job.created_at, now_ms).into(),
            job.worker.as_deref().unwrap_or("").into(),
            note(job, now_ms).into(),
        ]);
    }
    table
}

/// The attempts that count against the maximum, and apart from them those that do not.
fn tries(job: &Job, of: &str) -> String {
    let counted = job.attempt.saturating_sub(job.lost.into()).saturating_sub(job.snoozed);
    let apart = |n: u32, what: &str| if n == 0 { String::new() } else { format!(", {n} {what}") };
    let (lost, snoozed) = (apart(job.lost.into(), "lost"), apart(job.snoozed, "snoozed"));
    format!("{counted}{of}{}{lost}{snoozed}", job.max_attempts)
}

/// The most relevant information about a job.
fn note(job: &Job, now_ms: i64) -> String {
    if job.cancel_requested {
        return "cancel requested".to_owned();
    }
    if job.timing_out {
        return "timed out, stopping".to_owned();
    }
    let held = (job.hold && job.completed_at.is_none()).then(|| "held".to_owned());
    let waits = matches!(job.state.as_str(), "scheduled" | "retrying");
    let due = (waits && job.run_at.0.as_ms() > now_ms).then(|| format!("runs {}", age(job.run_at, now_ms)));
    let error = job.error.as_ref().map(why);
    let long = job.longer_than_expected.then(|| "longer than expected".to_owned());
    let progress = job.progress.iter().find(|indicator| !is_complete(indicator)).map(measure);
    [held, due, progress, long, error].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Whether an indicator has reached its total.
fn is_complete(indicator: &Indicator) -> bool {
    indicator.total.is_some_and(|total| indicator.step >= total)
}

fn measure(indicator: &Indicator) -> String {
    match indicator.total {
        Some(total) => format!("{}/{total} {}", indicator.step, indicator.message),
        None => format!("{} {}", indicator.step, indicator.message),
    }
}

/// A bar for each indicator of progress.
fn bars(indicators: &[Indicator]) -> String {
    const WIDTH: usize = 20;
    let wide = indicators.iter().map(|indicator| clean(&indicator.name).chars().count()).max().unwrap_or(0);
    let bar = |indicator: &Indicator| {
        let total = indicator.total.filter(|total| *total > 0);
        let full = total.map_or(0, |total| {
            let step = u128::from(indicator.step.min(total)) * WIDTH as u128;
            usize::try_from(step / u128::from(total)).unwrap_or(WIDTH)
        });
        let drawn =
            total.map_or_else(String::new, |_| format!("{}{} ", "█".repeat(full), "░".repeat(WIDTH - full)));
        let (name, said) = (clean(&indicator.name), clean(&measure(indicator)));
        format!("  {name:<wide$}  {drawn}{}\n", said.trim_end())
    };
    indicators.iter().map(bar).collect()
}

/// A failure in one line.
pub fn why(failure: &Failure) -> String {
    match failure.explanation.as_str() {
        "" => failure.reason.clone(),
        explanation => format!("{}: {explanation}", failure.reason),
    }
}

/// All details of one job.
pub fn job(job: &Job, now_ms: i64) -> String {
    let moment = |at: Option<Timestamp>| at.map(|at| format!("{at} ({} ago)", age(at, now_ms)));
    let due = (job.run_at > job.created_at).then(|| job.run_at.to_string());
    let facts = [
        ("job", Some(job.id.to_string())),
        ("state", Some(state::text(&job.state))),
        ("type", Some(job.job_type.clone())),
        ("key", job.key.as_deref().map(clean)),
        ("queue", Some(job.queue.clone())),
        ("priority", Some(job.priority.to_string())),
        ("needs", Some(job.needs.clone()).filter(|needs| !needs.is_empty())),
        ("uses", Some(job.uses.clone()).filter(|uses| !uses.is_empty())),
        ("avoid", job.avoid.then(|| "workers of earlier attempts".to_owned())),
        ("weight", (job.throttle_factor != 1).then(|| job.throttle_factor.to_string())),
        ("windows", Some(job.windows.clone()).filter(|windows| !windows.is_empty())),
        ("schedule", job.schedule.clone()),
        ("attempt", Some(tries(job, " of ") + if job.at_most_once { ", at most once" } else { "" })),
        ("worker", job.worker.clone()),
        ("runs at", due),
        ("created", moment(Some(job.created_at))),
        ("started", moment(job.started_at)),
        ("completed", moment(job.completed_at)),
        ("after", after(job)),
        ("group", job.group.map(|id| if job.attached { format!("{id} (attached)") } else { id.to_string() })),
        ("copy of", job.copy_of.map(|id| id.to_string())),
        ("owner", job.owner.as_deref().map(clean)),
        ("tags", Some(clean(&job.tags.join(", "))).filter(|tags| !tags.is_empty())),
        ("retry of", job.retry_of.map(|id| id.to_string())),
        ("parent", job.parent.map(|id| id.to_string())),
        ("timeout", job.timeouts.total.map(|total| total.to_string())),
        ("silence", job.timeouts.silence.map(|silence| silence.to_string())),
        ("note", Some(note(job, now_ms)).filter(|note| !note.is_empty()).map(|note| clean(&note))),
        ("params", Some(clean(job.params.get()))),
        ("result", result(job)),
    ];
    let lines = facts.into_iter().filter_map(|(name, value)| Some(format!("{name:<10} {}\n", value?)));
    let attempts = if job.attempts.is_empty() { String::new() } else { attempts(&job.attempts) };
    format!("{}{}{attempts}", lines.collect::<String>(), bars(&job.progress))
}

/// The first few dependencies.
fn after(job: &Job) -> Option<String> {
    const FEW: usize = 10;
    let mut ids: Vec<_> = job.after.iter().take(FEW).map(u64::to_string).collect();
    ids.extend((job.after.len() > FEW).then(|| format!("and {} more", job.after.len() - FEW)));
    let any = if job.after_any { " (any end)" } else { "" };
    (!ids.is_empty()).then(|| format!("{}{any}", ids.join(", ")))
}

/// The value, or a description of the artifact with the result.
fn result(job: &Job) -> Option<String> {
    match &job.result_artifact {
        Some(artifact) => Some(format!(
            "artifact {}: {} bytes of {}",
            artifact.name,
            artifact.size,
            clean(&artifact.media_type)
        )),
        None => job.result.as_ref().map(|result| clean(result.get())),
    }
}

pub fn artifacts(artifacts: &[Artifact]) -> Table {
    let mut table = Table::new(&["~NAME", "SIZE", "~TYPE", "~DIGEST"]);
    for artifact in artifacts {
        let cells: [Cell; 4] = [
            (&artifact.name).into(),
            artifact.size.to_string().into(),
            (&artifact.media_type).into(),
            (&artifact.digest).into(),
        ];
        table.row(cells);
    }
    table
}

/// The inputs of a job.
pub fn inputs(inputs: &[Input]) -> Table {
    let mut table = Table::new(&["INPUT", "JOB", "~TYPE", "~KEY", "STATE", "RESULT", "~ARTIFACTS"]);
    for input in inputs {
        let names: Vec<_> = input.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
        let more = if input.more_artifacts { ", …" } else { "" };
        let cells: [Cell; 7] = [
            input.n.to_string().into(),
            input.job.to_string().into(),
            input.job_type.as_deref().unwrap_or_default().into(),
            input.key.as_deref().unwrap_or_default().into(),
            (&input.state).into(),
            result_of(input).into(),
            format!("{}{more}", names.join(", ")).into(),
        ];
        table.row(cells);
    }
    table
}

/// What is known of the result of an input: its size, or why there is none.
fn result_of(input: &Input) -> String {
    match &input.result {
        _ if input.left_out => "large".to_owned(),
        Some(result) => format!("{} bytes", result.get().len()),
        None if input.state == "succeeded" => "null".to_owned(),
        None => String::new(),
    }
}

/// The last progress: `3/6, rows 12`.
fn reached(progress: &[Indicator]) -> String {
    let measure = |measure: &Indicator| {
        let total = measure.total.map_or(String::new(), |total| format!("/{total}"));
        format!("{} {}{total}", measure.name, measure.step).trim_start().to_owned()
    };
    progress.iter().map(measure).collect::<Vec<_>>().join(", ")
}

fn attempts(attempts: &[Attempt]) -> String {
    let mut table = Table::new(&["ATTEMPT", "~WORKER", "OUTCOME", "TOOK", "~PROGRESS", "~WHY"]);
    for attempt in attempts {
        let begun = attempt.started_at.or(attempt.accepted_at).unwrap_or(attempt.assigned_at);
        let took = attempt.ended_at.map(|ended| length(ended.0.as_ms() - begun.0.as_ms()));
        let cells: [Cell; 6] = [
            (&attempt.id).into(),
            (&attempt.worker).into(),
            attempt.outcome.as_deref().unwrap_or("…").into(),
            took.unwrap_or_default().into(),
            reached(&attempt.progress).into(),
            attempt.error.as_ref().map(why).unwrap_or_default().into(),
        ];
        table.row(cells);
    }
    format!("\n{}\n", table.render(super::terminal_width()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::tests::job as sample;

    #[test]
    fn lengths_read_well() {
        let said = [0, 59_999, 60_000, 3_600_000, 3_660_000, 7_500_000, 86_400_000, 864_000_000].map(length);
        assert_eq!(said, ["0s", "59s", "1m", "1h", "1h 1m", "2h 5m", "1d", "10d"]);
    }

    #[test]
    fn bytes_read_well() {
        let said = [0, 1_023, 1_024, 1_536, 5 << 20, 3 << 40, u64::MAX].map(bytes);
        assert_eq!(said, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 TiB", "16777215.9 TiB"]);
    }

    #[test]
    fn a_retrying_job_says_when_and_why() {
        let mut job = sample("retrying", &["failed"]);
        let now = job.run_at.0.as_ms() - 5_000;
        job.error =
            Some(Failure { reason: "exit 1".to_owned(), explanation: "no\nspace".to_owned(), data: None });
        assert_eq!(note(&job, now), "runs in 5s; exit 1: no\nspace");
        let text = jobs(&[job], now).render(None);
        assert!(text.contains("runs in 5s; exit 1: no space"), "{text}");
    }

    #[test]
    fn ground_14_a_list_shows_the_first_measure_that_has_not_reached_its_total() {
        let mut job = sample("running", &[]);
        let measure =
            |step, total| Indicator { name: format!("{step}"), step, total, message: "files".to_owned() };
        job.progress = vec![measure(5, Some(5)), measure(9, Some(4)), measure(2, Some(3)), measure(1, None)];
        assert_eq!(note(&job, 0), "2/3 files");
        job.progress.remove(2);
        assert_eq!(note(&job, 0), "1 files");
        job.progress.truncate(2);
        assert_eq!(note(&job, 0), "");
    }

    #[test]
    fn every_measure_of_progress_has_its_bar() {
        let mut job = sample("running", &[]);
        let measure = |name: &str, step, total, message: &str| Indicator {
            name: name.to_owned(),
            step,
            total,
            message: message.to_owned(),
        };
        job.progress = vec![
            measure("download", 5, Some(20), "files"),
            measure("parse", u64::MAX, Some(7), ""),
            measure("rows", 12, None, "so far"),
        ];
        let text = super::job(&job, job.created_at.0.as_ms());
        assert!(text.contains("  download  █████░░░░░░░░░░░░░░░ 5/20 files\n"), "{text}");
        assert!(text.contains("  parse     ████████████████████ 18446744073709551615/7\n"), "{text}");
        assert!(text.contains("  rows      12 so far\n"), "{text}");
    }

    #[test]
    fn the_last_progress_of_an_attempt_is_in_a_column() {
        let mut job = sample("failed", &["failed"]);
        let measure = |name: &str, step, total| Indicator {
            name: name.to_owned(),
            step,
            total,
            message: "not told".to_owned(),
        };
        job.attempts[0].progress = vec![measure("", 3, Some(6)), measure("rows", 12, None)];
        let text = super::job(&job, 0);
        let line_with = |word: &str| text.lines().find(|line| line.contains(word)).unwrap();
        assert!(line_with("ATTEMPT").contains("PROGRESS"), "{text}");
        assert!(line_with("7-1").contains("3/6, rows 12"), "{text}");
        assert!(!text.contains("not told"), "{text}");
    }

    #[test]
    fn lost_and_snoozed_attempts_are_shown_apart_from_those_that_count() {
        let mut job = sample("running", &[]);
        (job.attempt, job.max_attempts, job.lost) = (2, 1, 1);
        let shown = |job: &Job| (super::job(job, 0), jobs(std::slice::from_ref(job), 0).render(None));
        let (one, list) = shown(&job);
        assert!(one.contains("attempt    1 of 1, 1 lost\n"), "{one}");
        assert!(list.contains("1/1, 1 lost"), "{list}");
        (job.attempt, job.max_attempts, job.snoozed, job.at_most_once) = (7, 5, 3, true);
        let (one, list) = shown(&job);
        assert!(one.contains("attempt    3 of 5, 1 lost, 3 snoozed, at most once\n"), "{one}");
        assert!(list.contains("3/5, 1 lost, 3 snoozed"), "{list}");
    }

    #[test]
    fn one_job_is_told_with_its_attempts() {
        let job = sample("failed", &["failed"]);
        let text = super::job(&job, job.created_at.0.as_ms() + 60_000);
        assert!(text.contains("✗ failed"), "{text}");
        assert!(text.contains("(1m ago)"), "{text}");
        assert!(text.contains("7-1"), "{text}");
    }
}
