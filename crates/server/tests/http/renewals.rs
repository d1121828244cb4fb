use jobhall_server::Role;
use serde_json::{Value, json};

use crate::server::{TestServer, quick, wait_until};

fn renewal(attempts: &[&Value]) -> String {
    let held: Vec<_> =
        attempts.iter().map(|given| json!({"id": given["id"], "lease": given["lease"]})).collect();
    json!({ "attempts": held }).to_string()
}

async fn renew(hall: &TestServer, attempts: &[&Value]) -> Value {
    let reply = hall.work("/api/v1/renewals", &renewal(attempts)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

async fn accepted(hall: &TestServer) -> Value {
    let attempt = hall.take().await;
    assert_eq!(hall.word(&attempt, "accept", b"").await.status, 200);
    attempt
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_lease_lives_and_a_silent_one_is_lost() {
    let hall = TestServer::with(quick()).await;
    let [kept, silent] = [hall.submit(r#"{"type":"a"}"#).await, hall.submit(r#"{"type":"a"}"#).await];
    let (first, _second) = (accepted(&hall).await, accepted(&hall).await);
    // The lease of the first began before that of the second.
    wait_until("the silent lease is lost", async || {
        let answer = renew(&hall, &[&first]).await;
        assert_eq!(answer["kept"], json!([first["id"]]), "{answer}");
        hall.state(silent).await == "retrying"
    })
    .await;
    assert_eq!(hall.state(kept).await, "accepted");
    assert_eq!(hall.word(&first, "outcome", br#"{"outcome":"succeeded"}"#).await.status, 200);
    let answer = renew(&hall, &[&first]).await;
    assert_eq!((&answer["kept"], &answer["lost"]), (&json!([]), &json!([first["id"]])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_worker_with_its_next_word() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = accepted(&hall).await;
    let job = hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await.json();
    assert_eq!((&job["state"], &job["cancel_requested"]), (&"accepted".into(), &true.into()));
    let mut answer = renew(&hall, &[&attempt]).await;
    while answer["cancel"] == json!([]) {
        answer = renew(&hall, &[&attempt]).await;
    }
    assert_eq!((&answer["kept"], &answer["cancel"]), (&json!([attempt["id"]]), &json!([attempt["id"]])));
    let moved = hall.word(&attempt, "progress", b"").await.json();
    assert_eq!(moved["cancel"].as_bool(), Some(true));
    let why = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(why["reasons"][0]["code"].as_str(), Some("cancelling"));
    let ended = hall.word(&attempt, "outcome", br#"{"outcome":"cancelled"}"#).await;
    assert_eq!(ended.json()["state"].as_str(), Some("cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_outlive_a_restart_of_the_hall() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let cancelled = hall.submit(r#"{"type":"a"}"#).await;
    let (first, second) = (accepted(&hall).await, accepted(&hall).await);
    hall.post(&format!("/api/v1/jobs/{cancelled}/cancel"), "").await;
    assert_eq!(hall.word(&first, "log", b"before ").await.status, 200);
    let hall = hall.restart(jobhall_engine::Config::default()).await;
    let forged = json!({"id": first["id"], "lease": "0".repeat(32)});
    let answer = renew(&hall, &[&forged]).await;
    assert_eq!((&answer["kept"], &answer["lost"]), (&json!([]), &json!([first["id"]])));
    let answer = renew(&hall, &[&first, &second]).await;
    assert_eq!((&answer["kept"], &answer["lost"]), (&json!([first["id"], second["id"]]), &json!([])));
    assert_eq!(answer["cancel"], json!([second["id"]]));
    let answer = renew(&hall, &[&first]).await;
    assert_eq!(answer["kept"], json!([first["id"]]), "and again, now with the server's own state");
    assert_eq!(hall.word(&first, "log", b"after").await.json()["len"].as_u64(), Some(12));
    assert_eq!(hall.word(&first, "outcome", br#"{"outcome":"succeeded","value":1}"#).await.status, 200);
    assert_eq!(hall.state(id).await, "succeeded");
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "before after");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_after_a_restart_needs_no_renewal_first() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = accepted(&hall).await;
    let hall = hall.restart(jobhall_engine::Config::default()).await;
    assert_eq!(hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await.status, 200);
    assert_eq!(hall.state(id).await, "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_worker_cannot_renew_what_is_not_its_own() {
    let hall = TestServer::start().await;
    hall.submit(r#"{"type":"a"}"#).await;
    let attempt = accepted(&hall).await;
    let thief = hall.tokens.mint("thief", Role::Worker);
    let body = renewal(&[&attempt]);
    let answer = hall.send("POST", "/api/v1/renewals", &thief, &[], body.as_bytes()).await.json();
    assert_eq!((&answer["kept"], &answer["lost"]), (&json!([]), &json!([attempt["id"]])));
    assert_eq!(renew(&hall, &[&attempt]).await["kept"], json!([attempt["id"]]));
}
