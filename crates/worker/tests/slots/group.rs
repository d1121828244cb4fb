//! The control group of a slot, on machines where this test may create one.

use std::path::PathBuf;
use std::time::Duration;

use jobhall_worker::{Command, Options, Setup, Slots, Status, supervisor};
use rustix::process::Signal;

use crate::rig::{Marker, PROGRAM, RunningSlot, eventually, hear, is_alive, pair, script_file};
use crate::trees::FAMILY;

/// A group for this test, so that it sweeps no other one.
struct Place(PathBuf);

impl Place {
    fn make(name: &str) -> Option<Self> {
        let Some(own) = supervisor::own_group() else {
            let allowed = std::env::var("JOBHALL_ALLOW_UNPROVEN").unwrap_or_default();
            let listed = allowed.split(',').any(|name| name == "control_group");
            assert!(listed, "not proven: no control group may be made here");
            eprintln!("not proven: no control group may be made here");
            return None;
        };
        let place = own.join(format!("hall-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&place).expect("a group");
        Some(Self(place))
    }

    fn slots(&self) -> Slots {
        let setup = Setup { control_group: Some(self.0.clone()), ..Setup::default() };
        Slots::new(Options { most: 2, program: PROGRAM.into(), setup, ..Options::default() })
    }

    fn groups(&self) -> usize {
        let entries = std::fs::read_dir(&self.0).expect("a group").flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _may_still_be_busy = std::fs::remove_dir(&self.0);
    }
}

#[tokio::test]
async fn a_slot_in_a_group_works_and_leaves_no_group() {
    let Some(place) = Place::make("plain") else { return };
    let slots = place.slots();
    let held = RunningSlot::start(&slots).await;
    assert_eq!(place.groups(), 1);
    let members =
        std::fs::read_to_string(place.0.join(format!("hall-slot-{}", held.monitor)).join("cgroup.procs"));
    let members = members.expect("members");
    assert!(members.lines().any(|pid| pid == held.supervisor.to_string()));
    assert!(members.lines().any(|pid| pid == held.running.pid().expect("started").to_string()));
    assert_eq!(held.release().await, Status::Exit(0));
    slots.close_idle().await;
    assert_eq!(place.groups(), 0);
}

#[tokio::test]
async fn audit_m9_what_killed_both_processes_of_its_slot_ends_with_its_group() {
    let Some(place) = Place::make("both") else { return };
    let marker = Marker::new();
    let slots = place.slots();
    let command = marker.mark(Command::script(&format!("{FAMILY}\necho up; while :; do sleep 1; done")));
    let mut running = slots.acquire().await.run(command).await.expect("a slot");
    hear(&mut running, "up\n", 4).await;
    let (supervisor, monitor) = pair(&running);
    // The supervisor cannot act before it is killed too, as if both died at the same time.
    [(supervisor, Signal::STOP), (monitor, Signal::KILL), (supervisor, Signal::KILL)]
        .into_iter()
        .for_each(|(pid, signal)| crate::rig::send(pid, signal));
    assert_eq!(running.wait().await.status, Status::LeaderLost);
    eventually("the group is ended", || marker.is_gone()).await;
    assert_eq!(place.groups(), 0);
}

#[tokio::test]
async fn what_a_dead_worker_left_is_swept_by_the_next_slot() {
    let Some(place) = Place::make("sweep") else { return };
    let marker = Marker::new();
    let mut dead = std::process::Command::new("true").spawn().expect("a process");
    dead.wait().expect("its end");
    let group = place.0.join(format!("hall-slot-{}", dead.id()));
    std::fs::create_dir(&group).expect("a group");
    let (name, value) = marker.variable();
    let mut left =
        std::process::Command::new("sleep").arg("600").env(name, value).spawn().expect("a process");
    std::fs::write(group.join("cgroup.procs"), left.id().to_string()).expect("a member");
    let slots = place.slots();
    let next = slots.acquire().await.run(Command::new(["true"])).await.expect("a slot");
    assert_eq!(next.wait().await.status, Status::Exit(0));
    left.wait().expect("its end");
    slots.close_idle().await;
    assert_eq!(place.groups(), 0);
}

/// The process changes its session at every step, so neither a scan nor a process group contains it.
#[tokio::test]
async fn a_process_that_hops_through_sessions_ends_with_its_slot() {
    let Some(place) = Place::make("hop") else { return };
    let marker = Marker::new();
    let directory = tempfile::tempdir().expect("a directory");
    let hop = script_file(directory.path(), "hop", "#!/bin/sh\nsetsid \"$0\" &\n", 0o755);
    let start = format!("{} & echo up; while :; do sleep 1; done", hop.display());
    let command = marker.mark(Command::script(&start)).leftover_grace(Duration::ZERO);
    let slots = place.slots();
    let mut running = slots.acquire().await.run(command).await.expect("a slot");
    hear(&mut running, "up", 1).await;
    let (supervisor, monitor) = pair(&running);
    drop(running);
    eventually("the slot has ended", || !is_alive(supervisor) && !is_alive(monitor)).await;
    assert!(marker.is_gone(), "when the monitor ends, all processes have ended");
}
