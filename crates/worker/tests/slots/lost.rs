//! The worker, the keeper or the leader is killed: nothing of the command outlives it.

use std::io::{BufRead, BufReader};
use std::process::{Command as Program, Stdio};
use std::time::Duration;

use jobhall_worker::{Command, Running, Status};
use rustix::process::Signal;

use crate::rig::{
    Held, Marker, PROGRAM, children, eventually, hear, is_alive, is_stopped, pair, send, slots, start,
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
async fn a_killed_leader_takes_everything_with_it() {
    let marker = Marker::new();
    let running = running_family(&marker).await;
    let (leader, keeper) = pair(&running);
    send(leader, Signal::KILL);
    assert_eq!(running.wait().await.status, Status::LeaderLost);
    assert!(marker.is_gone(), "at the very moment the loss is told");
    assert!(!is_alive(leader));
    eventually("the keeper is gone", || !is_alive(keeper)).await;
}

#[tokio::test]
async fn a_killed_keeper_takes_everything_with_it() {
    let marker = Marker::new();
    let running = running_family(&marker).await;
    let (leader, keeper) = pair(&running);
    send(keeper, Signal::KILL);
    assert_eq!(running.wait().await.status, Status::LeaderLost);
    assert!(marker.is_gone(), "at the very moment the loss is told");
    eventually("the leader is gone", || !is_alive(leader) && !is_alive(keeper)).await;
}

#[tokio::test]
async fn a_leader_that_was_stopped_is_killed_when_it_is_let_go_of() {
    let marker = Marker::new();
    let running = running_family(&marker).await;
    let (leader, keeper) = pair(&running);
    send(leader, Signal::STOP);
    drop(running);
    eventually("nothing is left", || marker.is_gone() && !is_alive(leader) && !is_alive(keeper)).await;
}

#[tokio::test]
async fn a_slot_that_died_idle_is_replaced() {
    let slots = slots(1);
    for keeper_dies in [true, false] {
        let held = Held::start(&slots).await;
        let (leader, keeper) = (held.leader, held.keeper);
        assert_eq!(held.release().await, Status::Exit(0));
        send(if keeper_dies { keeper } else { leader }, Signal::KILL);
        eventually("the slot is gone", || !is_alive(keeper)).await;
        let next = slots.acquire().await.run(Command::new(["true"])).await.expect("a slot");
        assert_eq!(next.wait().await.status, Status::Exit(0));
    }
}

/// The keeper is dead, and the leader could not act on it.
#[tokio::test]
async fn a_slot_without_keeper_gets_no_command() {
    let slots = slots(1);
    let held = Held::start(&slots).await;
    let (leader, keeper) = (held.leader, held.keeper);
    assert_eq!(held.release().await, Status::Exit(0));
    send(leader, Signal::STOP);
    eventually("the leader is stopped", || is_stopped(leader)).await;
    send(keeper, Signal::KILL);
    eventually("the keeper is gone", || !is_alive(keeper)).await;
    let next = slots.acquire().await.run(Command::new(["true"])).await.expect("a slot");
    let ended = tokio::time::timeout(Duration::from_secs(60), next.wait()).await;
    send(leader, Signal::KILL);
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
    assert!(slot.len() >= 5, "keeper, leader and family: {slot:?}");
    send(pid, Signal::KILL);
    worker.wait().expect("an end");
    eventually("nothing is left", || marker.is_gone() && slot.iter().all(|pid| !is_alive(*pid))).await;
}
