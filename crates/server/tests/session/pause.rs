//! Workers that an administrator pauses, resumes and drains.

use jobhall_engine::Config;
use jobhall_protocol::{Encoding, FEATURE_FINISH, Hello, ToServer, ToWorker, Word};
use serde_json::{Value, json};

use crate::server::{Reply, TestServer, wait_until};
use crate::worker::TestWorker;

/// A process of a worker that exits when it is drained.
fn process(instance: &str) -> Hello {
    let features = vec![FEATURE_FINISH.to_owned()];
    Hello { features, instance: Some(instance.to_owned()), ..Hello::default() }
}

async fn connect(hall: &TestServer, hello: Hello) -> TestWorker {
    let mut worker = TestWorker::connect(hall, Encoding::MessagePack, hello).await;
    worker.say(ToServer::Credit { total: 5 }).await;
    worker
}

async fn change(hall: &TestServer, verb: &str, name: &str) -> Reply {
    hall.send("POST", &format!("/api/v1/workers/{name}/{verb}"), &hall.admin, &[], b"").await
}

/// Whether the one worker is connected, paused and draining.
async fn shown(hall: &TestServer) -> [bool; 3] {
    let workers = hall.workers().await;
    assert_eq!(workers.len(), 1, "{workers:?}");
    ["connected", "paused", "draining"].map(|field| workers[0][field].as_bool().unwrap())
}

async fn told_to_finish(worker: &mut TestWorker) {
    worker.hear(|message| matches!(message, ToWorker::Finish {}).then_some(())).await;
}

