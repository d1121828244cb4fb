//! Timeouts of jobs and of types.

use jobhall_engine::Config;
use serde_json::json;

use crate::server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn h12_an_attempt_that_takes_too_long_is_told_to_stop_and_times_out() {
    let hall = TestServer::with(Config { force_ms: 100, ..Config::default() }).await;
    let id = hall.submit(r#"{"type":"t","timeouts":{"total":"50ms"},"retry":{"max_attempts":1}}"#).await;
    let given = hall.take().await;
    hall.word(&given, "accept", b"").await;
    hall.until(id, "crashed").await;
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(
        (&job["attempts"][0]["outcome"], &job["error"]["reason"]),
        (&json!("timed_out"), &json!("timed_out"))
    );
    assert_eq!(job["timeouts"], json!({"total": "50ms"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_a_worker_that_polls_hears_of_a_time_out_with_its_renewal() {
    let hall = TestServer::start().await;
    let id = hall
        .submit(r#"{"type":"t","timeouts":{"silence":"50ms"},"retry":{"max_attempts":2,"delay":"1h"}}"#)
        .await;
    let given = hall.take().await;
    hall.word(&given, "accept", b"").await;
    let renewal = json!({"attempts": [{"id": given["id"], "lease": given["lease"]}]}).to_string();
    let told = async {
        while hall.work("/api/v1/renewals", &renewal).await.json()["cancel"] != json!([given["id"]]) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), told)
        .await
        .expect("it receives the order to stop");
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&job["timing_out"], &job["cancel_requested"]), (&json!(true), &json!(false)));
    let explained = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(explained["reasons"][0]["code"], "timing_out");
    hall.word(&given, "outcome", br#"{"outcome":"cancelled"}"#).await;
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&job["state"], &job["attempts"][0]["outcome"]), (&json!("retrying"), &json!("timed_out")));
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_types_say_how_long_and_fields_are_set_one_by_one() {
    let hall = TestServer::start().await;
    let set = async |body: &str| hall.send("PUT", "/api/v1/types/t", &hall.admin, &[], body.as_bytes()).await;
    let first = set(r#"{"timeouts":{"total":"2h","silence":"5m"},"expected_ms":1}"#).await.json();
    assert_eq!(
        (&first["timeouts"], &first["external"]),
        (&json!({"total": "2h", "silence": "5m"}), &json!(false))
    );
    let second = set(r#"{"timeouts":{"silence":null},"external":true}"#).await.json();
    assert_eq!((&second["timeouts"], &second["expected_ms"]), (&json!({"total": "2h"}), &json!(1)));
    for (body, word) in [
        (r#"{"timeouts":{"total":"0s"}}"#, "total_ms of 0 is outside 1 to"),
        (r#"{"timeouts":{"silence":"400d"}}"#, "silence_ms of 34560000000 is outside 1 to"),
        (r#"{"timeouts":{"totl":"1s"}}"#, "unknown field `totl`"),
        (r#"{"timeouts":{"total":"soon"}}"#, "not a span of time"),
        (r#"{"expected_ms":99999999999999}"#, "expected_ms of 99999999999999 is outside"),
    ] {
        let detail = set(body).await.problem(400, "bad_request");
        assert!(detail.contains(word), "{detail} does not contain {word}");
    }
    set(r#"{"external":false}"#).await;
    let id = hall.submit(r#"{"type":"t"}"#).await;
    let given = hall.take().await;
    hall.word(&given, "accept", b"").await;
    let marked = async {
        while hall.get(&format!("/api/v1/jobs/{id}")).await.json()["longer_than_expected"] != json!(true) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), marked)
        .await
        .expect("it takes longer than 1 ms");
    let explained = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(explained["reasons"][1]["code"], "longer_than_expected");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_measures_of_progress_stand_side_by_side() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"t"}"#).await;
    let given = hall.take().await;
    let first = br#"{"indicators":[{"name":"a","step":1,"total":4,"message":"one"},{"name":"b","step":2}]}"#;
    hall.word(&given, "progress", first).await;
    hall.word(&given, "progress", br#"{"indicators":[{"name":"a","step":3,"total":4}]}"#).await;
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    let expected =
        json!([{"name": "a", "step": 3, "total": 4, "message": ""}, {"name": "b", "step": 2, "message": ""}]);
    assert_eq!(job["progress"], expected);
}
