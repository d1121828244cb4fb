//! The steps of a query while it is answered: a live tree on a terminal, and elsewhere a line for each change of a query
//! that takes long.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jobhall_client::Client;
use jobhall_core::Indicator;
use jobhall_protocol::{QueryPromise, QueryStep};

use super::answer::ended;
use crate::output::{Output, human};

/// A query that is answered within this time shows nothing.
const LIVE_AFTER: Duration = Duration::from_millis(300);
const LINES_AFTER: Duration = Duration::from_secs(1);
/// How often the steps are read.
const LIVE_EVERY: Duration = Duration::from_millis(150);
const LINES_EVERY: Duration = Duration::from_secs(1);
/// A step that is queued for this many looks is explained, and again after as many.
const EXPLAINED_AFTER: usize = 7;
/// Maximum number of steps that are drawn.
const DRAWN_MAX: usize = 20;
/// Width of a bar of progress.
const BAR: u128 = 20;
const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// How the steps are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Live,
    Lines,
    Nothing,
}

/// The steps of one promise.
pub struct Tree<'a> {
    client: &'a Client,
    output: &'a Output,
    promise: u64,
    asked: Vec<QueryStep>,
    form: Form,
    bars: MultiProgress,
    drawn: Vec<ProgressBar>,
    /// What was told of each step.
    told: HashMap<(u64, String), String>,
    looks: usize,
    /// Why the first queued job has not started.
    why: Option<(u64, String)>,
}

impl<'a> Tree<'a> {
    pub fn new(client: &'a Client, output: &'a Output, promise: &QueryPromise) -> Tree<'a> {
        let form = match (output.is_quiet(), output.is_live()) {
            (true, _) => Form::Nothing,
            (false, true) => Form::Live,
            (false, false) => Form::Lines,
        };
        Tree {
            client,
            output,
            promise: promise.id,
            asked: promise.steps.clone(),
            form,
            bars: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()),
            drawn: Vec::new(),
            told: HashMap::new(),
            looks: 0,
            why: None,
        }
    }

    /// Shows the steps until this is dropped.
    pub async fn follow(&mut self) -> Infallible {
        let (first, every) = match self.form {
            Form::Live => (LIVE_AFTER, LIVE_EVERY),
            Form::Lines => (LINES_AFTER, LINES_EVERY),
            Form::Nothing => return std::future::pending().await,
        };
        tokio::time::sleep(first).await;
        loop {
            // Who waits for the value hears of a server that cannot be reached.
            if let Ok(now) = self.client.query_steps(self.promise).await {
                let steps = arranged(self.asked.clone(), &now);
                self.explain(&steps).await;
                self.show(&steps);
            }
            tokio::time::sleep(every).await;
        }
    }

    /// Shows how the steps have ended, if they were shown before.
    pub async fn end(&mut self) {
        if self.looks == 0 {
            return;
        }
        if let Ok(now) = self.client.query_steps(self.promise).await {
            self.show(&arranged(self.asked.clone(), &now));
        }
        self.drawn.iter().for_each(ProgressBar::abandon);
    }

    /// Asks why a step that stays queued does not start.
    async fn explain(&mut self, steps: &[QueryStep]) {
        let queued = steps.iter().find(|step| is_queued(step)).and_then(|step| step.job);
        if queued.is_none() || self.why.as_ref().map(|(job, _)| *job) != queued {
            self.why = None;
        }
        let Some(job) = queued.filter(|_| self.looks % EXPLAINED_AFTER == EXPLAINED_AFTER - 1) else {
            return;
        };
        if let Ok(explained) = self.client.explain(job).await {
            let text = explained.reasons.first().map(|reason| one_line(&reason.text));
            self.why = text.map(|text| (job, text));
        }
    }

    fn show(&mut self, steps: &[QueryStep]) {
        self.looks += 1;
        match self.form {
            Form::Live => self.draw(&lines(steps, self.looks, self.why.as_ref())),
            Form::Lines => self.tell(steps),
            Form::Nothing => {}
        }
    }

    fn draw(&mut self, lines: &[String]) {
        while self.drawn.len() < lines.len() {
            let bar = self.bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            self.drawn.push(bar);
        }
        while self.drawn.len() > lines.len() {
            if let Some(bar) = self.drawn.pop() {
                bar.finish_and_clear();
            }
        }
        for (bar, line) in self.drawn.iter().zip(lines) {
            bar.set_message(line.clone());
            bar.tick();
        }
    }

    fn tell(&mut self, steps: &[QueryStep]) {
        for step in steps.iter().filter(|step| step.cache != "hit") {
            let said = phrase(step, of(self.why.as_ref(), step));
            let key = (step.job.unwrap_or(0), step.command.clone());
            if self.told.get(&key) != Some(&said) {
                self.output.say(&format!("{}: {said}", step.command));
                self.told.insert(key, said);
            }
        }
    }
}

