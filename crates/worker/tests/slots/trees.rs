//! No process survives: whatever a command starts, and however those processes hide, they are gone when the command
//! has ended.

use std::time::{Duration, Instant};

use jobhall_worker::{Command, Status};
use rustix::process::Signal;

use crate::rig::{
    Marker, RunningSlot, children, eventually, hear, is_alive, is_stopped, pair, run, script_file, send,
    slots, start,
};

/// A child that ignores TERM, a daemon that forked twice into a separate session, and a child that stopped itself.
/// Each prints "up" when it runs.
pub const FAMILY: &str = r#"
trap '' TERM
sh -c 'echo up; while :; do sleep 1; done' &
( setsid sh -c 'echo up; while :; do sleep 1; done' & )
sh -c 'trap - TERM; echo up; kill -STOP $$; sleep 600' &
"#;

fn family(marker: &Marker, last: &str) -> Command {
    marker.mark(Command::script(&format!("{FAMILY}\n{last}")))
}

async fn settled(marker: &Marker) {
    let one_is_stopped = || marker.carriers().into_iter().any(is_stopped);
    eventually("a child stopped itself", one_is_stopped).await;
}

#[tokio::test]
async fn a_stopped_command_goes_with_its_whole_family() {
    let marker = Marker::new();
    let mut running = start(family(&marker, "echo up; while :; do sleep 1; done")).await;
    hear(&mut running, "up\n", 4).await;
    settled(&marker).await;
    assert!(marker.carriers().len() >= 4, "the marker is seen");
    let begin = Instant::now();
    running.stop(Duration::from_millis(200)).await;
    let ended = running.wait().await;
    assert!(marker.is_gone(), "when the end is reported");
    assert!(begin.elapsed() >= Duration::from_millis(200), "the grace period was waited for");
    assert_eq!(ended.status, Status::Signal(9));
    assert!(ended.survivors_killed >= 2, "{ended:?}");
    assert_eq!(ended.survivors_left, 0);
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_ended_and_counted() {
    let marker = Marker::new();
    let command = family(&marker, "until [ -e settled ]; do sleep 0.01; done; exit 5");
    let directory = tempfile::tempdir().expect("a directory");
    let grace = Duration::from_millis(100);
    let mut running = start(command.directory(directory.path()).leftover_grace(grace)).await;
    hear(&mut running, "up\n", 3).await;
    settled(&marker).await;
    std::fs::write(directory.path().join("settled"), "").expect("write");
    let ended = running.wait().await;
    assert!(marker.is_gone());
    assert_eq!(ended.status, Status::Exit(5), "the status is that of the command");
    assert!(ended.survivors_killed >= 3, "{ended:?}");
}

#[tokio::test]
async fn a_daemon_that_heeds_term_is_given_the_time() {
    let marker = Marker::new();
    let directory = tempfile::tempdir().expect("a directory");
    let daemon = "( setsid sh -c 'trap \"touch cleaned; exit 0\" TERM; echo up; while :; do sleep 0.01; done' & ); \
                  until [ -e go ]; do sleep 0.01; done";
    let command = marker.mark(Command::script(daemon)).directory(directory.path());
    let mut running = start(command.leftover_grace(Duration::from_secs(50))).await;
    hear(&mut running, "up", 1).await;
    std::fs::write(directory.path().join("go"), "").expect("write");
    let ended = running.wait().await;
    assert!(marker.is_gone());
    assert!(directory.path().join("cleaned").exists(), "it received TERM and cleaned up");
    assert_eq!(ended.status, Status::Exit(0));
    assert!(ended.survivors_killed >= 1);
}

#[tokio::test]
async fn a_command_that_heeds_term_decides_how_it_ends() {
    let mut running =
        start(Command::script("trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done")).await;
    hear(&mut running, "up", 1).await;
    running.stop(Duration::from_secs(50)).await;
    let begin = Instant::now();
    let ended = running.wait().await;
    assert_eq!(ended.status, Status::Exit(3));
    assert!(begin.elapsed() < Duration::from_secs(40), "the grace period is not waited for");
}

#[tokio::test]
async fn a_command_that_is_stopped_hears_term() {
    let marker = Marker::new();
    let running = start(marker.mark(Command::script("kill -STOP $$; sleep 600"))).await;
    settled(&marker).await;
    running.stop(Duration::from_secs(50)).await;
    assert_eq!(running.wait().await.status, Status::Signal(15));
}

#[tokio::test]
async fn a_second_stop_hastens_the_first() {
    let mut running = start(Command::script("trap '' TERM; echo up; while :; do sleep 1; done")).await;
    hear(&mut running, "up", 1).await;
    running.stop(Duration::from_secs(3_000)).await;
    running.stopper().stop(Duration::ZERO).await;
    assert_eq!(running.wait().await.status, Status::Signal(9));
}

#[tokio::test]
async fn a_late_stop_does_not_reach_the_next_command() {
    let slots = slots(1);
    let first = slots.acquire().await.run(Command::new(["true"])).await.expect("a slot");
    let stopper = first.stopper();
    first.wait().await;
    let second = RunningSlot::start(&slots).await;
    stopper.stop(Duration::ZERO).await;
    assert_eq!(second.release().await, Status::Exit(0));
}

#[tokio::test]
async fn a_command_that_is_let_go_of_is_killed_at_once() {
    let marker = Marker::new();
    let mut running = start(family(&marker, "echo up; while :; do sleep 1; done")).await;
    hear(&mut running, "up\n", 4).await;
    let (supervisor, monitor) = pair(&running);
    drop(running);
    eventually("nothing is left", || marker.is_gone() && !is_alive(supervisor) && !is_alive(monitor)).await;
}

/// Each process starts two more and exits, until the count is used up: parents are gone before they can be killed.
#[tokio::test]
async fn a_family_that_keeps_forking_is_caught() {
    let marker = Marker::new();
    let fork = "fork() { if [ $1 -gt 0 ]; then ( fork $(($1 - 1)) & ); ( fork $(($1 - 1)) & ); \
                else trap '' TERM; while :; do sleep 0.2; done; fi; }; trap '' TERM; echo up; fork 6; exit 0";
    let command = marker.mark(Command::script(fork)).leftover_grace(Duration::ZERO);
    let (_, ended) = run(command).await;
    assert!(marker.is_gone());
    assert_eq!((ended.status, ended.survivors_left), (Status::Exit(0), 0));
}

/// Each process starts its successor and exits, so that each process found by a scan is gone when it is signalled.
#[tokio::test]
async fn a_process_that_is_always_a_step_ahead_is_caught() {
    let marker = Marker::new();
    let directory = tempfile::tempdir().expect("a directory");
    let hop = script_file(directory.path(), "hop", "#!/bin/sh\n\"$0\" &\n", 0o755);
    let command = marker.mark(Command::new([hop])).leftover_grace(Duration::ZERO);
    let (_, ended) = run(command).await;
    assert!(marker.is_gone());
    assert_eq!((ended.status, ended.survivors_left), (Status::Exit(0), 0));
    assert!(ended.survivors_killed >= 1);
}

/// The moments are the lines of output: each child says that it is up, and the shell what it does.
#[tokio::test]
async fn a_stop_at_any_moment_leaves_nothing() {
    let marker = Marker::new();
    let slots = slots(2);
    let traced = marker.mark(Command::script(&format!("set -x\n{FAMILY}\nwhile :; do sleep 1; done")));
    let tasks = (0..2).map(|_| {
        let (slots, command) = (slots.clone(), traced.clone());
        tokio::spawn(async move {
            for round in 0..40 {
                let mut running = slots.acquire().await.run(command.clone()).await.expect("a slot");
                hear(&mut running, "\n", round % 9).await;
                running.stop(Duration::from_millis(round as u64 % 3)).await;
                let ended = running.wait().await;
                assert!(matches!(ended.status, Status::Signal(9 | 15)), "{ended:?}");
                assert_eq!(ended.survivors_left, 0);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a task");
    }
    assert!(marker.is_gone());
}

fn holds_pidfd(pid: i32) -> bool {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors").flatten();
    links
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|link| link.ends_with("anon_inode:[pidfd]"))
}

#[tokio::test]
async fn many_commands_leave_no_descriptor_and_no_zombie() {
    let slots = slots(1);
    let descriptors = |pid: i32| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let first = RunningSlot::start(&slots).await;
    let (supervisor, monitor) = (first.supervisor, first.monitor);
    // A command can run before the monitor has opened the descriptor on which it waits for the supervisor.
    eventually("the monitor waits for the supervisor", || holds_pidfd(monitor)).await;
    let before = (descriptors(supervisor), descriptors(monitor));
    first.release().await;
    for number in 0..200 {
        let script = if number % 4 == 0 { "(true &) ; true & exit 0" } else { "true" };
        slots.acquire().await.run(Command::script(script)).await.expect("a slot").wait().await;
    }
    assert!(children(supervisor).is_empty(), "no zombie");
    let last = RunningSlot::start(&slots).await;
    assert_eq!((last.supervisor, last.monitor), (supervisor, monitor), "the same slot");
    assert_eq!((descriptors(supervisor), descriptors(monitor)), before);
    last.release().await;
    slots.close_idle().await;
    assert!(!is_alive(supervisor) && !is_alive(monitor));
}

#[tokio::test]
async fn a_signal_to_the_processes_of_a_slot_changes_nothing() {
    let held = RunningSlot::start(&slots(1)).await;
    for pid in [held.supervisor, held.monitor] {
        [Signal::TERM, Signal::INT, Signal::HUP].into_iter().for_each(|signal| send(pid, signal));
    }
    assert_eq!(held.release().await, Status::Exit(0));
}
