//! Broken connections, stopped servers and revoked tokens: what is kept, and what is lost.

use std::time::Duration;

use jobhall_core::LeaseId;
use jobhall_engine::Config;
use jobhall_protocol::{
    AttemptRef, Encoding, Hello, Outcome, OutcomeReport, RetryVerdict, Span, ToServer, ToWorker, Word,
};
use jobhall_server::Role;

use crate::server::{TestServer, quick, wait_until};
use crate::worker::{Job, TestWorker, report};

async fn accepted(hall: &TestServer, worker: &mut TestWorker) -> (u64, Job) {
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    worker.say(job.accept()).await;
    hall.until(id, "accepted").await;
    (id, job)
}

fn with(attempts: Vec<AttemptRef>) -> Hello {
    Hello { attempts, ..Hello::default() }
}

/// Leases that do not end during a test.
fn endless() -> Config {
    Config { lease_ms: 3_600_000, ..Config::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_back_is_told_what_is_kept_and_what_is_lost() {
    for encoding in Encoding::ALL {
        let hall = TestServer::start().await;
        let mut worker = TestWorker::ready(&hall, 2).await;
        let (id, job) = accepted(&hall, &mut worker).await;
        let (_, done) = accepted(&hall, &mut worker).await;
        worker.say(done.passed()).await;
        worker.moved(done.attempt, Word::Outcome).await;
        drop(worker);
        let wrong = AttemptRef { attempt: job.attempt, lease: LeaseId(job.lease.0 ^ 1) };
        let unknown = AttemptRef { attempt: "9999-1".parse().unwrap(), lease: LeaseId(1) };
        let mut worker =
            TestWorker::connect(&hall, encoding, with(vec![job.held(), done.held(), unknown])).await;
        assert_eq!(worker.session.welcome.kept, [job.attempt]);
        assert_eq!(worker.session.welcome.lost, [done.attempt, unknown.attempt]);
        let other = TestWorker::connect(&hall, encoding, with(vec![wrong])).await;
        assert_eq!(other.session.welcome.lost, [job.attempt], "a lease that is not the current one");
        worker.say(job.passed()).await;
        assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "succeeded");
        assert_eq!(hall.state(id).await, "succeeded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hall_that_stops_says_so_and_leases_live_on_in_the_next_one() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 5).await;
    let (id, job) = accepted(&hall, &mut worker).await;
    let hall = hall.restart(Config::default()).await;
    let end = worker.end().await;
    assert!(end.contains("the server is stopping (1001)"), "{end}");
    worker.hear(|message| matches!(message, ToWorker::Drain {}).then_some(())).await;
    let mut worker = TestWorker::connect(&hall, Encoding::MessagePack, with(vec![job.held()])).await;
    assert_eq!(worker.session.welcome.kept, [job.attempt]);
    worker.say(job.passed()).await;
    assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "succeeded");
    let shown = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1, "no second attempt was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_whose_answer_was_lost_is_answered_again_as_at_first() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let (id, job) = accepted(&hall, &mut worker).await;
    worker.say(job.passed()).await;
    drop(worker);
    hall.until(id, "succeeded").await;
    let mut worker = TestWorker::connect(&hall, Encoding::MessagePack, with(vec![job.held()])).await;
    assert_eq!(worker.session.welcome.lost, [job.attempt], "it has ended");
    worker.say(job.passed()).await;
    assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_assigned_to_a_connection_that_broke_and_its_lease_ends_in_time() {
    let hall = TestServer::with(quick()).await;
    let mut worker = TestWorker::ready(&hall, 5).await;
    let (id, _job) = accepted(&hall, &mut worker).await;
    drop(worker);
    wait_until("w is gone", async || hall.workers().await.iter().all(|one| one["name"] != "w")).await;
    let second = hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.state(second).await, "queued");
    assert_eq!(hall.state(id).await, "accepted", "the lease outlives the connection");
    hall.until(id, "retrying").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_leaves_gives_back_what_it_had_at_once() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let (id, job) = accepted(&hall, &mut worker).await;
    worker.session.leave().await;
    hall.until(id, "retrying").await;
    let again = TestWorker::connect(&hall, Encoding::Json, with(vec![job.held()])).await;
    assert_eq!(again.session.welcome.lost, [job.attempt]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hall_that_drains_gives_no_more_jobs_but_hears_of_those_at_hand() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 2).await;
    let (id, job) = accepted(&hall, &mut worker).await;
    hall.running.as_ref().unwrap().drain();
    let (attempt, lease) = (job.attempt, job.lease);
    let again = Some(RetryVerdict::In(Span(100)));
    let report = OutcomeReport { retry: again, ..report(Outcome::Failed) };
    worker.say(ToServer::Outcome { attempt, lease, report }).await;
    assert_eq!(worker.moved(attempt, Word::Outcome).await, "retrying");
    worker.say(ToServer::Credit { total: 5 }).await;
    let is_ready = async || hall.get("/api/v1/queues/default").await.json()["ready"] == 1;
    let ready = async { while !is_ready().await {} };
    tokio::time::timeout(Duration::from_secs(30), ready).await.expect("its time has come");
    let given = worker.so_far().await.into_iter().any(|message| matches!(message, ToWorker::Assign { .. }));
    assert!(!given, "it had a free slot, was connected, and the job was ready");
    assert_eq!(hall.state(id).await, "retrying");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l7_a_token_that_is_revoked_ends_its_session_and_its_leases() {
    let hall = TestServer::with(endless()).await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let (id, _) = accepted(&hall, &mut worker).await;
    hall.tokens.revoke("w");
    let end = worker.end().await;
    assert!(end.contains("the token is no longer valid (1008)"), "{end}");
    hall.until(id, "retrying").await;
    let refused = TestWorker::try_connect(&hall, &hall.worker, Encoding::Json, Hello::default()).await;
    assert_eq!(refused.err().unwrap().code(), Some(jobhall_protocol::Code::Unauthorized));
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l7_the_leases_of_a_lost_connection_end_with_the_token() {
    let hall = TestServer::with(endless()).await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let (id, _) = accepted(&hall, &mut worker).await;
    drop(worker);
    wait_until("the worker has no connection", async || {
        hall.workers().await.iter().all(|worker| worker["silent_ms"].is_u64())
    })
    .await;
    assert_eq!(hall.state(id).await, "accepted", "its worker may return");
    hall.tokens.revoke("w");
    hall.until(id, "retrying").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_renewed_lives_and_one_that_is_not_is_ended() {
    let hall = TestServer::with(quick()).await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let (id, _) = accepted(&hall, &mut worker).await;
    // A second session begins later and is silent: when it is ended, the first has lived longer than a lease.
    let token = hall.tokens.mint("silent", Role::Worker);
    let silent = TestWorker::try_connect(&hall, &token, Encoding::MessagePack, Hello::default()).await;
    let mut silent = silent.unwrap();
    let mut silent_end = tokio::spawn(async move { silent.end().await });
    let end = loop {
        worker.say(ToServer::Renew {}).await;
        worker.hear(|message| matches!(message, ToWorker::Renewed {}).then_some(())).await;
        if let Ok(end) = tokio::time::timeout(Duration::from_secs(1), &mut silent_end).await {
            break end.unwrap();
        }
    };
    assert!(end.contains("not renewed in time (1008)"), "{end}");
    assert_eq!(hall.state(id).await, "accepted", "longer than a lease lives by itself");
    let end = worker.end().await;
    assert!(end.contains("not renewed in time (1008)"), "{end}");
    hall.until(id, "retrying").await;
}
