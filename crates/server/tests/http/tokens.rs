use jobhall_engine::Config;
use jobhall_store::{SettingWrite, Unit};

use crate::server::{Reply, TestServer, read_until};

async fn admin(hall: &TestServer, method: &str, path: &str, body: &str) -> Reply {
    hall.send(method, path, &hall.admin, &[], body.as_bytes()).await
}

async fn join(hall: &TestServer, token: &str, name: &str) -> Reply {
    hall.send("POST", "/api/v1/join", token, &[], format!(r#"{{"name":"{name}"}}"#).as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_told_once_listed_without_its_secret_and_good_until_it_is_revoked() {
    let hall = TestServer::start().await;
    let made = hall.token(r#"{"name":"ci","role":"client","queues":["ci-*"],"expires_in":"1h"}"#).await;
    let (secret, id) = (made["secret"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert!(secret.starts_with(&format!("jh_{id}_")));
    assert_eq!(hall.send("GET", "/api/v1/jobs", secret, &[], b"").await.status, 200);
    let listed = admin(&hall, "GET", "/api/v1/tokens", "").await;
    let items = listed.json()["items"].clone();
    assert_eq!((items[0]["name"].as_str(), items[0]["role"].as_str()), (Some("ci"), Some("client")));
    assert_eq!(items[0]["queues"][0], "ci-*");
    assert!(items[0]["expires_at"].is_string() && items[0]["secret"].is_null());
    assert!(!listed.text().contains(&secret[20..]), "the secret is returned once");
    let again = admin(&hall, "POST", "/api/v1/tokens", r#"{"name":"ci","role":"viewer"}"#).await;
    again.problem(409, "conflict");
    assert_eq!(admin(&hall, "DELETE", &format!("/api/v1/tokens/{id}"), "").await.status, 204);
    hall.send("GET", "/api/v1/jobs", secret, &[], b"").await.problem(401, "unauthorized");
    admin(&hall, "DELETE", &format!("/api/v1/tokens/{id}"), "").await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_outlive_a_restart_and_those_of_the_process_do_not() {
    let hall = TestServer::start().await;
    let (kept, own) = (hall.secret(r#"{"name":"kept","role":"viewer"}"#).await, hall.viewer.clone());
    let hall = hall.restart(Config::default()).await;
    assert_eq!(hall.send("GET", "/api/v1/jobs", &kept, &[], b"").await.status, 200);
    hall.send("GET", "/api/v1/jobs", &own, &[], b"").await.problem(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_wishes_name_the_field() {
    let hall = TestServer::start().await;
    for (body, words) in [
        (r#"{"role":"viewer"}"#, "name"),
        (r#"{"name":"a b","role":"viewer"}"#, "name"),
        (r#"{"name":"a","role":"king"}"#, "king"),
        (r#"{"name":"a","role":"viewer","queues":["a b"]}"#, "queue"),
        (r#"{"name":"a","role":"viewer","expires_in":"0s"}"#, "expires_in"),
        (r#"{"name":"a","role":"worker","kind":"join","expires_in":"2h"}"#, "expires_in"),
        (r#"{"name":"a","role":"admin","kind":"join"}"#, "join"),
        (r#"{"name":"a","role":"viewer","colour":"red"}"#, "colour"),
    ] {
        let detail = admin(&hall, "POST", "/api/v1/tokens", body).await.problem(400, "bad_request");
        assert!(detail.contains(words), "{body}: {detail}");
    }
    let taken = admin(&hall, "POST", "/api/v1/tokens", r#"{"name":"admin","role":"viewer"}"#).await;
    taken.problem(409, "conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_token_makes_one_worker_and_no_second() {
    let hall = TestServer::start().await;
    let token = hall.secret(r#"{"role":"worker","kind":"join","queues":["q"]}"#).await;
    let made = join(&hall, &token, "gpu-1").await.json();
    let credential = made["secret"].as_str().unwrap();
    assert_eq!((made["name"].as_str(), made["role"].as_str()), (Some("gpu-1"), Some("worker")));
    assert_eq!(made["queues"][0], "q", "with the scope of the join token");
    join(&hall, &token, "gpu-2").await.problem(401, "unauthorized");
    let poll = br#"{"slots":1,"wait_s":0}"#;
    assert_eq!(hall.send("POST", "/api/v1/vacancies", credential, &[], poll).await.status, 204);
    join(&hall, credential, "gpu-3").await.problem(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_name_does_not_use_a_join_token_up() {
    let hall = TestServer::start().await;
    let token = hall.secret(r#"{"role":"worker","kind":"join"}"#).await;
    hall.secret(r#"{"name":"gpu-1","role":"worker"}"#).await;
    join(&hall, &token, "gpu-1").await.problem(409, "conflict");
    join(&hall, &token, "no good name").await.problem(400, "bad_request");
    assert_eq!(join(&hall, &token, "gpu-2").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_join_at_once_with_one_token_one_gets_in() {
    let hall = TestServer::start().await;
    let token = hall.secret(r#"{"role":"worker","kind":"join"}"#).await;
    let names: Vec<_> = (0..16).map(|n| format!("w{n}")).collect();
    let joins = names.iter().map(|name| join(&hall, &token, name));
    let replies = futures_util::future::join_all(joins).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 1);
    // The limit of invalid tokens may be reached by then.
    assert!(replies.iter().all(|reply| [200, 401, 429].contains(&reply.status)));
    let listed = admin(&hall, "GET", "/api/v1/tokens", "").await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_under_a_token_ends_when_it_is_revoked() {
    let hall = TestServer::start().await;
    let viewer = hall.token(r#"{"name":"v2","role":"viewer"}"#).await;
    let worker = hall.token(r#"{"name":"w2","role":"worker"}"#).await;
    let secret = |made: &serde_json::Value| made["secret"].as_str().unwrap().to_owned();
    let mut events = hall.open("GET", "/api/v1/events", &secret(&viewer), &[], b"").await;
    read_until(&mut events, "retry:").await;
    let body = br#"{"slots":1,"wait_s":60}"#;
    let mut poll = hall.open("POST", "/api/v1/vacancies", &secret(&worker), &[], body).await;
    hall.until_offered("w2", 1).await;
    for made in [viewer, worker] {
        let path = format!("/api/v1/tokens/{}", made["id"].as_str().unwrap());
        assert_eq!(admin(&hall, "DELETE", &path, "").await.status, 204);
    }
    read_until(&mut events, "0\r\n\r\n").await;
    let said = read_until(&mut poll, "revoked").await;
    assert!(said.starts_with("HTTP/1.1 401"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_node_revokes_is_good_no_more_here() {
    let hall = TestServer::start().await;
    let secret = hall.secret(r#"{"name":"ci","role":"viewer"}"#).await;
    let mut events = hall.open("GET", "/api/v1/events", &secret, &[], b"").await;
    read_until(&mut events, "retry:").await;
    let stored = hall.store.settings(None).await.unwrap();
    let stored = stored.into_iter().find(|setting| setting.name == "ci").unwrap();
    let (kind, name, expected) = (stored.kind, stored.name, stored.rev);
    let settings = vec![SettingWrite { kind, name, expected, value: None }];
    let unit = Unit { settings, ..Unit::default() };
    assert!(hall.store.commit(vec![unit]).await.unwrap().results[0].is_ok());
    read_until(&mut events, "0\r\n\r\n").await;
    hall.send("GET", "/api/v1/jobs", &secret, &[], b"").await.problem(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_wrong_tokens_a_minute_and_a_right_one_always_passes() {
    let hall = TestServer::start().await;
    let wrong = format!("jh_{}_{}", "0".repeat(16), "0".repeat(64));
    for n in 0..10 {
        let forwarded = format!("10.0.0.{n}");
        let reply = hall.send("GET", "/api/v1/jobs", &wrong, &[("X-Forwarded-For", &forwarded)], b"").await;
        reply.problem(401, "unauthorized");
    }
    let reply = hall.send("GET", "/api/v1/jobs", &wrong, &[("X-Forwarded-For", "10.9.9.9")], b"").await;
    reply.problem(429, "too_many_requests");
    let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait));
    assert_eq!(hall.get("/api/v1/jobs").await.status, 200);
    hall.send("GET", "/api/v1/jobs", "", &[], b"").await.problem(401, "unauthorized");
}
