//! The worker of `up`: it is restarted when it dies, and ends with its server.

use jobhall_tests::{Rig, descendants, eventually, kill, marked, text};

/// The worker that a server has started, found in the process tree.
fn worker_of(hall: u32) -> Option<u32> {
    let below = descendants(hall);
    below.iter().find(|(_, words)| words.contains(" worker ")).map(|(pid, _)| *pid)
}

#[test]
fn q8_up_starts_its_worker_again_and_its_job_is_not_lost() {
    let mut rig = Rig::up(&["--slots", "1", "--lease", "3s"]);
    let hall = rig.hall().pid();
    let flag = rig.folder().join("flag");
    let script = format!("test -e {0} && exit 0; touch {0}; echo ready; sleep 600", flag.display());
    let params = serde_json::json!({ "script": script, "env": { "MARK": rig.mark() } }).to_string();
    rig.run(&["job", "submit", "exec", "--params", &params]);
    eventually("its output", || text(&rig.run(&["job", "log", "1"]).stdout).contains("ready"));
    let first = worker_of(hall).unwrap();
    kill(first);
    let output = rig.run(&["job", "wait", "1"]);
    assert_eq!(output.status.code(), Some(0), "it ran again: {}", text(&output.stderr));
    let second = worker_of(hall).unwrap();
    assert_ne!(first, second, "on another worker");
    let job = rig.json(&["job", "show", "1", "--json"]);
    assert_eq!(job["attempts"][0]["outcome"], "lost");
    assert_eq!(job["attempt"].as_u64(), Some(2));
    eventually("the end of the first command", || marked(&format!("MARK={}", rig.mark())).is_empty());
}

#[test]
fn the_worker_of_a_hall_that_was_killed_does_not_outlive_it() {
    let mut rig = Rig::up(&["--slots", "1"]);
    let hall = rig.hall().pid();
    rig.run(&["job", "submit", "exec", "--params", r#"{"script":"echo ready; sleep 600"}"#]);
    eventually("its output", || text(&rig.run(&["job", "log", "1"]).stdout).contains("ready"));
    assert!(worker_of(hall).is_some());
    rig.hall().kill();
    eventually("the end of its worker", || marked(rig.mark()).is_empty());
}
