//! Generates `docs/states.md` by trying every event in every state, and fails if the page differs. `make states`
//! rewrites it.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use jobhall_core::bounds::{LOST_LEASES, UNACCEPTED_CLAIMS};
use jobhall_core::{JobStatus, Outcome, Report, RetryPolicy, StateName, Verdict, When};

use support::{
    FIRST, LATER_MS, Op, after, at, cancel, cancelling_lives, effect, effect_by, events, failed, failure,
    fresh, lives, other_lives, passed, policy, timing_out_lives,
};

#[test]
fn the_page_of_states_is_what_the_rules_do() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/states.md");
    let wanted = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &wanted).expect("docs/states.md written");
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    let line = present.lines().zip(wanted.lines()).position(|(present, wanted)| present != wanted);
    let line = line.unwrap_or_else(|| present.lines().count().min(wanted.lines().count())) + 1;
    assert!(present == wanted, "docs/states.md is stale from line {line} on: run `make states`");
}

#[test]
fn the_page_lists_every_state_and_outcome() {
    let page = page();
    for name in StateName::ALL {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    for outcome in Outcome::ALL {
        assert!(page.contains(&format!("| `{outcome}` |")), "{outcome}");
    }
}

fn page() -> String {
    let sections = [
        INTRODUCTION.to_owned(),
        meanings(),
        DERIVED.to_owned(),
        drawing(),
        every_pair(),
        counters(),
        outcomes(),
    ];
    sections.join("\n")
}

const INTRODUCTION: &str = "# The states of a job

Written by `make states` from the transition function in `crates/core/src/transition`; a test fails if this page
is stale. The function is total: every event in every state is a step, no change (*same*), or a typed refusal.
";

fn meanings() -> String {
    let mut out = "## What each state means\n\n| state | | meaning |\n|---|---|---|\n".to_owned();
    for name in StateName::ALL {
        let side = if name.is_terminal() { "completed" } else { "pending" };
        line(&mut out, &format!("| `{name}` | {side} | {} |", meaning(name)));
    }
    out
}

fn meaning(name: StateName) -> &'static str {
    match name {
        StateName::Scheduled => "waits for its start time; never attempted (a view of `queued`)",
        StateName::Queued => "waits for a matching worker with a free slot",
        StateName::Blocked => "waits until the holder of its key or its dependencies have ended",
        StateName::Assigned => "assigned to a worker that has not accepted it yet; has a lease",
        StateName::Accepted => "accepted by the worker: the attempt counts from here",
        StateName::Running => "the work has begun, whether or not it reports progress",
        StateName::Waiting => "the attempt is suspended until sub-jobs or external work have ended",
        StateName::Retrying => "waits for its next attempt, with the error of the last (a view of `queued`)",
        StateName::Succeeded => "succeeded, with a value",
        StateName::Failed => "the work failed and is not retried",
        StateName::Crashed => "the environment failed, or the job seems to make it fail",
        StateName::Cancelled => "stopped on request",
    }
}

const DERIVED: &str = "## Derived names

`scheduled` and `retrying` are not stored: the passing of time causes no write. A stored `queued` job is shown as
`retrying` if `attempt > 0`, else as `scheduled` while `run_at` is in the future, else as `queued`. States may be skipped
forward: a report on an assigned job implies that it was accepted and ran. A worker reports the start of work that lasts
longer than 20 ms; the outcome of shorter work implies it. A start that was not reported is dated to the accept, and an
accept that was not reported to the assignment, so that every attempt with an outcome has `started_at`.
";

const SKETCH: &str = "```text
  scheduled ─┐
  blocked ───┴▶ queued ──▶ assigned ──▶ accepted ──▶ running ──▶ succeeded, failed or crashed
                  ▲            │            │         │  ▲
                  │            │            │         ▼  │
                  └─ retrying ◀┴────────────┴──────── waiting    cancelled: from every state before an end