/// The steps as they were answered, with what has become of them; the steps of a query that another step asked for come
/// after that step.
fn arranged(asked: Vec<QueryStep>, now: &[QueryStep]) -> Vec<QueryStep> {
    let mut arranged = Vec::new();
    let mut left: Vec<&QueryStep> = now.iter().filter(|step| step.asked_by.is_some()).collect();
    let steps = ended(asked, now);
    let mut open: Vec<QueryStep> =
        steps.into_iter().filter(|step| step.cache != "not_needed").rev().collect();
    while let Some(step) = open.pop() {
        let is_last = open.last().is_none_or(|next| next.job != step.job);
        if is_last && step.job.is_some() {
            let (mine, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|of| of.asked_by == step.job);
            left = others;
            open.extend(mine.into_iter().rev().cloned());
        }
        arranged.push(step);
    }
    arranged
}

/// One line for each step, with the oldest left out if there are too many.
fn lines(steps: &[QueryStep], look: usize, why: Option<&(u64, String)>) -> Vec<String> {
    let shown = steps.len().saturating_sub(DRAWN_MAX);
    let shown = if shown > 0 { &steps[shown + 1..] } else { steps };
    let width = shown.iter().map(|step| indent(steps, step) + step.command.len()).max().unwrap_or(0);
    let line = |step: &QueryStep| {
        let name = format!("{}{}", " ".repeat(indent(steps, step)), step.command);
        let mut line = format!("{} {name:width$}  {}", symbol(step, look), phrase(step, of(why, step)));
        if is_live(step) {
            line += &step.ms.map_or_else(String::new, |ms| format!(", {}", took(ms)));
            step.progress.iter().for_each(|indicator| line += &format!("  {}", bar(indicator)));
        }
        line
    };
    let left_out = steps.len() - shown.len();
    let first = (left_out > 0).then(|| format!("… {left_out} steps before"));
    first.into_iter().chain(shown.iter().map(line)).collect()
}

/// Two columns for each step that asked for this one.
fn indent(steps: &[QueryStep], step: &QueryStep) -> usize {
    let (mut depth, mut by) = (0, step.asked_by);
    while let Some(job) = by.filter(|_| depth < DRAWN_MAX) {
        depth += 1;
        by = steps.iter().find(|step| step.job == Some(job)).and_then(|step| step.asked_by);
    }
    depth * 2
}

fn state(step: &QueryStep) -> &str {
    match step.cache.as_str() {
        "hit" | "skipped" => "succeeded",
        _ => step.state.as_deref().unwrap_or_default(),
    }
}

fn is_queued(step: &QueryStep) -> bool {
    matches!(state(step), "queued" | "retrying" | "scheduled")
}

fn is_live(step: &QueryStep) -> bool {
    matches!(state(step), "assigned" | "accepted" | "running" | "waiting")
}

fn symbol(step: &QueryStep, look: usize) -> &'static str {
    match state(step) {
        "succeeded" => "✓",
        "failed" | "crashed" | "cancelled" => "✗",
        _ if is_live(step) => SPINNER[look % SPINNER.len()],
        _ => "·",
    }
}

/// What can be said of a step; it changes with its state only.
fn phrase(step: &QueryStep, why: Option<&str>) -> String {
    let on = || step.worker.as_deref().map_or_else(String::new, |worker| format!(" on {worker}"));
    match (step.cache.as_str(), state(step)) {
        ("hit", _) => match step.age_s {
            Some(age) => format!("hit, made {} ago", human::length(age.cast_signed() * 1_000)),
            None => "hit".to_owned(),
        },
        ("skipped", _) => "skipped: the same bytes as before".to_owned(),
        (_, "succeeded") => {
            let parts = [step.ms.map(took), step.bytes.map(human::bytes)];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
        (_, end @ ("failed" | "crashed" | "cancelled")) => match &step.why {
            Some(why) => format!("{end}: {}", one_line(why)),
            None => end.to_owned(),
        },
        (_, "running") => format!("running{}", on()),
        (_, "assigned" | "accepted") => format!("starting{}", on()),
        (_, "waiting") => "waits for what it asked for".to_owned(),
        (_, "blocked") => "waits for the steps before it".to_owned(),
        (_, state) => match why {
            Some(why) => format!("{state}: {why}"),
            None => state.to_owned(),
        },
    }
}

/// Why this step has not started, if that is known.
fn of<'a>(why: Option<&'a (u64, String)>, step: &QueryStep) -> Option<&'a str> {
    why.filter(|(job, _)| step.job == Some(*job)).map(|(_, why)| why.as_str())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn took(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => human::length(ms.cast_signed()),
    }
}

