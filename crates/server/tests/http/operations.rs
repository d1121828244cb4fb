use jobhall_store::{SettingKind, SettingWrite, Unit};
use serde_json::{Value, json};

use crate::server::{TestServer, quick, wait_for};

const PATH: &str = "/api/v1/operations";

async fn start(hall: &TestServer, body: &Value) -> Value {
    let reply = hall.send("POST", PATH, &hall.admin, &[], body.to_string().as_bytes()).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let operation = reply.json();
    assert_eq!(reply.header("location"), Some(format!("{PATH}/{}", operation["id"]).as_str()));
    operation
}

/// Waits until the operation has ended.
async fn until_ended(hall: &TestServer, id: &Value) -> Value {
    let shown = async || hall.get(&format!("{PATH}/{id}")).await.json();
    let ended = async || Some(shown().await).filter(|operation| operation["state"] != "running");
    wait_for(&format!("the end of operation {id}"), ended).await
}

async fn many(hall: &TestServer, count: usize, job: &str) -> Vec<u64> {
    let reply = hall.post("/api/v1/jobs", &format!("[{}]", vec![job; count].join(","))).await;
    reply.json().as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
}

/// The number of jobs in a list.
async fn count(hall: &TestServer, query: &str) -> usize {
    let (mut count, mut path) = (0, format!("/api/v1/jobs?limit=500&{query}"));
    loop {
        let reply = hall.get(&path).await;
        count += reply.json()["items"].as_array().unwrap().len();
        let Some(link) = reply.header("link") else { return count };
        path = link[1..link.find('>').unwrap()].to_owned();
    }
}

