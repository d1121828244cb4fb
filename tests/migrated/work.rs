//! Existing attempts continue, and all open jobs end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use jobhall_client::{AttemptRef, Client};
use jobhall_protocol::{LogStream, Outcome, OutcomeReport, Renewals, RenewedAttempt, Vacancy};
use jobhall_tests::{Rig, eventually, text};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

use crate::golden::{Known, of_case};
use crate::reads::all_jobs;

/// A lease assigned by 0.1.0.
pub struct OldLease {
    pub attempt: String,
    pub lease: String,
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn passed(value: &str) -> OutcomeReport {
    let value = Some(RawValue::from_string(value.to_owned()).unwrap());
    OutcomeReport { outcome: Outcome::Succeeded, value, error: None, retry: None, params: None }
}

/// The worker of the attempt renews its lease, appends to its log and reports its end.
pub fn finish_as_before(rig: &Rig, secret: &str, OldLease { attempt, lease }: &OldLease) {
    let client = Client::new(&rig.url(), Some(secret)).unwrap();
    let held = RenewedAttempt { id: attempt.clone(), lease: lease.clone() };
    let lease = AttemptRef { attempt, lease };
    runtime().block_on(async {
        let renewed = client.renew(&Renewals { attempts: vec![held] }).await.unwrap();
        assert_eq!(renewed.kept, [attempt.as_str()], "{renewed:?}");
        let more = Bytes::from_static(b"the other half\n");
        client.append_log(lease, LogStream::Stdout, 11, more).await.unwrap();
        let moved = client.outcome(lease, &passed("\"as before\"")).await.unwrap();
        assert_eq!(moved.state, "succeeded");
    });
    let id = attempt.split('-').next().unwrap();
    assert_eq!(text(&rig.run(&["job", "log", id]).stdout), "half of it\nthe other half\n");
}

/// Takes jobs until it is stopped.
async fn serve(client: Client, stop: Arc<AtomicBool>) {
    let abilities = "gpu=64, mem_gb=64, os=linux".to_owned();
    let vacancy = Vacancy { wait_s: 1, abilities, ..Vacancy::default() };
    while !stop.load(Ordering::Relaxed) {
        client.apply(&vacancy, |_| async { Ok::<_, std::io::Error>("done") }).await.unwrap();
    }
}

fn well(rig: &Rig, words: &[&str]) {
    let output = rig.run(words);
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
}

/// Removes whatever prevents a job from running. The job may have changed since it was listed, so a refusal is not an
/// error.
fn help(rig: &Rig, job: &Value) {
    let (id, key) = (job["id"].to_string(), job["key"].as_str().unwrap_or_default());
    if job["hold"] == true {
        rig.run(&["job", "release", &id]);
    }
    match job["state"].as_str().unwrap() {
        "queued" if job["windows"] != "" => drop(rig.run(&["job", "run-now", &id])),
        "scheduled" | "retrying" => drop(rig.run(&["job", "run-now", &id])),
        "waiting" if job["type"] == "deploy" => {
            drop(rig.run(&["job", "complete", "deploy", key, "--succeeded"]));
        }
        _ => {}
    }
}

/// Lets workers complete all open jobs.
pub fn finish_everything(rig: &Rig, secret: &str) {
    well(rig, &["queue", "resume", "paused"]);
    well(rig, &["type", "set", "frozen", "--paused", "false"]);
    let (runtime, stop) = (runtime(), Arc::new(AtomicBool::new(false)));
    let workers: Vec<_> = (0..4)
        .map(|_| runtime.spawn(serve(Client::new(&rig.url(), Some(secret)).unwrap(), stop.clone())))
        .collect();
    let completed = ["succeeded", "failed", "crashed", "cancelled"];
    eventually("the end of all jobs", || {
        let jobs = all_jobs(rig);
        let open: Vec<_> =
            jobs.iter().filter(|job| !completed.contains(&job["state"].as_str().unwrap())).collect();
        open.iter().for_each(|job| help(rig, job));
        open.is_empty()
    });
    stop.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|worker| runtime.block_on(worker).unwrap());
}

pub fn ends_are_right(rig: &Rig, golden: &[Known]) {
    let jobs = all_jobs(rig);
    let find = |id: &str| jobs.iter().find(|job| job["id"].as_u64() == id.parse().ok()).unwrap();
    let early = jobs.iter().find(|job| job["key"] == "early-passed").unwrap();
    assert_eq!(early["result"], serde_json::json!({ "version": 8 }), "the early outcome counts");
    let cancelled = [
        ("original, leased", "copy_won"),
        ("cancel requested", "cancelled"),
        ("superseded, leased", "superseded"),
        ("member of a group that is being cancelled", "enough"),
    ];
    for (case, reason) in cancelled {
        let job = find(of_case(golden, case));
        assert_eq!(
            (job["state"].as_str(), job["error"]["reason"].as_str()),
            (Some("cancelled"), Some(reason))
        );
    }
    let cancelled = cancelled.map(|(case, _)| of_case(golden, case));
    for known in
        golden.iter().filter(|known| !known.is_completed() && !cancelled.contains(&known.id.as_str()))
    {
        let job = find(&known.id);
        let by_sql = job["error"]["reason"] == "superseded" && job["key"] == "sql";
        assert!(job["state"] == "succeeded" || by_sql, "{known:?}: {job}");
    }
    assert!(jobs.iter().any(|job| job["params"]["case"] == "the follow-up" && job["state"] == "succeeded"));
    groups_end(rig);
}

fn groups_end(rig: &Rig) {
    let listed = || rig.json(&["group", "list", "--json"]).as_array().unwrap().clone();
    for group in listed().iter().filter(|group| group["closed"] == false) {
        well(rig, &["group", "close", &group["id"].to_string()]);
    }
    eventually("the end of all groups", || listed().iter().all(|group| group["completed_at"].is_string()));
    for group in listed() {
        let expected = match group["name"].as_str().unwrap() {
            "bad" => "failed",
            "stop" | "stopping" => "cancelled",
            _ => "succeeded",
        };
        assert_eq!(group["state"], expected, "{group}");
    }
}
