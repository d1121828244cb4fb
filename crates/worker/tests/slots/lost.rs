//! The worker, the monitor or the supervisor is killed: no process of the command survives.

use std::io::{BufRead, BufReader};
use std::process::{Command as Program, Stdio};
use std::time::Duration;

use jobhall_worker::{Command, Running, Status};
use rustix::process::Signal;

use crate::rig::{
    Marker, PROGRAM, RunningSlot, children, eventually, hear, is_alive, is_stopped, pair, send, slots, start,
};
use crate::trees::FAMILY;

fn family() -> Command {
    Command::script(&format!("{FAMILY}\necho up; while :; do sleep 1; done"))
}

async fn running_family(marker: &Marker) -> Running {
    let mut running = start(marker.mark(family())).await;
    hear(&mut running, "up\n", 4).await;
    assert!(marker.carriers().len() >= 4, "the marker is seen");
    running
}

#[tokio::test]
async fn a_killed_supervisor_takes_everything_with_it() {
    let marker = Marker::new();
    let running = running_family(&marker).await;
    let (supervisor, monitor) = pair(&running);
    send(supervisor, Signal::KILL);
    assert_eq!(running.wait().await.status, Status::LeaderLost);
    assert!(marker.is_gone(), "when the loss is reported");
    assert!(!is_alive(supervisor));
    eventually("the monitor has ended", || !is_alive(monitor)).await;
}

#[tokio::test]
async fn a_killed_monitor_takes_everything_with_it() {
    let marker = Marker::new();
    let running = running_family(&marker).await;
    let (supervisor, monitor) = pair(&running);
    send(monitor, Signal::KILL);
    assert_eq!(running.wait().await.status, Status::LeaderLost);
    assert!(marker.is_gone(), "when the loss is reported");
    eventually("the supervisor has ended", || !is_alive(supervisor) && !is_alive(monitor)).await;
}

/// Without a control group. The job stops the supervisor first, so that it cannot act on the end of the monitor.
#[test]
fn audit_m9_a_job_that_kills_both_processes_of_its_slot_does_not_outlive_itself() {
    let marker = Marker::new();
    let (name, value) = marker.variable();
    let script = "sleep 600 & setsid sleep 600 & (setsid sleep 600 &)
        monitor=$(cut -d' ' -f4 /proc/$PPID/stat)
        kill -STOP $PPID; kill -KILL $monitor $PPID; sleep 600";
    let mut worker = Program::new(PROGRAM);
    worker.args(["worker", "sh", "-c", script]).env(name, value);
    assert!(worker.status().expect("a worker").success());
    assert!(marker.is_gone(), "{:?} are left", marker.carriers());
}

#[tokio::test]
async fn a_supervisor_that_was_stopped_is_killed_when_it_is_let_go_of() {
    let marker = Marker::new();
    let running = running_family(&marker).await;
    let (supervisor, monitor) = pair(&running);
    send(supervisor, Signal::STOP);
    drop(running);
    eventually("nothing is left", || marker.is_gone() && !is_alive(supervisor) && !is_alive(monitor)).await;
}

#[tokio::test]
async fn a_slot_that_died_idle_is_replaced() {
    let slots = slots(1);
    for monitor_dies in [true, false] {
        let held = RunningSlot::start(&slots).await;
        let (supervisor, monitor) = (held.supervisor, held.monitor);
        assert_eq!(held.release().await, Status::Exit(0));
        send(if monitor_dies { monitor } else { supervisor }, Signal::KILL);
        eventually("the slot has ended", || !is_alive(monitor)).await;
        let next = slots.acquire().await.run(Command::new(["true"])).await.expect("a slot");
        assert_eq!(next.wait().await.status, Status::Exit(0));
    }
}

/// The monitor is dead, and the supervisor could not react.
#[tokio::test]
async fn a_slot_without_monitor_gets_no_command() {
    let slots = slots(1);
    let held = RunningSlot::start(&slots).await;
    let (supervisor, monitor) = (held.supervisor, held.monitor);
    assert_eq!(held.release().await, Status::Exit(0));
    send(supervisor, Signal::STOP);
    eventually("the supervisor is stopped", || is_stopped(supervisor)).await;
    send(monitor, Signal::KILL);
    eventually("the monitor has ended", || !is_alive(monitor)).await;
    let next = slots.acquire().await.run(Command::new(["true"])).await.expect("a slot");
    let ended = tokio::time::timeout(Duration::from_secs(60), next.wait()).await;
    send(supervisor, Signal::KILL);
    assert_eq!(ended.expect("in time").status, Status::Exit(0));
}

fn family_of(pid: i32) -> Vec<i32> {
    children(pid).into_iter().flat_map(|child| [vec![child], family_of(child)].concat()).collect()
}

#[tokio::test]
async fn a_killed_worker_leaves_nothing() {
    let marker = Marker::new();
    let (name, value) = marker.variable();
    let script = format!("{FAMILY}\necho up; while :; do sleep 1; done");
    let mut worker = Program::new(PROGRAM)
        .args(["worker", "/bin/sh", "-eu", "-c", &script])
        .env(name, value)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a worker");
    let pid = i32::try_from(worker.id()).expect("a pid");
    let lines = BufReader::new(worker.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.take(4).map_while(Result::ok).filter(|line| line == "up").count(), 4);
    let slot: Vec<i32> = family_of(pid);
    assert!(slot.len() >= 5, "monitor, supervisor and family: {slot:?}");
    send(pid, Signal::KILL);
    worker.wait().expect("an end");
    eventually("nothing is left", || marker.is_gone() && slot.iter().all(|pid| !is_alive(*pid))).await;
}