```
";

/// The events that lead from one state to another.
type Moves = BTreeMap<(usize, usize), Vec<String>>;

fn drawing() -> String {
    let mut out = format!("## Diagram\n\n{SKETCH}\n```mermaid\nstateDiagram-v2\n");
    for start in ["scheduled", "queued", "blocked"] {
        line(&mut out, &format!("    [*] --> {start}"));
    }
    line(&mut out, "    scheduled --> queued: start time reached");
    for ((from, to), labels) in moves() {
        let (from, to) = (StateName::ALL[from], StateName::ALL[to]);
        line(&mut out, &format!("    {from} --> {to}: {}", labels.join(", ")));
    }
    for end in StateName::ALL.into_iter().filter(|name| name.is_terminal()) {
        line(&mut out, &format!("    {end} --> [*]"));
    }
    out + "```\n"
}

fn moves() -> Moves {
    let mut moves = Moves::new();
    for (from, status) in lives() {
        for (event, op, card) in events() {
            note(&mut moves, from, &effect(&status, &op, card), event);
        }
    }
    for (from, status) in cancelling_lives() {
        for (event, op, card) in events() {
            note(&mut moves, from, &effect(&status, &op, card), &format!("{event} after a cancel"));
        }
    }
    for (from, status) in timing_out_lives() {
        for (event, op, card) in events() {
            note(&mut moves, from, &effect(&status, &op, card), &format!("{event} after a time-out"));
        }
    }
    for (from, status) in other_lives() {
        let from = from.split(' ').next().unwrap_or(from);
        for (event, op, card) in events() {
            note(&mut moves, from, &effect(&status, &op, card), event);
        }
    }
    for (from, status, event, op) in turning_points() {
        note(&mut moves, from, &effect(&status, &op, FIRST), event);
    }
    moves
}

/// Records a transition to another state. Of an event's kinds only the first word is shown.
fn note(moves: &mut Moves, from: &str, to: &str, event: &str) {
    let place = |wanted: &str| StateName::ALL.iter().position(|name| name.as_str() == wanted);
    let (Some(from), Some(to)) = (place(from), place(to)) else { return };
    let short = match event.strip_prefix("report").map(|kind| kind.rsplit_once(" after a ")) {
        Some(Some((_, "cancel"))) => "report after a cancel",
        Some(Some((_, "time-out"))) => "report after a time-out",
        Some(_) => "report",
        None => event,
    };
    let labels = moves.entry((from, to)).or_default();
    let known = labels.iter().any(|label| short.starts_with(label.as_str()));
    if from != to && !known {
        labels.push(short.to_owned());
    }
    if labels.is_empty() {
        moves.remove(&(from, to));
    }
}

/// Jobs for which a counter or the time decides, and the event that shows it.
fn turning_points() -> Vec<(&'static str, JobStatus, &'static str, Op)> {
    let assigned = after(&fresh(), &[Op::Claim]);
    let accepted = after(&assigned, &[Op::Accept]);
    let running = after(&assigned, &[Op::Progress]);
    let retrying = after(&running, &[failed(None)]);
    let unaccepted = JobStatus { unaccepted: UNACCEPTED_CLAIMS - 1, ..assigned.clone() };
    let lost = |status: &JobStatus| JobStatus { lost: LOST_LEASES - 1, attempt: 3, ..status.clone() };
    let last = JobStatus { attempt: u32::from(policy().max_attempts), ..running.clone() };
    vec![
        ("retrying", JobStatus { run_at: at(LATER_MS), ..retrying }, "claim before its time", Op::Claim),
        ("assigned", JobStatus { attempt: 1, ..assigned }, "take back after an attempt", Op::TakeBack),
        ("assigned", unaccepted, "tenth take back in a row", Op::TakeBack),
        ("accepted", lost(&accepted), "third lease end", Op::LeaseEnd),
        ("running", lost(&running), "third lease end", Op::LeaseEnd),
        ("running", last.clone(), "report failed at the last attempt", failed(None)),
        ("running", last.clone(), "report failed at the last attempt, retry now", failed(Some(When::Now))),
        ("running", last, "report failed at the last attempt, snooze", failed(Some(When::Snooze(60_000)))),
    ]
}

