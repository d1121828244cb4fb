//! Changes of waiting jobs through the API.

use crate::server::{Reply, TestServer};

async fn patch(hall: &TestServer, id: u64, body: &str) -> Reply {
    hall.send("PATCH", &format!("/api/v1/jobs/{id}"), &hall.client, &[], body.as_bytes()).await
}

async fn verb(hall: &TestServer, id: u64, verb: &str) -> Reply {
    hall.post(&format!("/api/v1/jobs/{id}/{verb}"), "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_is_edited_field_by_field() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a","priority":7,"owner":"ann","tags":["x"],"params":{"n":1}}"#).await;
    let told = patch(&hall, id, r#"{"params":{"n":2},"tags":["b","a"],"needs":"gpu>=1"}"#).await;
    assert_eq!(told.status, 200);
    let job = told.json();
    assert_eq!((job["params"]["n"].as_u64(), job["priority"].as_i64()), (Some(2), Some(7)));
    assert_eq!((job["owner"].as_str(), job["needs"].as_str()), (Some("ann"), Some("gpu>=1")));
    assert_eq!(job["tags"].as_array().unwrap().len(), 2);
    let job = patch(&hall, id, r#"{"owner":null,"run_at":"2999-01-01T00:00:00Z"}"#).await.json();
    assert_eq!((job["owner"].as_str(), job["state"].as_str()), (None, Some("scheduled")));
    assert_eq!(job["params"]["n"].as_u64(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_edit_names_the_field_and_writes_nothing() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    for (body, said) in [
        ("{}", "no change given"),
        (r#"{"queue":"q"}"#, "unknown field `queue`"),
        (r#"{"needs":"gpu >"}"#, "needs: "),
        (r#"{"uses":"gpu=x"}"#, "uses: "),
        (r#"{"windows":"9-17"}"#, "windows: "),
        (r#"{"priority":1,"tags":["a b"]}"#, "tag has the character"),
        (r#"{"throttle_factor":1000001}"#, "throttle_factor of 1000001"),
        (r#"{"retry":{"max_attempts":0}}"#, "max_attempts of 0"),
        (r#"{"timeouts":{"total_ms":0}}"#, "total_ms"),
    ] {
        let detail = patch(&hall, id, body).await.problem(400, "bad_request");
        assert!(detail.contains(said), "{body}: {detail}");
    }
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((job["priority"].as_i64(), job["created_at"] == job["updated_at"]), (Some(100), true));
    patch(&hall, 999_999, r#"{"priority":1}"#).await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_worker_has_is_not_edited_and_not_run_now() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let held = hall.take().await;
    let detail = patch(&hall, id, r#"{"priority":1}"#).await.problem(409, "conflict");
    assert!(detail.contains("assigned"), "{detail}");
    verb(&hall, id, "run_now").await.problem(409, "conflict");
    hall.word(&held, "outcome", br#"{"outcome":"succeeded"}"#).await;
    for word in ["hold", "release", "run_now"] {
        verb(&hall, id, word).await.problem(409, "conflict");
    }
    patch(&hall, id, r#"{"priority":1}"#).await.problem(409, "conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_held_released_and_run_now() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a","run_at":"2999-01-01T00:00:00Z"}"#).await;
    assert_eq!(verb(&hall, id, "hold").await.json()["hold"].as_bool(), Some(true));
    assert_eq!(verb(&hall, id, "run_now").await.json()["state"].as_str(), Some("queued"));
    let told = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(told["reasons"][0]["code"].as_str(), Some("on_hold"));
    assert_eq!(told["reasons"][0]["text"].as_str(), Some("it is on hold; release it"));
    assert_eq!(verb(&hall, id, "release").await.json()["hold"].as_bool(), Some(false));
    assert_eq!(hall.take().await["job"]["id"].as_u64(), Some(id));
}