/// `[=====>    ] 40/100 rows`, or `40 rows` if the total is not known.
fn bar(indicator: &Indicator) -> String {
    let Indicator { name, step, total, message } = indicator;
    let note =
        [name.as_str(), message.as_str()].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let of = match total {
        Some(total @ 1..) => {
            let full = BAR * u128::from(*step.min(total)) / u128::from(*total);
            format!("[{:20}] {step}/{total}", "=".repeat(usize::try_from(full).unwrap_or(0)))
        }
        _ => step.to_string(),
    };
    format!("{of} {note}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(command: &str, job: u64, cache: &str, state: &str) -> QueryStep {
        let json = serde_json::json!({
            "query": command, "identity": "i", "command": command, "version": "1", "cache": cache, "job": job,
            "state": state, "worker": "w1", "ms": 2_150, "bytes": 2_048, "age_s": 120,
        });
        serde_json::from_value(json).unwrap()
    }

    fn indicator(name: &str, step: u64, total: Option<u64>) -> Indicator {
        Indicator { name: name.to_owned(), step, total, message: String::new() }
    }

    #[test]
    fn each_step_has_a_line_with_what_is_known_of_it() {
        let mut running = step("between", 3, "pending", "running");
        running.progress = vec![indicator("rows", 5, Some(10)), indicator("files", 7, None)];
        let failed = QueryStep {
            why: Some("exit_3: no such\n column".to_owned()),
            ..step("by", 6, "failed", "failed")
        };
        let steps = [
            step("numbers", 1, "hit", "succeeded"),
            step("clean", 2, "computed", "succeeded"),
            running,
            step("total", 4, "pending", "blocked"),
            step("by", 5, "skipped", "succeeded"),
            failed,
        ];
        assert_eq!(
            lines(&steps, 0, None),
            [
                "✓ numbers  hit, made 2m ago",
                "✓ clean    2.1 s, 2.0 KiB",
                "⠋ between  running on w1, 2.1 s  [==========          ] 5/10 rows  7 files",
                "· total    waits for the steps before it",
                "✓ by       skipped: the same bytes as before",
                "✗ by       failed: exit_3: no such column",
            ]
        );
        let queued = [step("gui", 8, "pending", "queued")];
        let why = (8, "no connected worker matches".to_owned());
        assert_eq!(lines(&queued, 0, Some(&why)), ["· gui  queued: no connected worker matches"]);
        assert_eq!(lines(&queued, 0, Some(&(7, String::new()))), ["· gui  queued"]);
    }

    #[test]
    fn a_query_that_a_step_asked_for_is_below_that_step() {
        let child = |command: &str, job: u64, by: u64| QueryStep {
            asked_by: Some(by),
            ..step(command, job, "pending", "running")
        };
        let asked = vec![step("a", 1, "pending", "queued"), step("b", 2, "pending", "blocked")];
        let now = [
            child("deep", 5, 4),
            child("c", 3, 1),
            child("d", 4, 1),
            step("a", 1, "pending", "waiting"),
            step("b", 2, "pending", "blocked"),
        ];
        let steps = arranged(asked, &now);
        let found: Vec<String> = steps
            .iter()
            .map(|step| format!("{}{}", " ".repeat(indent(&steps, step)), step.command))
            .collect();
        assert_eq!(found, ["a", "  c", "  d", "    deep", "b"]);
        assert_eq!(symbol(&steps[0], 0), SPINNER[0], "it waits for what it asked for");
    }

    #[test]
    fn of_a_long_chain_the_last_steps_are_drawn() {
        let steps: Vec<QueryStep> = (1..=30).map(|job| step("a", job, "hit", "succeeded")).collect();
        let lines = lines(&steps, 0, None);
        assert_eq!((lines.len(), lines[0].as_str()), (DRAWN_MAX, "… 11 steps before"));
    }

    #[test]
    fn progress_is_a_bar_if_the_total_is_known() {
        assert_eq!(bar(&indicator("", 0, Some(4))), "[                    ] 0/4");
        assert_eq!(bar(&indicator("rows", 1, Some(4))), "[=====               ] 1/4 rows");
        assert_eq!(bar(&indicator("", 3, None)), "3");
        assert_eq!(bar(&indicator("", 3, Some(0))), "3");
    }
}
