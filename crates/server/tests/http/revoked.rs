//! What ends with the token of a worker: sessions, leases, the tokens of its jobs, long polls and waits.

use jobhall_engine::Config;
use jobhall_server::{Listen, Running};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::followers::{leadership, node, to};
use crate::server::{Reply, TestServer, read_until, wait_until};

/// A hall whose leases do not end during a test.
async fn hall() -> TestServer {
    TestServer::with(Config { lease_ms: 3_600_000, ..Config::default() }).await
}

/// A worker of its own token that runs a job, whose process waits for a sub-job, and that waits for another job.
struct Busy {
    token: Value,
    job: u64,
    given: Value,
    poll: TcpStream,
    wait: TcpStream,
}

type Headers<'a> = &'a [(&'a str, &'a str)];

async fn take(hall: &TestServer, token: &str, named: Headers<'_>) -> Value {
    let reply = hall.send("POST", "/api/v1/vacancies", token, named, br#"{"slots":1,"wait_s":30}"#).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["attempts"][0].clone()
}

async fn busy(hall: &TestServer, token: Value) -> Busy {
    let name = token["name"].as_str().unwrap().to_owned();
    busy_as(hall, token, &name, &[]).await
}

/// The same for a worker of this name, which the headers give.
async fn busy_as(hall: &TestServer, token: Value, name: &str, named: Headers<'_>) -> Busy {
    let secret = token["secret"].as_str().unwrap();
    let job = hall.submit(r#"{"type":"p","queue":"q"}"#).await;
    let given = take(hall, secret, named).await;
    let lease: Vec<_> = [("Jobhall-Lease", given["lease"].as_str().unwrap())]
        .into_iter()
        .chain(named.iter().copied())
        .collect();
    let path = |verb: &str| format!("/api/v1/attempts/{}/{verb}", given["id"].as_str().unwrap());
    assert_eq!(hall.send("POST", &path("accept"), secret, &lease, b"").await.status, 200);
    let of_job = given["token"].as_str().unwrap();
    let body = json!({"call": "c", "job": {"type": "c", "needs": "never"}}).to_string();
    assert_eq!(hall.send("POST", &path("jobs"), of_job, &[], body.as_bytes()).await.status, 201);
    let wait = hall.open("POST", &path("wait"), of_job, &[], br#"{"wait_s":60}"#).await;
    hall.until(job, "waiting").await;
    let body = br#"{"slots":1,"wait_s":60,"accepts":"type=other"}"#;
    let poll = hall.open("POST", "/api/v1/vacancies", secret, named, body).await;
    hall.until_offered(name, 1).await;
    Busy { job, given, poll, wait, token }
}

async fn as_job(hall: &TestServer, busy: &Busy, method: &str, path: &str) -> Reply {
    hall.send(method, path, busy.given["token"].as_str().unwrap(), &[], b"").await
}

/// Checks that nothing of the worker is left, although its leases have not expired.
async fn until_ended(hall: &TestServer, mut busy: Busy) {
    let said = read_until(&mut busy.wait, "lease_lost").await;
    assert!(said.starts_with("HTTP/1.1 409"), "{said}");
    let said = read_until(&mut busy.poll, "revoked").await;
    assert!(said.starts_with("HTTP/1.1 401"), "{said}");
    hall.until(busy.job, "retrying").await;
    let path = format!("/api/v1/jobs/{}", busy.job);
    as_job(hall, &busy, "GET", &path).await.problem(401, "unauthorized");
    let attempt = format!("/api/v1/attempts/{}", busy.given["id"].as_str().unwrap());
    for verb in ["jobs", "wait", "progress"] {
        let reply = as_job(hall, &busy, "POST", &format!("{attempt}/{verb}")).await;
        reply.problem(401, "unauthorized");
    }
}

async fn revoke(hall: &TestServer, token: &Value) {
    let path = format!("/api/v1/tokens/{}", token["id"].as_str().unwrap());
    assert_eq!(hall.send("DELETE", &path, &hall.admin, &[], b"").await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l7_leases_and_job_tokens_end_with_the_token_of_the_worker() {
    let hall = hall().await;
    let token = hall.token(r#"{"name":"gone","role":"worker"}"#).await;
    let busy = busy(&hall, token).await;
    let other = hall.submit(r#"{"type":"other-worker"}"#).await;
    let kept = hall.take().await;
    assert_eq!(kept["job"]["id"], other);
    revoke(&hall, &busy.token).await;
    let path = format!("/api/v1/attempts/{}/outcome", busy.given["id"].as_str().unwrap());
    let lease = [("Jobhall-Lease", busy.given["lease"].as_str().unwrap())];
    let secret = busy.token["secret"].as_str().unwrap();
    hall.send("POST", &path, secret, &lease, br#"{"outcome":"succeeded"}"#)
        .await
        .problem(401, "unauthorized");
    until_ended(&hall, busy).await;
    let only = async || hall.workers().await.iter().all(|worker| worker["name"] == "w");
    wait_until("only the other worker is listed", only).await;
    assert_eq!(hall.word(&kept, "accept", b"").await.status, 200, "another worker keeps its leases");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l7_they_end_when_the_token_expires() {
    let hall = hall().await;
    let token = hall.token(r#"{"name":"brief","role":"worker","expires_in":"2s"}"#).await;
    let job = hall.submit(r#"{"type":"p"}"#).await;
    let given = take(&hall, token["secret"].as_str().unwrap(), &[]).await;
    let path = format!("/api/v1/jobs/{job}");
    let of_job = given["token"].as_str().unwrap();
    wait_until("the token of the job is invalid", async || {
        hall.send("GET", &path, of_job, &[], b"").await.status == 401
    })
    .await;
    hall.until(job, "queued").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l7_they_end_for_a_worker_that_an_administrator_named() {
    let hall = hall().await;
    let token = hall.token(r#"{"name":"second","role":"admin"}"#).await;
    let busy = busy_as(&hall, token, "w9", &[("Jobhall-Worker", "w9")]).await;
    revoke(&hall, &busy.token).await;
    until_ended(&hall, busy).await;
    hall.until_no_worker().await;
}

/// A leader, and a follower to which all requests go.
async fn with_follower(hall: &mut TestServer) -> (Running, Running) {
    let (leader, follower) = (node(Listen::default()).await, node(Listen::default()).await);
    leader.open(leadership(hall)).await;
    follower.forward(to(leader.address)).await.unwrap();
    hall.address = follower.address.to_string();
    (leader, follower)
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l7_they_end_through_a_follower() {
    let mut hall = hall().await;
    let _nodes = with_follower(&mut hall).await;
    let token = hall.token(r#"{"name":"gone","role":"worker"}"#).await;
    let busy = busy(&hall, token).await;
    revoke(&hall, &busy.token).await;
    until_ended(&hall, busy).await;
    hall.until_no_worker().await;
}
