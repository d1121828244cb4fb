//! Guarantees of one node hold on three nodes.

use jobhall_tests::{Rig, eventually};
use serde_json::Value;

use crate::crowd::Crowd;

/// Jobs that six workers share.
const JOBS: usize = 90;

#[test]
fn a_limit_of_five_is_never_exceeded_by_six_workers_at_three_nodes() {
    let crowd = Crowd::of(3, &[]);
    crowd.run(1, &["queue", "set", "default", "--limit", "concurrency=5"]);
    let (running, seen) = (crowd.file("running"), crowd.file("seen"));
    std::fs::create_dir(&running).unwrap();
    // Each job records how many jobs run concurrently with it.
    let script = format!(
        "touch {0}/$JOBHALL_JOB-$JOBHALL_CLAIM; ls {0} | wc -l >> {1}; sleep 0.05; ls {0} | wc -l >> {1}; rm {0}/$JOBHALL_JOB-$JOBHALL_CLAIM",
        running.display(),
        seen.display()
    );
    let _workers: Vec<_> = (0..6)
        .map(|n| crowd.worker(&format!("w{n}"), &crowd.nodes[n % 3].url(), &["--slots", "3"]))
        .collect();
    let line = serde_json::json!({ "type": "exec", "params": { "script": script } }).to_string();
    let file = crowd.file("jobs.jsonl");
    std::fs::write(&file, format!("{line}\n").repeat(JOBS / 3)).unwrap();
    let from = file.to_str().unwrap();
    std::thread::scope(|scope| {
        for at in 0..3 {
            let crowd = &crowd;
            scope.spawn(move || crowd.run(at, &["job", "submit", "--from", from]));
        }
    });
    let most_leased = |crowd: &Crowd| {
        let workers = crowd.json(0, &["worker", "list"]);
        let held = |worker: &Value| worker["attempts"].as_array().map_or(0, Vec::len);
        workers.as_array().unwrap().iter().map(held).sum::<usize>()
    };
    let mut leased = 0;
    eventually("the end of all jobs", || {
        leased = leased.max(most_leased(&crowd));
        let done = crowd.json(2, &["job", "list", "--state", "succeeded", "--limit", "1000"]);
        done.as_array().unwrap().len() == JOBS
    });
    let seen = std::fs::read_to_string(&seen).unwrap();
    let most = seen.lines().map(|line| line.trim().parse::<usize>().unwrap()).max().unwrap();
    assert!((2..=5).contains(&most), "{most} ran at once");
    assert!(leased <= 5, "{leased} were leased at once");
}

fn jobs(node: &Rig) -> Vec<Value> {
    let listed = node.json(&["job", "list", "--queue", "ticks", "--limit", "1000", "--json"]);
    listed.as_array().unwrap().clone()
}

/// The tick of a job without jitter and windows, in seconds.
fn tick(job: &Value) -> i64 {
    let at: jobhall_protocol::Timestamp = job["run_at"].as_str().unwrap().parse().unwrap();
    at.0.as_ms() / 1_000
}

#[test]
fn a_schedule_makes_one_job_a_tick_however_many_nodes_there_are_and_whichever_is_killed() {
    let mut crowd = Crowd::of(3, &[]);
    let job = r#"{"type":"t","queue":"ticks"}"#;
    let set =
        ["schedule", "set", "s", "--every", "1s", "--overlap", "allow", "--catch-up", "all", "--job", job];
    crowd.run(2, &set);
    eventually("some jobs", || jobs(&crowd.nodes[1]).len() > 2);
    let holder = crowd.holder(1).unwrap();
    crowd.nodes[holder].hall().kill();
    let other = (holder + 1) % 3;
    let before = jobs(&crowd.nodes[other]).len();
    eventually("more jobs", || jobs(&crowd.nodes[other]).len() > before + 2);
    crowd.run(other, &["schedule", "remove", "s"]);
    let mut ticks: Vec<i64> = jobs(&crowd.nodes[other]).iter().map(tick).collect();
    ticks.sort_unstable();
    let expected: Vec<i64> = (ticks[0]..=ticks[ticks.len() - 1]).collect();
    assert_eq!(ticks, expected, "each second once");
}
