//! Resources that jobs use on their workers, with requests only.

use serde_json::{Value, json};

use crate::server::TestServer;

async fn poll(hall: &TestServer, slots: u32) -> Vec<Value> {
    let body = json!({"slots": slots, "wait_s": 0, "abilities": "gpu=2, os=linux"}).to_string();
    let reply = hall.work("/api/v1/vacancies", &body).await;
    match reply.status {
        204 => Vec::new(),
        200 => reply.json()["attempts"].as_array().unwrap().clone(),
        _ => panic!("{reply:?}"),
    }
}

async fn uses(hall: &TestServer) -> Value {
    let workers = hall.get("/api/v1/workers").await.json();
    workers["items"][0]["uses"].clone()
}

async fn reason(hall: &TestServer, id: u64) -> (String, String) {
    let explanation = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    let reason = &explanation["reasons"][0];
    (reason["code"].as_str().unwrap().to_owned(), reason["text"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_polls_never_has_more_than_its_abilities() {
    let hall = TestServer::start().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(hall.submit(r#"{"type":"a","uses":"gpu = 1.0","avoid":true}"#).await);
    }
    let job = hall.get(&format!("/api/v1/jobs/{}", ids[0])).await.json();
    assert_eq!((&job["uses"], &job["avoid"]), (&"gpu=1".into(), &true.into()));
    let first = poll(&hall, 1).await;
    assert_eq!(uses(&hall).await, "gpu=1");
    let second = poll(&hall, 5).await;
    assert_eq!((first.len(), second.len()), (1, 1), "each poll is a session, but the worker is one");
    assert_eq!(uses(&hall).await, "gpu=2");
    assert!(poll(&hall, 5).await.is_empty());
    for attempt in first.iter().chain(&second) {
        assert_eq!(hall.word(attempt, "outcome", br#"{"outcome":"succeeded"}"#).await.status, 200);
    }
    let third = poll(&hall, 5).await;
    assert_eq!(third[0]["job"]["id"].as_u64(), Some(ids[2]));
    hall.word(&third[0], "accept", b"").await;
    let waiting = hall.submit(r#"{"type":"a","uses":"gpu=2"}"#).await;
    let (code, text) = reason(&hall, waiting).await;
    assert_eq!(code, "used_up");
    assert!(text.contains(&format!("worker w: gpu=2: 1 of 2 left; used by jobs {}", ids[2])), "{text}");
    let large = hall.submit(r#"{"type":"a","uses":"gpu=3"}"#).await;
    let (code, text) = reason(&hall, large).await;
    assert_eq!(code, "too_large");
    assert!(text.contains("gpu=3: the largest worker, w, has gpu=2"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_uses_are_refused_with_their_place() {
    let hall = TestServer::start().await;
    for (uses, said) in [
        ("gpu", "uses: expected \"=\" and an amount after \"gpu\" at column 4; did you mean \"gpu=1\"?"),
        ("mem=8GB", "at column 5; did you mean \"mem_gb=8\"?"),
        ("gpu=0", "uses: amount 0 is not a number from 0.001"),
        ("gpu=1, gpu=2", "uses: resource \"gpu\" is given a second time at column 8"),
    ] {
        let reply = hall.post("/api/v1/jobs", &json!({"type": "a", "uses": uses}).to_string()).await;
        let detail = reply.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert_eq!(reply.status, 400, "{uses}");
        assert!(detail.contains(said), "{uses}: {detail}");
    }
    let none = hall.get("/api/v1/jobs").await.json();
    assert_eq!(none["items"], json!([]), "nothing was written");
}
