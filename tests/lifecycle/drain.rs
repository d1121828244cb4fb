//! A signal stops servers and workers gracefully: current work is finished first, or continues elsewhere.

use jobhall_tests::{Rig, Signal, eventually, text};

const SLOW: &str = r#"{"script":"echo ready; sleep 2; echo done"}"#;

fn state(rig: &Rig, id: &str) -> String {
    rig.json(&["job", "show", id, "--json"])["state"].as_str().unwrap().to_owned()
}

fn log(rig: &Rig, id: &str) -> String {
    text(&rig.run(&["job", "log", id]).stdout)
}

#[test]
fn a_worker_that_is_told_to_end_finishes_its_job_and_takes_no_other() {
    let rig = Rig::server(&[]);
    let mut worker = rig.worker("one", &rig.token(), &["--allow", "exec", "--slots", "1"]);
    rig.run(&["job", "submit", "exec", "--params", SLOW]);
    rig.run(&["job", "submit", "exec", "--params", r#"{"script":"echo never"}"#]);
    eventually("its output", || log(&rig, "1").contains("ready"));
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait().code(), Some(0), "{}", rig.said("one"));
    assert_eq!((state(&rig, "1").as_str(), log(&rig, "1").as_str()), ("succeeded", "ready\ndone\n"));
    assert_eq!(state(&rig, "2"), "queued", "no worker is connected");
    let _other = rig.worker("two", &rig.token(), &["--allow", "exec", "--slots", "1"]);
    eventually("another worker", || state(&rig, "2") == "succeeded");
}

#[test]
fn a_worker_that_an_operator_drains_finishes_its_job_and_exits_with_0() {
    let rig = Rig::server(&[]);
    let secret = rig.json(&["token", "create", "one", "--role", "worker", "--json"])["secret"].clone();
    let mut worker = rig.worker("one", secret.as_str().unwrap(), &["--allow", "exec", "--slots", "1"]);
    rig.run(&["job", "submit", "exec", "--params", SLOW]);
    eventually("its output", || log(&rig, "1").contains("ready"));
    rig.run(&["job", "submit", "exec", "--params", r#"{"script":"echo never"}"#]);
    let drained = rig.run(&["worker", "drain", "one"]);
    assert!(text(&drained.stdout).contains("worker one drains"), "{drained:?}");
    assert!(text(&rig.run(&["worker", "list"]).stdout).contains("draining"));
    let why = text(&rig.run(&["job", "explain", "2"]).stdout);
    assert!(why.contains("worker one drains"), "{why}");
    assert_eq!(worker.wait().code(), Some(0), "{}", rig.said("one"));
    assert!(rig.said("one").contains("an operator drains this worker"), "{}", rig.said("one"));
    assert_eq!((state(&rig, "1").as_str(), log(&rig, "1").as_str()), ("succeeded", "ready\ndone\n"));
    assert_eq!(state(&rig, "2"), "queued");
    let _again = rig.worker("one", secret.as_str().unwrap(), &["--allow", "exec", "--slots", "1"]);
    eventually("the worker that was started again", || state(&rig, "2") == "succeeded");
}

#[test]
fn the_worker_of_up_can_be_paused_and_not_drained() {
    let mut rig = Rig::up(&["--slots", "1"]);
    eventually("its worker", || text(&rig.run(&["worker", "list"]).stdout).contains("local"));
    let refused = rig.run(&["worker", "drain", "local"]);
    assert_eq!(refused.status.code(), Some(6), "{refused:?}");
    assert!(text(&refused.stderr).contains("pause it instead"), "{refused:?}");
    let paused = rig.run(&["worker", "pause", "local"]);
    assert!(text(&paused.stdout).contains("resume it: jobhall worker resume local"), "{paused:?}");
    rig.run(&["job", "submit", "exec", "--params", r#"{"script":"true"}"#]);
    rig.hall().signal(Signal::TERM);
    assert_eq!(rig.hall().wait().code(), Some(0), "{}", rig.said("hall"));
    rig.start(&["up", "--slots", "1"]);
    eventually("its worker", || rig.json(&["worker", "show", "local", "--json"])["connected"] == true);
    let why = text(&rig.run(&["job", "explain", "1"]).stdout);
    assert!(why.contains("worker local is paused"), "{why}");
    assert!(why.contains("fix: resume it with `jobhall worker resume local`"), "{why}");
    rig.run(&["worker", "resume", "local"]);
    eventually("the job", || state(&rig, "1") == "succeeded");
    let unknown = rig.run(&["worker", "pause", "locla"]);
    assert_eq!(unknown.status.code(), Some(5), "{unknown:?}");
    assert!(text(&unknown.stderr).contains("known workers: local"), "{unknown:?}");
}

#[test]
fn a_hall_that_is_told_to_stop_loses_nothing_of_a_running_job() {
    let mut rig = Rig::server(&[]);
    let mut worker = rig.worker("one", &rig.token(), &["--allow", "exec", "--slots", "1"]);
    let script = r#"{"script":"i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.1; done"}"#;
    rig.run(&["job", "submit", "exec", "--params", script]);
    eventually("its output", || log(&rig, "1").contains("line 3"));
    rig.hall().signal(Signal::TERM);
    assert_eq!(rig.hall().wait().code(), Some(0), "{}", rig.said("hall"));
    rig.start(&["server"]);
    assert_eq!(rig.run(&["job", "wait", "1"]).status.code(), Some(0), "it continued meanwhile");
    let lines: String = (0..40).map(|n| format!("line {n}\n")).collect();
    assert_eq!(log(&rig, "1"), lines, "and every line is there, once");
    let attempt = rig.json(&["job", "show", "1", "--json"])["attempt"].as_u64();
    assert_eq!(attempt, Some(1), "in the same attempt");
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait().code(), Some(0));
}

#[test]
fn up_finishes_the_job_at_hand_before_it_ends_and_a_second_signal_does_not_wait() {
    let mut rig = Rig::up(&["--slots", "1"]);
    rig.run(&["job", "submit", "exec", "--params", SLOW]);
    eventually("its output", || log(&rig, "1").contains("ready"));
    rig.hall().signal(Signal::TERM);
    assert_eq!(rig.hall().wait().code(), Some(0), "{}", rig.said("hall"));
    rig.start(&["up", "--slots", "1"]);
    assert_eq!((state(&rig, "1").as_str(), log(&rig, "1").as_str()), ("succeeded", "ready\ndone\n"));
    let submit = ["job", "submit", "exec", "--params", r#"{"script":"echo ready; sleep 600"}"#, "--json"];
    let id = rig.json(&submit)["id"].to_string();
    eventually("its output", || log(&rig, &id).contains("ready"));
    rig.hall().signal(Signal::TERM);
    // It logged the same message before, at the first signal.
    eventually("its message", || rig.said("hall").matches("a second signal stops immediately").count() == 2);
    rig.hall().signal(Signal::TERM);
    assert_eq!(rig.hall().wait().code(), Some(0), "{}", rig.said("hall"));
    eventually("the end of its processes", || jobhall_tests::marked(rig.mark()).is_empty());
}
