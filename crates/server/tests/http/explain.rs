//! Explanations of waiting jobs as data: every reason has the names of the things to change as fields, not only in
//! text.

use jobhall_engine::Config;
use serde_json::{Value, json};

use crate::server::{TestServer, wait_until};

async fn explained(hall: &TestServer, id: u64) -> (String, Value) {
    let told = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    let reason = &told["reasons"][0];
    assert!(reason["text"].as_str().is_some_and(|text| !text.is_empty()), "{reason}");
    (reason["code"].as_str().unwrap().to_owned(), reason["data"].clone())
}

async fn put(hall: &TestServer, path: &str, body: &str) {
    let reply = hall.send("PUT", path, &hall.admin, &[], body.as_bytes()).await;
    assert!(reply.status < 300, "{reply:?}");
}

async fn poll(hall: &TestServer) -> Value {
    let body = r#"{"slots":1,"wait_s":0,"abilities":"gpu=2, os=linux"}"#;
    let reply = hall.work("/api/v1/vacancies", body).await;
    if reply.status == 204 { Value::Null } else { reply.json()["attempts"][0].clone() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_between_a_job_and_workers_is_told_as_data() {
    let hall = TestServer::start().await;
    let first = hall.submit(r#"{"type":"a","uses":"gpu=1"}"#).await;
    let wanted = json!({"type": "a", "queue": "default", "needs": "", "uses": "gpu=1"});
    assert_eq!(explained(&hall, first).await, ("no_workers".to_owned(), wanted));
    let attempt = poll(&hall).await;
    hall.word(&attempt, "accept", b"").await;
    assert_eq!(explained(&hall, first).await, ("running".to_owned(), json!({"worker": "w"})));
    let waiting = hall.submit(r#"{"type":"a","uses":"gpu=2"}"#).await;
    let missing = json!([{"name": "gpu", "asked": 2, "left": 1, "total": 2}]);
    let wanted = json!({"workers": [{"worker": "w", "missing": missing, "jobs": [first]}]});
    assert_eq!(explained(&hall, waiting).await, ("used_up".to_owned(), wanted));
    let large = hall.submit(r#"{"type":"a","uses":"gpu=3"}"#).await;
    let wanted = json!({"resources": [{"name": "gpu", "term": "gpu=3", "largest": 2, "worker": "w"}]});
    assert_eq!(explained(&hall, large).await, ("too_large".to_owned(), wanted));
    let mac = hall.submit(r#"{"type":"a","needs":"os=mac"}"#).await;
    let (code, data) = explained(&hall, mac).await;
    assert_eq!((code.as_str(), &data["workers"][0]["worker"]), ("no_matching_worker", &json!("w")));
    let term = &data["workers"][0]["needs"][0];
    assert_eq!((&term["term"], &term["name"]), (&json!("os=mac"), &json!("os")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_and_time_keep_back_is_told_as_data() {
    let hall = TestServer::start().await;
    put(&hall, "/api/v1/queues/slow", r#"{"limits":[{"concurrency":1,"by":"owner"}]}"#).await;
    let first = hall.submit(r#"{"type":"a","queue":"slow","owner":"eve"}"#).await;
    let attempt = poll(&hall).await;
    hall.word(&attempt, "accept", b"").await;
    let second = hall.submit(r#"{"type":"a","queue":"slow","owner":"eve"}"#).await;
    poll(&hall).await;
    let (code, data) = explained(&hall, second).await;
    assert_eq!(code, "limited");
    let wanted = json!({
        "queue": "slow", "by": "owner", "value": "eve", "concurrency": 1, "weight": 1, "taken": 1,
        "jobs": [first], "holders": 1, "missing": "places", "behind": null,
        "ahead": 0, "more_ahead": false, "position": 1, "expected_start": null, "not_before": null,
    });
    assert_eq!(data, wanted);
    let after = hall.submit(&format!(r#"{{"type":"a","after":[{first}]}}"#)).await;
    let why = json!({"code": "running", "text": "worker w runs it", "data": {"worker": "w"}});
    let wanted = json!({"jobs": [{"id": first, "state": "accepted", "why": why}], "more": 0});
    assert_eq!(explained(&hall, after).await, ("dependencies".to_owned(), wanted));
    let later = hall.submit(r#"{"type":"a","run_at":"2100-01-01T00:00:00Z"}"#).await;
    let wanted = json!({"run_at": "2100-01-01T00:00:00.000Z"});
    assert_eq!(explained(&hall, later).await, ("not_due".to_owned(), wanted));
    put(&hall, "/api/v1/queues/still", r#"{"paused":true}"#).await;
    let paused = hall.submit(r#"{"type":"a","queue":"still"}"#).await;
    assert_eq!(explained(&hall, paused).await, ("paused".to_owned(), json!({"queue": "still"})));
    let live = hall.submit(r#"{"type":"a","key":"k","queue":"still"}"#).await;
    let told = hall.get(&format!("/api/v1/jobs/{live}/explain")).await.json();
    assert_eq!(told["reasons"][0]["data"]["queue"], "still");
}

/// The first reason that this token gets.
async fn reason(hall: &TestServer, token: &str, id: u64) -> Value {
    let reply = hall.send("GET", &format!("/api/v1/jobs/{id}/explain"), token, &[], b"").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["reasons"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_dependency_is_followed_to_the_job_that_failed_first() {
    let hall = TestServer::start().await;
    let first = hall.submit(r#"{"type":"a","queue":"far","retry":{"max_attempts":1}}"#).await;
    let second = hall.submit(&format!(r#"{{"type":"a","queue":"near","after":[{first}]}}"#)).await;
    let third = hall.submit(&format!(r#"{{"type":"a","queue":"near","after":[{second}]}}"#)).await;
    let attempt = hall.take().await;
    let failed = br#"{"outcome":"failed","error":{"reason":"exit_code","explanation":"ended with 7"}}"#;
    assert_eq!(hall.word(&attempt, "outcome", failed).await.status, 200);
    hall.until(third, "failed").await;
    let why = reason(&hall, &hall.viewer, third).await;
    let text = format!(
        "it depends on job {second}, which has failed\n  job {second}: it depends on job {first}, which has failed\n  \
         job {first}: attempt 1 of 1 failed: exit_code: ended with 7"
    );
    assert_eq!((&why["code"], &why["text"]), (&json!("dependency"), &json!(text)));
    let fix = format!(
        "see `jobhall job log {first}`; run it again with `jobhall job retry {first}`, then run this one with \
         `jobhall job retry {third}`"
    );
    assert_eq!(why["fix"], json!(fix));
    let causes = &why["data"]["causes"];
    assert_eq!((&causes[0]["job"], &causes[1]["job"]), (&json!(second), &json!(first)));
    assert_eq!((&causes[1]["reason"], &causes[1]["attempt"]), (&json!("exit_code"), &json!(1)));
    // A token that does not see the first job gets no more than the error of the second one.
    let near = hall.secret(r#"{"name":"near","role":"viewer","queues":["near"]}"#).await;
    let why = reason(&hall, &near, third).await;
    assert_eq!(why["data"]["causes"].as_array().map(Vec::len), Some(1), "{why}");
    assert!(!why.to_string().contains("exit_code"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_some_queues_learns_no_reason_of_a_dependency() {
    let hall = TestServer::start().await;
    let near = hall.secret(r#"{"name":"near","role":"viewer","queues":["near"]}"#).await;
    let first = hall.submit(r#"{"type":"a","queue":"near"}"#).await;
    let attempt = hall.take().await;
    hall.word(&attempt, "accept", b"").await;
    let second = hall.submit(&format!(r#"{{"type":"a","queue":"near","after":[{first}]}}"#)).await;
    let why = reason(&hall, &near, second).await;
    assert_eq!(why["data"]["jobs"], json!([{"id": first, "state": "accepted", "why": null}]));
    assert_eq!(why["fix"], json!(format!("see `jobhall job explain {first}`")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_worker_is_the_same_in_an_explanation_and_in_the_list_of_workers() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    hall.word(&attempt, "accept", b"").await;
    assert_eq!(explained(&hall, id).await.0, "running");
    assert!(hall.workers().await[0]["silent_ms"].is_null());
    // After a restart nothing was heard from the worker yet.
    let hall = hall.restart(Config::default()).await;
    let (code, data) = explained(&hall, id).await;
    assert_eq!((code.as_str(), &data["worker"], &data["then"]), ("silent", &json!("w"), &json!("retried")));
    let workers = hall.workers().await;
    assert_eq!((workers.len(), &workers[0]["name"]), (1, &json!("w")), "{workers:?}");
    assert!(workers[0]["silent_ms"].is_u64() && workers[0]["lost_at"].is_string(), "{workers:?}");
    assert_eq!(workers[0]["attempts"], json!([attempt["id"]]));
    let renewal = json!({"attempts": [{"id": attempt["id"], "lease": attempt["lease"]}]});
    assert_eq!(hall.work("/api/v1/renewals", &renewal.to_string()).await.status, 200);
    assert_eq!(explained(&hall, id).await.0, "running");
    assert!(hall.workers().await[0]["silent_ms"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_progress_of_each_attempt_is_shown_after_its_end() {
    let hall = TestServer::start().await;
    let id =
        hall.submit(r#"{"type":"a","retry":{"max_attempts":2,"backoff":"constant","delay":"1ms"}}"#).await;
    for (step, outcome) in [(3, r#"{"outcome":"failed"}"#), (6, r#"{"outcome":"succeeded"}"#)] {
        hall.until(id, if step == 3 { "queued" } else { "retrying" }).await;
        let attempt = hall.take().await;
        let body = json!({"indicators": [{"step": step, "total": 6}]}).to_string();
        assert_eq!(hall.word(&attempt, "progress", body.as_bytes()).await.status, 200);
        assert_eq!(hall.word(&attempt, "outcome", outcome.as_bytes()).await.status, 200);
    }
    let check = async |hall: &TestServer| {
        let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
        let listed = hall.get(&format!("/api/v1/jobs/{id}/attempts")).await.json();
        let steps = |attempts: &Value| -> Vec<_> {
            attempts.as_array().unwrap().iter().map(|one| one["progress"][0]["step"].as_u64()).collect()
        };
        assert_eq!(
            (steps(&job["attempts"]), steps(&listed["items"])),
            (vec![Some(3), Some(6)], vec![Some(6), Some(3)])
        );
    };
    check(&hall).await;
    check(&hall.restart(Config::default()).await).await;
}

/// Takes jobs and lets their leases expire until this job has crashed.
async fn lose(hall: &TestServer, id: u64) {
    while hall.state(id).await != "crashed" {
        let attempt = hall.take().await;
        assert_eq!(hall.word(&attempt, "accept", b"").await.status, 200);
        wait_until("its loss", async || !["accepted", "running"].contains(&hall.state(id).await.as_str()))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ended_by_losing_its_workers_is_told_with_what_to_do() {
    let hall = TestServer::with(Config { lease_ms: 200, ..Config::default() }).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    lose(&hall, id).await;
    let why = reason(&hall, &hall.viewer, id).await;
    assert_eq!(why["data"]["reason"], json!("too_many_lost_leases"), "{why}");
    let fix = format!(
        "check why its workers were lost: see `jobhall job show {id}`; run it again with `jobhall job retry {id}`"
    );
    assert_eq!(why["fix"], json!(fix));
    let once = hall.submit(r#"{"type":"a","at_most_once":true}"#).await;
    lose(&hall, once).await;
    let why = reason(&hall, &hall.viewer, once).await;
    assert_eq!(why["data"]["reason"], json!("at_most_once"), "{why}");
    let fix = format!("check whether its work was done, then run it again with `jobhall job retry {once}`");
    assert_eq!(why["fix"], json!(fix));
}