fn counts(operation: &Value) -> [Option<u64>; 4] {
    ["total", "done", "failed", "skipped"].map(|field| operation[field].as_u64())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_match_are_cancelled_and_nothing_else() {
    let hall = TestServer::start().await;
    many(&hall, 250, r#"{"type":"a"}"#).await;
    many(&hall, 3, r#"{"type":"b"}"#).await;
    let started = start(&hall, &json!({"verb": "cancel", "filter": {"type": "a", "state": "queued"}})).await;
    assert_eq!((started["total"].as_u64(), started["who"].as_str()), (Some(250), Some("admin")));
    let later = hall.submit(r#"{"type":"a"}"#).await;
    let operation = until_ended(&hall, &started["id"]).await;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    assert_eq!(counts(&operation), [Some(250), Some(250), Some(0), Some(0)]);
    assert_eq!(count(&hall, "state=cancelled&type=a").await, 250);
    assert_eq!(count(&hall, "state=queued&type=b").await, 3);
    assert_eq!(hall.state(later).await, "queued", "it was submitted after the start of the operation");
    let why = hall.get("/api/v1/jobs/1").await.json()["error"]["explanation"].as_str().unwrap().to_owned();
    assert_eq!(why, format!("cancelled by operation {} of admin", started["id"]));
    let again = start(&hall, &json!({"verb": "cancel", "filter": {"type": "a"}, "up_to": 100})).await;
    let again = until_ended(&hall, &again["id"]).await;
    assert_eq!(counts(&again), [Some(100), Some(0), Some(0), Some(100)], "completed ones are skipped");
    let listed = hall.get(PATH).await.json();
    assert_eq!(listed["items"], json!([again, operation]));
    let page = hall.get(&format!("{PATH}?limit=1")).await;
    let next = page.header("link").unwrap().to_owned();
    let page = hall.get(&next[1..next.find('>').unwrap()]).await.json();
    assert_eq!((&page["items"][0]["id"], page["next_cursor"].is_null()), (&started["id"], true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_counts_and_changes_nothing() {
    let hall = TestServer::start().await;
    many(&hall, 120, r#"{"type":"a","key":null,"params":{"n":"needle"}}"#).await;
    let filter = json!({"q": "NEEDLE"});
    let started = start(&hall, &json!({"verb": "cancel", "filter": filter, "dry_run": true})).await;
    let operation = until_ended(&hall, &started["id"]).await;
    assert_eq!(counts(&operation), [Some(120), Some(0), Some(0), Some(0)]);
    assert_eq!(operation["up_to"].as_u64(), Some(120));
    assert_eq!(count(&hall, "state=queued").await, 120);
    let empty = start(&hall, &json!({"verb": "cancel", "filter": {"type": "none"}})).await;
    assert_eq!(counts(&until_ended(&hall, &empty["id"]).await), [Some(0); 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn completed_jobs_are_deleted_and_pending_ones_are_not() {
    let hall = TestServer::start().await;
    let jobs = many(&hall, 5, r#"{"type":"a"}"#).await;
    for id in &jobs[..3] {
        hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await;
    }
    let body = json!({"verb": "delete", "filter": {"type": "a"}});
    hall.post(PATH, &body.to_string()).await.problem(403, "forbidden");
    let operation = until_ended(&hall, &start(&hall, &body).await["id"]).await;
    assert_eq!(counts(&operation), [Some(5), Some(3), Some(0), Some(2)]);
    for id in &jobs[..3] {
        hall.get(&format!("/api/v1/jobs/{id}")).await.problem(404, "not_found");
    }
    assert_eq!(hall.state(jobs[4]).await, "queued");
    let body = json!({"verb": "delete", "all": true});
    assert_eq!(
        counts(&until_ended(&hall, &start(&hall, &body).await["id"]).await),
        [Some(2), Some(0), Some(0), Some(2)]
    );
}

/// Restores the record of an operation to what a server leaves that crashes before it records its progress.
async fn forget_progress(hall: &TestServer, id: u64, cancel: bool) {
    let settings = hall.store.settings(None).await.unwrap();
    let kept =
        settings.into_iter().find(|one| one.kind == SettingKind::Operation && one.name == id.to_string());
    let kept = kept.unwrap();
    let mut record: Value = serde_json::from_str(&kept.value).unwrap();
    record["reached"] = Value::Null;
    for (field, value) in
        [("state", json!("running")), ("done", json!(0)), ("cancel_requested", json!(cancel))]
    {
        record["operation"][field] = value;
    }
    let write = SettingWrite {
        kind: SettingKind::Operation,
        name: kept.name,
        expected: kept.rev,
        value: Some(record.to_string()),
    };
    let unit = Unit { settings: vec![write], ..Unit::default() };
    assert!(hall.store.commit(vec![unit]).await.unwrap().results[0].is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_goes_on_after_a_restart_and_retries_nothing_twice() {
    let hall = TestServer::with(quick()).await;
    let jobs = many(&hall, 150, r#"{"type":"a"}"#).await;
    let keyed = hall.submit(r#"{"type":"a","key":"k"}"#).await;
    let cancel = start(&hall, &json!({"verb": "cancel", "filter": {"type": "a"}})).await;
    until_ended(&hall, &cancel["id"]).await;
    let holder = hall.submit(r#"{"type":"a","key":"k"}"#).await;
    let retry = start(&hall, &json!({"verb": "retry", "filter": {"state": "cancelled"}})).await;
    let operation = until_ended(&hall, &retry["id"]).await;
    assert_eq!(counts(&operation), [Some(151), Some(150), Some(1), Some(0)]);
    let error = operation["error"].as_str().unwrap();
    assert!(error.contains(&format!("job {keyed}:")) && error.contains(&format!("job {holder}")), "{error}");
    assert_eq!(count(&hall, "state=queued").await, 151);
    forget_progress(&hall, retry["id"].as_u64().unwrap(), false).await;
    let hall = hall.restart(quick()).await;
    let operation = until_ended(&hall, &retry["id"]).await;
    assert_eq!((&operation["state"], operation["done"].as_u64()), (&json!("succeeded"), Some(150)));
    assert_eq!(count(&hall, "state=queued").await, 151, "each was retried once");
    let newest = hall.get("/api/v1/jobs?limit=1").await.json()["items"][0].clone();
    assert!(jobs.contains(&newest["retry_of"].as_u64().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_stopped_on_request() {
    let hall = TestServer::with(quick()).await;
    many(&hall, 20, r#"{"type":"a"}"#).await;
    let body = json!({"verb": "cancel", "filter": {"type": "none"}});
    let operation = until_ended(&hall, &start(&hall, &body).await["id"]).await;
    let path = format!("{PATH}/{}/cancel", operation["id"]);
    hall.post(&path, "").await.problem(409, "conflict");
    forget_progress(&hall, operation["id"].as_u64().unwrap(), true).await;
    let hall = hall.restart(quick()).await;
    let operation = until_ended(&hall, &operation["id"]).await;
    assert_eq!(operation["state"], "cancelled", "{operation}");
    assert_eq!(hall.post(&path, "").await.json()["state"], "cancelled", "a repetition returns the same");
    hall.post(&format!("{PATH}/999/cancel"), "").await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_says_too_little_or_too_much_is_refused() {
    let hall = TestServer::start().await;
    hall.submit(r#"{"type":"a"}"#).await;
    for (body, word) in [
        (json!({"verb": "cancel"}), "all: true"),
        (json!({"verb": "cancel", "filter": {}}), "all: true"),
        (json!({"verb": "explode", "all": true}), "explode"),
        (json!({"filter": {"type": "a"}}), "verb"),
        (json!({"verb": "cancel", "filter": {"colour": "red"}}), "colour"),
        (json!({"verb": "cancel", "filter": {"state": "done"}}), "done"),
        (json!({"verb": "cancel", "filter": {"type": "a b"}}), "type"),
        (json!({"verb": "cancel", "filter": {"q": ""}}), "q has"),
        (json!({"verb": "cancel", "all": true, "up_to": 1u64 << 60}), "up_to"),
        (json!({"verb": "cancel", "all": true, "more": 1}), "more"),
    ] {
        let detail = hall.post(PATH, &body.to_string()).await.problem(400, "bad_request");
        assert!(detail.contains(word), "{body}: {detail}");
    }
    assert_eq!(hall.get(PATH).await.json()["items"], json!([]), "nothing was recorded");
    assert_eq!(hall.state(1).await, "queued");
    hall.get(&format!("{PATH}/1")).await.problem(404, "not_found");
    hall.get(&format!("{PATH}/x")).await.problem(400, "bad_request");
}