fn every_pair() -> String {
    let mut out = "## Every event in every state\n\nSamples: the worker holds the first claim; the policy has attempts left; the completed jobs were ended by \
`passed`,\n`failed`, `crashed`, and by the worker's report after a cancel. *–* is an illegal event, *lease lost* a refusal of a\nsender that does not hold the job, *again noted* a follow-up to be created at the end, *outcome kept* an external\noutcome that was reported before the worker reported that it started the work.\n\n"
        .to_owned();
    table(&mut out, &lives());
    out += "\nWith a pending cancel:\n\n";
    table(&mut out, &cancelling_lives());
    out += "\nWith a pending timeout:\n\n";
    table(&mut out, &timing_out_lives());
    out += "\nThe other variants of blocked and waiting:\n\n";
    table(&mut out, &other_lives());
    out
}

fn table(out: &mut String, lives: &[(&'static str, JobStatus)]) {
    let names: Vec<_> = lives.iter().map(|(name, _)| *name).collect();
    line(out, &format!("| event | {} |", names.join(" | ")));
    line(out, &format!("|---|{}", "---|".repeat(names.len())));
    for (event, op, card) in events() {
        let cells: Vec<_> = lives.iter().map(|(_, status)| effect(status, &op, card)).collect();
        line(out, &format!("| {event} | {} |", cells.join(" | ")));
    }
}

fn counters() -> String {
    let mut out =
        "## Where a counter or the time decides\n\n| state | event | becomes |\n|---|---|---|\n".to_owned();
    for (state, status, event, op) in turning_points() {
        line(&mut out, &format!("| {state} | {event} | {} |", effect(&status, &op, FIRST)));
    }
    out += AT_MOST_ONCE;
    for (state, status) in lives().into_iter().filter(|(_, status)| status.state.leased().is_some()) {
        for (event, op) in
            [("lease end", Op::LeaseEnd), ("report failed, snooze", failed(Some(When::Snooze(60_000))))]
        {
            let becomes = effect_by(&status, &op, FIRST, &policy().at_most_once());
            line(&mut out, &format!("| {state} | {event} | {becomes} |"));
        }
    }
    out
}

const AT_MOST_ONCE: &str = "
A job with `at_most_once` is never started a second time. Its accept is stored before it is answered, and its worker
starts the work after the answer. After the accept it leaves its worker only for a terminal state: a lost attempt ends
it `crashed` with the reason `at_most_once`, and a report ends it with the reported outcome, whatever retry or snooze
the worker asks for.

| state | event | becomes |
|---|---|---|
";

fn outcomes() -> String {
    let mut out = "## Outcomes of attempts\n\nAn attempt ends with an outcome. The last one decides how the job ends; the others lead back to the queue.\n\n| outcome | success | retried by default | final state of the job |\n|---|---|---|---|\n".to_owned();
    for outcome in Outcome::ALL {
        let retried = match outcome {
            Outcome::Lost => "up to two times",
            _ if RetryPolicy::named().on.contains(outcome) => "yes",
            _ => "no",
        };
        let success = if outcome.is_success() { "yes" } else { "no" };
        line(&mut out, &format!("| `{outcome}` | {success} | {retried} | {} |", end_by(outcome)));
    }
    out
}

/// The state of a job whose last attempt ended like this.
fn end_by(outcome: Outcome) -> String {
    let never = || Some(Verdict { when: When::Never, params: None });
    let report = match outcome {
        Outcome::Succeeded => passed(),
        Outcome::Skipped => Op::Report(Report::Skipped(jobhall_core::Json::null())),
        Outcome::Failed => Op::Report(Report::Failed(failure("x"), never())),
        Outcome::Crashed => Op::Report(Report::Crashed(failure("x"), never())),
        Outcome::TimedOut => Op::Report(Report::TimedOut(failure("x"), never())),
        Outcome::Lost => Op::LeaseEnd,
        Outcome::Cancelled => cancel(),
    };
    let held =
        || JobStatus { lost: LOST_LEASES - 1, attempt: 3, ..after(&fresh(), &[Op::Claim, Op::Accept]) };
    let status = if outcome == Outcome::Cancelled { fresh() } else { held() };
    effect(&status, &report, FIRST)
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a string takes every line");
}
