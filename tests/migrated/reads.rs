//! Reads through the command line and the API.

use std::collections::BTreeSet;

use jobhall_client::Client;
use jobhall_protocol::{Code, SubmitJob};
use jobhall_tests::{Rig, text};
use serde_json::Value;

use crate::golden::Known;
use crate::work::runtime;

fn show(rig: &Rig, id: &str) -> Value {
    rig.json(&["job", "show", id, "--json"])
}

pub fn all_jobs(rig: &Rig) -> Vec<Value> {
    let listed = rig.json(&["job", "list", "--all", "--json"]);
    listed.as_array().unwrap().clone()
}

fn names(listed: &Value, label: &str) -> BTreeSet<String> {
    listed.as_array().unwrap().iter().filter_map(|one| one[label].as_str().map(str::to_owned)).collect()
}

pub fn completed_jobs_are_as_they_were(rig: &Rig, golden: &[Known]) {
    let listed: BTreeSet<_> = all_jobs(rig).iter().map(|job| job["id"].to_string()).collect();
    for known in golden {
        assert!(listed.contains(&known.id), "the list has {known:?}");
        if !known.is_completed() {
            continue;
        }
        let job = show(rig, &known.id);
        assert_eq!(job["state"], known.state.as_str(), "{known:?}");
        assert_eq!(job["error"]["reason"].as_str(), known.reason.as_deref(), "{known:?}");
        let last = job["attempts"].as_array().and_then(|attempts| attempts.last());
        if known.outcome.is_some() {
            assert_eq!(last.and_then(|last| last["outcome"].as_str()), known.outcome.as_deref(), "{known:?}");
        }
    }
}

pub fn open_jobs_are_explained(rig: &Rig, golden: &[Known]) {
    for known in golden.iter().filter(|known| !known.is_completed()) {
        let explained = rig.json(&["job", "explain", &known.id, "--json"]);
        let reasons = explained["reasons"].as_array().unwrap();
        assert!(!reasons.is_empty(), "{known:?}: {explained}");
    }
}

pub fn lists_have_everything(rig: &Rig) {
    let list = |noun: &str| rig.json(&[noun, "list", "--json"]);
    let has = |noun: &str, wanted: &[&str]| {
        let listed = names(&list(noun), "name");
        assert!(wanted.iter().all(|name| listed.contains(*name)), "{noun}: {listed:?}");
    };
    has("group", &["named", "empty", "good", "bad", "stop", "copies", "open", "race", "stopping"]);
    has("schedule", &["nightly", "spaced", "ticked", "yearly"]);
    has("type", &["deploy", "frozen", "mail", "report"]);
    has("queue", &["limited", "paused", "ci-1"]);
    has("token", &["ci", "eyes", "joined", "second", "w1", "w2"]);
    for words in
        [&["audit", "--json"][..], &["stats", "--json"], &["nodes", "--json"], &["worker", "list", "--json"]]
    {
        rig.json(words);
    }
    assert_eq!(rig.json(&["queue", "show", "paused", "--json"])["paused"], true);
    let ticked = rig.json(&["schedule", "show", "ticked", "--json"]);
    assert!(ticked["last_job"].is_u64(), "{ticked}");
}

/// The log, the result and the artifacts of the job that has them all.
pub fn outputs_are_there(rig: &Rig, id: &str) {
    assert_eq!(text(&rig.run(&["job", "log", id]).stdout), "first line\na warning\nlast line\n");
    assert_eq!(text(&rig.run(&["job", "artifact", id, "report.txt"]).stdout), "kept by 0.1.0\n");
    assert_eq!(rig.run(&["job", "artifact", id, "deep/data.bin"]).stdout, (0..64).collect::<Vec<u8>>());
    let result = serde_json::json!({ "sum": 3, "words": ["passed", "poison"] });
    assert_eq!(show(rig, id)["result"], result, "data of users is not rewritten");
}

pub fn tokens_reach_what_they_did(rig: &Rig, secrets: &Value) {
    let client = |name: &str| Client::new(&rig.url(), Some(secrets[name].as_str().unwrap())).unwrap();
    let submit = |queue: &str| SubmitJob { queue: Some(queue.to_owned()), ..SubmitJob::new("mail") };
    runtime().block_on(async {
        let (ci, eyes, second) = (client("ci"), client("eyes"), client("second"));
        ci.submit(&submit("ci-1"), None).await.unwrap();
        let outside = ci.submit(&submit("work"), None).await.unwrap_err();
        assert_eq!(outside.code(), Some(Code::Forbidden));
        eyes.groups(None, None, 10, None).await.unwrap();
        let viewer = eyes.submit(&submit("ci-1"), None).await.unwrap_err();
        assert_eq!(viewer.code(), Some(Code::Forbidden));
        assert!(second.tokens().await.unwrap().len() >= 6);
        let expired = client("short").groups(None, None, 10, None).await.unwrap_err();
        assert_eq!(expired.code(), Some(Code::Unauthorized));
    });
}
