//! Explanations of waiting jobs as data: every reason has the names of the things to change as fields, not only in
//! text.

use serde_json::{Value, json};

use crate::server::TestServer;

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
    assert_eq!(explained(&hall, first).await, ("no_workers".to_owned(), json!({})));
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
        "jobs": [first], "holders": 1, "missing": "places", "until": null, "behind": null,
    });
    assert_eq!(data, wanted);
    let after = hall.submit(&format!(r#"{{"type":"a","after":[{first}]}}"#)).await;
    let wanted = json!({"jobs": [{"id": first, "state": "accepted"}], "more": 0});
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
