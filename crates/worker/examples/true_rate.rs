//! Measures how many commands per second two slots run, compared with `xargs -P2`.
//!
//! `cargo run --release -p jobhall-worker --example true_rate [COUNT [ROUNDS]]`
//!
//! Both take turns, because the speed of a machine varies. `steal` is the share of CPU time that the hypervisor took
//! during a round; a round with a large share is not significant.

use std::io::Write;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use jobhall_worker::{Command, Options, Slots, Status, supervisor};

const SLOTS: usize = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|word| word == "__slot").is_some() {
        return supervisor::main(arguments);
    }
    let mut numbers = arguments.filter_map(|word| word.to_str()?.parse::<usize>().ok());
    let count = numbers.next().unwrap_or(10_000);
    let rounds = numbers.next().unwrap_or(3);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let slots = Slots::new(Options { most: SLOTS, ..Options::default() });
    println!("round  xargs/s  steal  slots/s  steal  ratio");
    for round in 1..=rounds {
        let (theirs, their_steal) = measured(count, || xargs(count));
        let (ours, our_steal) = measured(count, || runtime.block_on(jobs(&slots, count)));
        println!(
            "{round:>5}  {theirs:>7.0}  {their_steal:>4.1}%  {ours:>7.0}  {our_steal:>4.1}%  {:>5.2}",
            ours / theirs
        );
    }
    ExitCode::SUCCESS
}

/// Commands per second, and the share of stolen time in per cent.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn measured(count: usize, work: impl FnOnce()) -> (f64, f64) {
    let (stolen, total) = processor_ticks();
    let begin = Instant::now();
    work();
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let (stolen_after, total_after) = processor_ticks();
    (rate, 100.0 * (stolen_after - stolen) as f64 / (total_after - total).max(1) as f64)
}

fn processor_ticks() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    (ticks.get(7).copied().unwrap_or(0), ticks.iter().take(8).sum())
}

fn xargs(count: usize) {
    let mut child = std::process::Command::new("xargs")
        .args([format!("-P{SLOTS}").as_str(), "-n1", "/bin/true"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("xargs");
    let lines: String = (0..count).map(|number| format!("{number}\n")).collect();
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("write");
    assert!(child.wait().expect("an end").success());
}

async fn jobs(slots: &Slots, count: usize) {
    let shares = (0..SLOTS).map(|number| (count + number) / SLOTS);
    let tasks: Vec<_> = shares.map(|share| tokio::spawn(run(slots.clone(), share))).collect();
    for task in tasks {
        task.await.expect("a task");
    }
}

async fn run(slots: Slots, count: usize) {
    for number in 0..count {
        let command = Command::new(["/bin/true".to_owned(), number.to_string()]);
        let ended = slots.acquire().await.run(command).await.expect("a slot").wait().await;
        assert_eq!(ended.status, Status::Exit(0));
    }
}
