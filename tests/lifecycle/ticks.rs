//! A server with a schedule is killed repeatedly: in the end every tick has exactly one job.

use jobhall_tests::{Rig, eventually};
use serde_json::Value;

const KILLS: usize = 6;

fn jobs(rig: &Rig) -> Vec<Value> {
    let listed = rig.json(&["job", "list", "--queue", "ticks", "--limit", "1000", "--json"]);
    listed.as_array().unwrap().clone()
}

/// The tick of a job without jitter and windows, in seconds.
fn tick(job: &Value) -> i64 {
    let at: jobhall_protocol::Timestamp = job["run_at"].as_str().unwrap().parse().unwrap();
    at.0.as_ms() / 1_000
}

#[test]
fn every_tick_has_one_job_however_often_the_hall_is_killed() {
    let mut rig = Rig::server(&[]);
    let job = r#"{"type":"t","queue":"ticks"}"#;
    let set =
        ["schedule", "set", "s", "--every", "1s", "--overlap", "allow", "--catch-up", "all", "--job", job];
    assert_eq!(rig.run(&set).status.code(), Some(0));
    for _ in 0..KILLS {
        let before = jobs(&rig).len();
        eventually("more jobs", || jobs(&rig).len() > before);
        rig.hall().kill();
        rig.start(&["server"]);
    }
    let before = jobs(&rig).len();
    eventually("more jobs", || jobs(&rig).len() > before + 1);
    assert_eq!(rig.run(&["schedule", "remove", "s"]).status.code(), Some(0));
    let mut ticks: Vec<i64> = jobs(&rig).iter().map(tick).collect();
    ticks.sort_unstable();
    assert!(ticks.len() > KILLS, "{ticks:?}");
    let expected: Vec<i64> = (ticks[0]..=ticks[ticks.len() - 1]).collect();
    assert_eq!(ticks, expected, "each second once");
}
