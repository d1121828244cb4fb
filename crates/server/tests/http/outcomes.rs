//! Outcomes of external work.

use serde_json::{Value, json};

use crate::server::{Reply, TestServer};

async fn external(hall: &TestServer) {
    let body = br#"{"external":true,"timeouts":{"total":"1h"}}"#;
    let set = hall.send("PUT", "/api/v1/types/ext", &hall.admin, &[], body).await;
    assert_eq!((set.status, set.json()["external"].as_bool()), (201, Some(true)), "{}", set.text());
}

async fn tell(hall: &TestServer, place: &str, body: &Value) -> Reply {
    let path = format!("/api/v1/outcomes/{place}");
    hall.send("PUT", &path, &hall.client, &[], body.to_string().as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn h10_the_outcome_comes_by_type_and_key_in_every_order() {
    let hall = TestServer::start().await;
    external(&hall).await;
    let passed = json!({"outcome": "succeeded", "value": {"n": 7}});
    // After the handler has returned, with and without the attempt number; the key contains a slash.
    let id = hall.submit(r#"{"type":"ext","key":"a/b"}"#).await;
    tell(&hall, "ext/a%2Fb", &passed).await.problem(409, "conflict");
    let given = hall.take().await;
    assert_eq!(given["job"]["external"], true);
    let started = hall.word(&given, "outcome", br#"{"outcome":"started"}"#).await;
    assert_eq!(started.json()["state"], "waiting");
    let reasons = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(reasons["reasons"][0]["code"], "waits_external");
    tell(&hall, "ext/a%2Fb?attempt=2", &passed).await.problem(409, "conflict");
    let told = tell(&hall, "ext/a%2Fb?attempt=1", &passed).await;
    assert_eq!(
        (told.status, &told.json()["state"], &told.json()["result"]),
        (200, &json!("succeeded"), &json!({"n": 7}))
    );
    assert_eq!(tell(&hall, "ext/a%2Fb", &passed).await.status, 200, "the same report twice");
    tell(&hall, "ext/a%2Fb", &json!({"outcome": "failed"})).await.problem(409, "conflict");
    // Before the handler returns; the handler's report is then accepted too.
    let id = hall.submit(r#"{"type":"ext","key":"early"}"#).await;
    let given = hall.take().await;
    assert_eq!(tell(&hall, "ext/early", &passed).await.json()["state"], "assigned");
    tell(&hall, "ext/early", &json!({"outcome": "succeeded"})).await.problem(409, "conflict");
    let started = hall.word(&given, "outcome", br#"{"outcome":"started"}"#).await;
    assert_eq!((started.status, &started.json()["state"]), (200, &json!("succeeded")));
    assert_eq!(hall.state(id).await, "succeeded");
    // After a cancel.
    let id = hall.submit(r#"{"type":"ext","key":"gone"}"#).await;
    let given = hall.take().await;
    hall.word(&given, "outcome", br#"{"outcome":"started"}"#).await;
    hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await;
    tell(&hall, "ext/gone", &passed).await.problem(409, "conflict");
    assert_eq!(hall.state(id).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn h10_what_names_nothing_or_is_not_external_is_refused_and_changes_nothing() {
    let hall = TestServer::start().await;
    external(&hall).await;
    tell(&hall, "ext/nothing", &json!({"outcome": "succeeded"})).await.problem(404, "not_found");
    let id = hall.submit(r#"{"type":"t","key":"k"}"#).await;
    let given = hall.take().await;
    let detail = tell(&hall, "t/k", &json!({"outcome": "succeeded"})).await.problem(409, "conflict");
    assert!(detail.contains("type t is not external"), "{detail}");
    let detail = hall.word(&given, "outcome", br#"{"outcome":"started"}"#).await.problem(409, "conflict");
    assert!(detail.contains("type t is not external"), "{detail}");
    let both = hall.word(&given, "outcome", br#"{"outcome":"started","value":1}"#).await;
    both.problem(400, "bad_request");
    tell(&hall, "t/k", &json!({"outcome": "started"})).await.problem(400, "bad_request");
    assert_eq!(hall.state(id).await, "assigned");
    let scoped = hall.secret(r#"{"name":"elsewhere","role":"client","queues":["other"]}"#).await;
    hall.submit(r#"{"type":"ext","key":"mine"}"#).await;
    let path = "/api/v1/outcomes/ext/mine";
    hall.send("PUT", path, &scoped, &[], br#"{"outcome":"succeeded"}"#).await.problem(404, "not_found");
}
