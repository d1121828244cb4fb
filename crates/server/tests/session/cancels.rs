//! Cancels and revocations, and messages that cross with them.

use jobhall_protocol::{Hello, Outcome, ToServer, ToWorker, Word};
use tokio::io::AsyncReadExt;

use crate::server::{Reply, TestServer, quick};
use crate::worker::{Job, TestWorker};

async fn cancelled(worker: &mut TestWorker, job: &Job) {
    let about = job.attempt;
    worker
        .hear(|message| {
            matches!(message, ToWorker::Cancel { attempt, .. } if *attempt == about).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn q09_a_cancel_is_told_at_once_and_its_confirmation_ends_the_job() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    worker.say(job.accept()).await;
    assert_eq!(hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await.status, 200);
    cancelled(&mut worker, &job).await;
    worker.say(job.outcome(Outcome::Cancelled)).await;
    assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_crosses_with_an_outcome_leaves_one_end() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 40).await;
    for n in 0..40 {
        let id = hall.submit(r#"{"type":"a"}"#).await;
        let job = worker.job().await;
        let path = format!("/api/v1/jobs/{id}/cancel");
        let cancel = hall.open("POST", &path, &hall.client, &[], b"");
        // Both are sent before either is answered, in both orders.
        let mut cancel = if n % 2 == 0 {
            let cancel = cancel.await;
            worker.say(job.passed()).await;
            cancel
        } else {
            worker.say(job.passed()).await;
            cancel.await
        };
        let mut answer = Vec::new();
        cancel.read_to_end(&mut answer).await.unwrap();
        let cancel = Reply::parse(&answer);
        let state = worker.moved(job.attempt, Word::Outcome).await;
        assert_eq!(hall.state(id).await, state);
        match (cancel.status, state.as_str()) {
            (200, "cancelled") | (409, "succeeded") => {}
            (status, state) => panic!("a cancel that answers {status} and a job that is {state}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_nobody_was_there_to_hear_waits_for_the_worker() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    worker.say(job.accept()).await;
    hall.until(id, "accepted").await;
    drop(worker);
    assert_eq!(hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await.status, 200);
    let hello = Hello { attempts: vec![job.held()], ..Hello::default() };
    let mut worker = TestWorker::connect(&hall, jobhall_protocol::Encoding::Json, hello).await;
    assert_eq!(worker.session.welcome.kept, [job.attempt]);
    cancelled(&mut worker, &job).await;
    worker.say(job.outcome(Outcome::Cancelled)).await;
    assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn q05_what_is_not_accepted_in_time_is_revoked_and_goes_to_another() {
    let hall = TestServer::with(quick()).await;
    let mut slow = TestWorker::ready(&hall, 1).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = slow.job().await;
    let mut other = TestWorker::ready(&hall, 1).await;
    let about = job.attempt;
    slow.hear(|message| matches!(message, ToWorker::Revoke { attempt } if *attempt == about).then_some(()))
        .await;
    let again = other.job().await;
    assert_eq!((again.job.id, again.job.attempt, again.attempt == job.attempt), (id, 1, false));
    slow.session.send(&[job.accept(), job.passed(), ToServer::Ping { n: 1 }]).await.unwrap();
    assert_eq!(slow.refused(Word::Accept).await.0, "lease_lost");
    assert_eq!(slow.refused(Word::Outcome).await.0, "lease_lost");
    other.say(again.passed()).await;
    assert_eq!(other.moved(again.attempt, Word::Outcome).await, "succeeded");
}