async fn reason(hall: &TestServer, token: &str, id: u64) -> Value {
    let path = format!("/api/v1/jobs/{id}/explain");
    hall.send("GET", &path, token, &[], b"").await.json()["reasons"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_worker_gets_nothing_until_it_is_resumed_also_after_a_restart() {
    let hall = TestServer::start().await;
    let mut worker = connect(&hall, Hello::default()).await;
    let first = hall.submit(r#"{"type":"a"}"#).await;
    let running = worker.job().await;
    assert_eq!(running.job.id, first);
    let reply = change(&hall, "pause", "w").await;
    assert_eq!((reply.status, &reply.json()["paused"]), (200, &json!(true)));
    let second = hall.submit(r#"{"type":"a","queue":"mail"}"#).await;
    worker.say(running.passed()).await;
    assert_eq!(worker.moved(running.attempt, Word::Outcome).await, "succeeded", "what it has, it finishes");
    assert!(!worker.so_far().await.iter().any(|message| matches!(message, ToWorker::Assign { .. })));
    let whole = reason(&hall, &hall.client, second).await;
    assert_eq!((&whole["code"], &whole["data"]["paused"]), (&json!("workers_paused"), &json!(["w"])));
    let limited = hall.secret(r#"{"name":"mail","role":"viewer","queues":["mail"]}"#).await;
    let limited = reason(&hall, &limited, second).await;
    assert_eq!(limited["data"], json!({ "paused_count": 1, "draining_count": 0 }));
    assert!(limited["text"].as_str().unwrap().contains("1 worker paused"), "{limited}");
    drop(worker);
    let hall = hall.restart(Config::default()).await;
    assert_eq!(shown(&hall).await, [false, true, false], "known although it is not connected");
    let mut worker = connect(&hall, Hello::default()).await;
    assert_eq!(shown(&hall).await, [true, true, false]);
    assert!(!worker.so_far().await.iter().any(|message| matches!(message, ToWorker::Assign { .. })));
    assert_eq!(change(&hall, "resume", "w").await.json()["paused"], json!(false));
    assert_eq!(worker.job().await.job.id, second);
    let acts = hall.send("GET", "/api/v1/audit", &hall.admin, &[], b"").await.json()["items"].clone();
    for act in ["worker_paused", "worker_resumed"] {
        let noted = |entry: &Value| entry["act"] == act && entry["subject"] == "w";
        assert!(acts.as_array().unwrap().iter().any(noted), "{act}: {acts}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_of_a_drained_worker_learns_it_also_after_a_lost_connection_or_a_restart() {
    let hall = TestServer::start().await;
    let mut worker = connect(&hall, process("7-a")).await;
    assert_eq!(change(&hall, "drain", "w").await.json()["draining"], json!(true));
    told_to_finish(&mut worker).await;
    assert_eq!(shown(&hall).await, [true, false, true]);
    let detail = change(&hall, "resume", "w").await.problem(409, "conflict");
    assert!(detail.contains("start it again"), "{detail}");
    drop(worker);
    wait_until("the end of the connection", async || !shown(&hall).await[0]).await;
    told_to_finish(&mut connect(&hall, process("7-a")).await).await;
    let hall = hall.restart(Config::default()).await;
    let mut worker = connect(&hall, process("7-a")).await;
    told_to_finish(&mut worker).await;
    worker.say(ToServer::Leave {}).await;
    wait_until("its end", async || hall.workers().await.is_empty()).await;
    let mut next = connect(&hall, process("8-b")).await;
    assert_eq!(shown(&hall).await, [true, false, false]);
    let id = hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(next.job().await.job.id, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_of_a_drained_worker_takes_jobs() {
    let hall = TestServer::start().await;
    let worker = connect(&hall, process("7-a")).await;
    change(&hall, "drain", "w").await;
    drop(worker);
    wait_until("the end of the connection", async || !shown(&hall).await[0]).await;
    let mut next = connect(&hall, process("8-b")).await;
    let messages = next.so_far().await;
    assert!(!messages.iter().any(|message| matches!(message, ToWorker::Finish {})), "{messages:?}");
    assert_eq!(shown(&hall).await, [true, false, false]);
    change(&hall, "drain", "w").await;
    drop(next);
    wait_until("the end of the connection", async || !shown(&hall).await[0]).await;
    assert_eq!(change(&hall, "resume", "w").await.status, 200, "it has died and does not drain any more");
    assert_eq!(shown(&hall).await, [false, false, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_drained_is_refused_with_what_to_do() {
    let hall = TestServer::start().await;
    let worker = connect(&hall, Hello { features: Vec::new(), ..process("7-a") }).await;
    let detail = change(&hall, "drain", "w").await.problem(409, "conflict");
    assert!(detail.contains("cannot be drained") && detail.contains("pause it"), "{detail}");
    assert_eq!(shown(&hall).await, [true, false, false]);
    for verb in ["pause", "resume", "drain"] {
        let detail = change(&hall, verb, "x").await.problem(404, "not_found");
        assert!(detail.contains("there is no worker x; known workers: w"), "{detail}");
        change(&hall, verb, "no%20name").await.problem(400, "bad_request");
    }
    drop(worker);
    hall.secret(r#"{"name":"away","role":"worker"}"#).await;
    let detail = change(&hall, "drain", "away").await.problem(409, "conflict");
    assert!(detail.contains("is not connected") && detail.contains("pause it"), "{detail}");
    assert_eq!(change(&hall, "pause", "away").await.json()["connected"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_ends_with_the_token_of_its_worker() {
    let hall = TestServer::start().await;
    let token = hall.token(r#"{"name":"gone","role":"worker"}"#).await;
    change(&hall, "pause", "gone").await;
    assert_eq!(shown(&hall).await, [false, true, false]);
    let id = token["id"].as_str().unwrap();
    let revoked = hall.send("DELETE", &format!("/api/v1/tokens/{id}"), &hall.admin, &[], b"").await;
    assert_eq!(revoked.status, 204);
    wait_until("the end of the pause", async || hall.workers().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_polls_can_be_paused() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.take().await["job"]["id"].as_u64(), Some(id));
    assert_eq!(change(&hall, "pause", "w").await.status, 200);
    hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":0}"#).await.status, 204);
    change(&hall, "resume", "w").await;
    assert_eq!(hall.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":0}"#).await.status, 200);
}
