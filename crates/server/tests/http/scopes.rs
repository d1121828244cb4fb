use serde_json::Value;

use crate::server::{Reply, TestServer, read_until};

/// A server with a job in queue `a` and one in `b`, and a client limited to `a`.
async fn two_queues() -> (TestServer, String, u64, u64) {
    let hall = TestServer::start().await;
    let scoped = hall.secret(r#"{"name":"scoped","role":"client","queues":["a","a-*"]}"#).await;
    let near = hall.submit(r#"{"type":"t","queue":"a"}"#).await;
    let far = hall.submit(r#"{"type":"t","queue":"b","key":"k"}"#).await;
    (hall, scoped, near, far)
}

async fn submit(hall: &TestServer, token: &str, body: &str) -> Reply {
    hall.send("POST", "/api/v1/jobs", token, &[], body.as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_other_queues_are_not_there() {
    let (hall, scoped, near, far) = two_queues().await;
    for (method, verb) in [
        ("GET", ""),
        ("GET", "/log"),
        ("GET", "/log?follow=true"),
        ("GET", "/explain"),
        ("GET", "/result"),
        ("GET", "/events"),
        ("POST", "/cancel"),
        ("POST", "/retry"),
    ] {
        let none = hall.send(method, &format!("/api/v1/jobs/999{verb}"), &scoped, &[], b"").await;
        let other = hall.send(method, &format!("/api/v1/jobs/{far}{verb}"), &scoped, &[], b"").await;
        let words = none.problem(404, "not_found").replace("999", &far.to_string());
        assert_eq!(other.problem(404, "not_found"), words, "{method} {verb}: as if it did not exist");
    }
    assert_eq!(hall.state(far).await, "queued");
    let own = hall.send("GET", &format!("/api/v1/jobs/{near}"), &scoped, &[], b"").await;
    assert_eq!(own.status, 200);
    let listed = hall.send("GET", "/api/v1/jobs", &scoped, &[], b"").await.json();
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|job| job["id"].as_u64()).collect();
    assert_eq!(ids, [Some(near)]);
    let listed = hall.send("GET", "/api/v1/jobs?queue=b", &scoped, &[], b"").await.json();
    assert_eq!(listed["items"], Value::Array(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_submits_into_its_queues_alone() {
    let (hall, scoped, ..) = two_queues().await;
    for body in
        [r#"{"type":"t"}"#, r#"{"type":"t","queue":"b"}"#, r#"[{"type":"t","queue":"a"},{"type":"t"}]"#]
    {
        let detail = submit(&hall, &scoped, body).await.problem(403, "forbidden");
        assert!(detail.contains("a, a-*"), "{detail}");
    }
    assert_eq!(submit(&hall, &scoped, r#"{"type":"t","queue":"a-x"}"#).await.status, 201);
    let all = hall.get("/api/v1/jobs").await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 3, "nothing of the refused requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_held_in_another_queue_is_neither_joined_nor_superseded_nor_reused() {
    let (hall, scoped, _, far) = two_queues().await;
    for more in ["", r#","on_duplicate":"supersede""#, r#","on_duplicate":"run_again""#] {
        let body = format!(r#"{{"type":"t","queue":"a","key":"k"{more}}}"#);
        submit(&hall, &scoped, &body).await.problem(409, "key_held");
    }
    let job = hall.get(&format!("/api/v1/jobs/{far}")).await.json();
    assert_eq!((job["state"].as_str(), job["cancel_requested"].as_bool()), (Some("queued"), Some(false)));
    let worker = hall.secret(r#"{"name":"wb","role":"worker","queues":["b"]}"#).await;
    let poll =
        hall.send("POST", "/api/v1/vacancies", &worker, &[], br#"{"slots":1,"wait_s":10}"#).await.json();
    let given = &poll["attempts"][0];
    let (id, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
    let path = format!("/api/v1/attempts/{id}/outcome");
    let outcome = br#"{"outcome":"succeeded","value":"secret"}"#;
    assert_eq!(hall.send("POST", &path, &worker, &[("Jobhall-Lease", lease)], outcome).await.status, 200);
    let body = r#"{"type":"t","queue":"a","key":"k","reuse":{"max_age":"1h"}}"#;
    submit(&hall, &scoped, body).await.problem(409, "key_held");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_other_queues_are_not_told() {
    let (hall, scoped, near, far) = two_queues().await;
    let mut events = hall.open("GET", "/api/v1/events?after=0", &scoped, &[], b"").await;
    let before = read_until(&mut events, &format!(r#"{{"id":{near},"#)).await;
    hall.post(&format!("/api/v1/jobs/{far}/cancel"), "").await;
    hall.post(&format!("/api/v1/jobs/{near}/cancel"), "").await;
    let after = read_until(&mut events, "cancelled").await;
    for text in [before, after] {
        assert!(!text.contains(&format!(r#"{{"id":{far},"#)), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_jobs_of_its_queues_alone_whatever_it_accepts() {
    let (hall, _, near, far) = two_queues().await;
    let worker = hall.secret(r#"{"name":"wa","role":"worker","queues":["a"]}"#).await;
    let poll = async |body: &str| hall.send("POST", "/api/v1/vacancies", &worker, &[], body.as_bytes()).await;
    assert_eq!(poll(r#"{"slots":1,"wait_s":0,"accepts":"queue=b"}"#).await.status, 204);
    let given = poll(r#"{"slots":5,"wait_s":10}"#).await.json();
    let given: Vec<_> =
        given["attempts"].as_array().unwrap().iter().map(|it| it["job"]["id"].as_u64()).collect();
    assert_eq!(given, [Some(near)]);
    assert_eq!(hall.state(far).await, "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_who_its_credential_says_and_ends_no_job_of_another() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"t"}"#).await;
    let given = hall.take().await;
    let other = hall.secret(r#"{"name":"other","role":"worker"}"#).await;
    let path = format!("/api/v1/attempts/{}/outcome", given["id"].as_str().unwrap());
    let lease = [("Jobhall-Lease", given["lease"].as_str().unwrap())];
    let reply = hall.send("POST", &path, &other, &lease, br#"{"outcome":"succeeded"}"#).await;
    reply.problem(409, "lease_lost");
    assert_eq!(hall.state(id).await, "assigned");
}
