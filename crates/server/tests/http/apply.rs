//! A worker implemented as a function, with the typed client.

use jobhall_client::{Applied, Client};
use jobhall_protocol::{Outcome, Vacancy};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::server::{TestServer, quick};

fn worker(hall: &TestServer) -> Client {
    Client::new(&format!("http://{}", hall.address), Some(&hall.worker)).unwrap()
}

fn vacancy(wait_s: u64) -> Vacancy {
    Vacancy {
        slots: 7,
        wait_s,
        abilities: "os=linux".to_owned(),
        accepts: "type=add".to_owned(),
        ..Vacancy::default()
    }
}

async fn submit(hall: &TestServer, params: &Value) -> u64 {
    hall.submit(&json!({"type": "add", "params": params, "retry": {"max_attempts": 1}}).to_string()).await
}

async fn shown(hall: &TestServer, id: u64) -> Value {
    hall.get(&format!("/api/v1/jobs/{id}")).await.json()
}

/// Waits forever. Sends a signal when it begins and another when it is dropped.
async fn hang(begun: oneshot::Sender<()>, stopped: oneshot::Sender<()>) -> Result<(), String> {
    begun.send(()).unwrap();
    let _held = stopped;
    std::future::pending().await
}

#[tokio::test(flavor = "multi_thread")]
async fn l20_what_a_function_gives_is_the_result_and_what_it_throws_the_failure() {
    let hall = TestServer::start().await;
    let client = worker(&hall);
    let other = hall.submit(r#"{"type":"other"}"#).await;
    let ids = [submit(&hall, &json!([1, 2])).await, submit(&hall, &json!("x")).await];
    let add = |given: jobhall_protocol::Assigned| async move {
        let terms: Vec<i64> = serde_json::from_str(given.job.params.get())?;
        Ok::<_, serde_json::Error>(terms.iter().sum::<i64>())
    };
    let first = client.apply(&vacancy(10), add).await.unwrap();
    let Applied::Ended { attempt, outcome: Outcome::Succeeded, state } = first else { panic!("{first:?}") };
    assert_eq!((attempt.split('-').next(), state.as_str()), (Some(ids[0].to_string().as_str()), "succeeded"));
    assert_eq!(shown(&hall, ids[0]).await["result"], json!(3));
    assert_eq!(hall.state(ids[1]).await, "queued", "one job per call, regardless of the slots");

    let second = client.apply(&vacancy(10), add).await.unwrap();
    let Applied::Ended { outcome: Outcome::Failed, state, .. } = second else { panic!("{second:?}") };
    assert_eq!(state, "failed");
    let error = shown(&hall, ids[1]).await["error"].clone();
    assert_eq!(error["reason"], "error");
    assert_eq!(error["explanation"], "invalid type: string \"x\", expected a sequence at line 1 column 3");
    assert_eq!(client.apply(&vacancy(0), add).await.unwrap(), Applied::Idle);
    assert_eq!(hall.state(other).await, "queued");
}

#[derive(Debug)]
struct Outer(std::io::Error);

impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no mail was sent")
    }
}

impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l20_sources_panics_and_results_too_large_are_told() {
    let hall = TestServer::start().await;
    let client = worker(&hall);
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(submit(&hall, &json!(null)).await);
    }
    let sourced = |_| async { Err::<(), _>(Outer(std::io::Error::other("the disk is full"))) };
    client.apply(&vacancy(10), sourced).await.unwrap();
    client
        .apply(&vacancy(10), |_| async { Err::<(), _>(format!("zero \0 {}", "é".repeat(9_000))) })
        .await
        .unwrap();
    let no = || -> Result<(), String> { panic!("no such {}", "thing") };
    client.apply(&vacancy(10), move |_| async move { no() }).await.unwrap();
    let at_once = |_| -> std::future::Ready<Result<(), String>> { panic!("before it waits") };
    client.apply(&vacancy(10), at_once).await.unwrap();
    let large = client.apply(&vacancy(10), |_| async { Ok::<_, String>("x".repeat(300_000)) }).await.unwrap();
    assert!(
        matches!(&large, Applied::Ended { outcome: Outcome::Failed, state, .. } if state == "failed"),
        "{large:?}"
    );
    let mut errors = Vec::new();
    for id in ids {
        let error = shown(&hall, id).await["error"].clone();
        let text = |field: &str| error[field].as_str().unwrap().to_owned();
        errors.push((text("reason"), text("explanation")));
    }
    let told = |n: usize| (errors[n].0.as_str(), errors[n].1.as_str());
    assert_eq!(told(0), ("error", "no mail was sent: the disk is full"));
    assert!(told(1).1.starts_with("zero \u{fffd} éé") && told(1).1.len() == 16_383, "{}", told(1).1.len());
    assert_eq!(told(2), ("panic", "no such thing"));
    assert_eq!(told(3), ("panic", "before it waits"));
    assert!(told(4).0 == "result" && told(4).1.contains("262144"), "{:?}", told(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_kept_while_a_function_runs_and_a_cancel_stops_it() {
    let hall = TestServer::with(quick()).await;
    let client = worker(&hall);
    let [kept, cancelled] = [submit(&hall, &json!(1)).await, submit(&hall, &json!(2)).await];
    let (lost, is_lost) = oneshot::channel();
    let slow = |_| async {
        is_lost.await.unwrap();
        Ok::<_, String>("done")
    };
    let (begun, has_begun) = oneshot::channel();
    let (stopped, is_stopped) = oneshot::channel();
    let (vacancy, second) = (vacancy(10), worker(&hall));
    let first = client.apply(&vacancy, slow);
    let second = async {
        hall.until(kept, "running").await;
        second.apply(&vacancy, move |_| hang(begun, stopped)).await
    };
    let cancel = async {
        has_begun.await.unwrap();
        hall.post(&format!("/api/v1/jobs/{cancelled}/cancel"), "").await;
        is_stopped.await.unwrap_err();
    };
    // A lease that began later than that of the function and is not renewed.
    let silent = async {
        hall.until(kept, "running").await;
        let id = hall.submit(r#"{"type":"silent"}"#).await;
        let reply = hall.work("/api/v1/vacancies", r#"{"slots":1,"accepts":"type=silent"}"#).await;
        let attempt = &reply.json()["attempts"][0];
        assert_eq!(hall.word(attempt, "accept", b"").await.status, 200);
        hall.until(id, "retrying").await;
        lost.send(()).unwrap();
    };
    let (first, second, (), ()) = tokio::join!(first, second, cancel, silent);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(matches!(&first, Applied::Ended { state, .. } if state == "succeeded"), "{first:?}");
    assert!(matches!(&second, Applied::Ended { outcome: Outcome::Cancelled, .. }), "{second:?}");
    let kept = shown(&hall, kept).await;
    assert_eq!((&kept["attempt"], kept["started_at"].is_string()), (&json!(1), true), "{kept}");
    assert_eq!(hall.state(cancelled).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_is_stopped_when_its_lease_cannot_be_kept_or_nobody_waits_for_it() {
    let mut hall = TestServer::with(quick()).await;
    let client = worker(&hall);
    submit(&hall, &json!(1)).await;
    submit(&hall, &json!(2)).await;
    let [(begun, has_begun), (begun_2, has_begun_2)] = [oneshot::channel(), oneshot::channel()];
    let [(stopped, is_stopped), (stopped_2, is_stopped_2)] = [oneshot::channel(), oneshot::channel()];
    let dropped = tokio::spawn({
        let client = client.clone();
        async move { client.apply(&vacancy(10), move |_| hang(begun, stopped)).await }
    });
    has_begun.await.unwrap();
    dropped.abort();
    is_stopped.await.unwrap_err();

    let vacancy = vacancy(10);
    let lost = client.apply(&vacancy, move |_| hang(begun_2, stopped_2));
    let close = async {
        has_begun_2.await.unwrap();
        hall.running.take().unwrap().stop().await;
        is_stopped_2.await.unwrap_err();
    };
    let (lost, ()) = tokio::join!(lost, close);
    assert!(matches!(lost, Ok(Applied::Lost { .. })), "{lost:?}");
}
