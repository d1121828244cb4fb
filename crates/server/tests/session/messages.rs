//! Every message, in both encodings.

use jobhall_protocol::{
    Encoding, FEATURE_MOVED, Hello, Indicator, LogStream, Outcome, ToServer, ToWorker, Word,
};
use serde_json::json;

use crate::server::TestServer;
use crate::worker::{TestWorker, report};

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_life_over_a_session_in_both_encodings() {
    for encoding in Encoding::ALL {
        let hall = TestServer::start().await;
        let hello =
            Hello { features: vec![FEATURE_MOVED.to_owned(), "later".to_owned()], ..Hello::default() };
        let mut worker = TestWorker::connect(&hall, encoding, hello).await;
        let welcome = &worker.session.welcome;
        assert_eq!((welcome.version, welcome.lease_ms), (1, 30_000));
        assert_eq!(welcome.features, [FEATURE_MOVED], "unknown features are omitted");
        worker.say(ToServer::Credit { total: 1 }).await;
        let id = hall.submit(r#"{"type":"a","key":"k","params":{"n":[1,"é"]}}"#).await;
        let job = worker.job().await;
        assert_eq!((job.attempt.to_string(), job.job.id), (format!("{id}-1"), id));
        assert_eq!((job.job.job_type.as_str(), job.job.key.as_deref(), job.job.attempt), ("a", Some("k"), 1));
        assert_eq!(job.job.params.get(), r#"{"n":[1,"é"]}"#);
        worker.say(job.accept()).await;
        assert_eq!(worker.moved(job.attempt, Word::Accept).await, "accepted");
        let indicators =
            vec![Indicator { name: "all".into(), step: 1, total: Some(2), message: "half".into() }];
        worker.say(ToServer::Progress { attempt: job.attempt, lease: job.lease, indicators }).await;
        assert_eq!(worker.moved(job.attempt, Word::Progress).await, "running");
        let bytes = b"\x00\xff bytes\n".to_vec();
        let log = ToServer::Log {
            attempt: job.attempt,
            lease: job.lease,
            offset: 0,
            stream: LogStream::Stdout,
            bytes,
        };
        worker.session.send(&[log.clone(), log]).await.unwrap();
        for _ in 0..2 {
            let len = worker.hear(|message| match message {
                ToWorker::Logged { len, truncated: false, .. } => Some(*len),
                _ => None,
            });
            assert_eq!(len.await, 9, "a repeated chunk has the same response");
        }
        let mut outcome = report(Outcome::Succeeded);
        outcome.value = Some(serde_json::from_str(r#"{"sum":42}"#).unwrap());
        let outcome = ToServer::Outcome { attempt: job.attempt, lease: job.lease, report: outcome };
        for _ in 0..2 {
            worker.say(outcome.clone()).await;
            assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "succeeded");
        }
        worker.say(ToServer::Renew {}).await;
        worker.hear(|message| matches!(message, ToWorker::Renewed {}).then_some(())).await;
        worker.say(ToServer::Ping { n: 7 }).await;
        worker.hear(|message| matches!(message, ToWorker::Pong { n: 7, .. }).then_some(())).await;
        assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/result")).await.text(), r#"{"sum":42}"#);
        assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.body, b"\x00\xff bytes\n");
        worker.session.leave().await;
    }
}

#[tokio::test]
async fn the_accept_of_a_job_that_runs_at_most_once_is_answered_and_its_loss_ends_it() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::connect(&hall, Encoding::Json, Hello::default()).await;
    worker.say(ToServer::Credit { total: 1 }).await;
    let id = hall.submit(r#"{"type":"a","at_most_once":true}"#).await;
    let job = worker.job().await;
    assert!(job.job.at_most_once);
    worker.say(ToServer::Accept { attempt: job.attempt, lease: job.lease, answer: true }).await;
    assert_eq!(worker.moved(job.attempt, Word::Accept).await, "accepted");
    worker.session.leave().await;
    hall.until(id, "crashed").await;
    let job: serde_json::Value =
        serde_json::from_str(&hall.get(&format!("/api/v1/jobs/{id}")).await.text()).unwrap();
    assert_eq!((&job["error"]["reason"], &job["at_most_once"]), (&json!("at_most_once"), &json!(true)));
    assert_eq!((&job["attempt"], &job["lost"], &job["max_attempts"]), (&json!(1), &json!(1), &json!(1)));
    let both = r#"{"type":"a","at_most_once":true,"retry":{"max_attempts":3}}"#;
    let refused = hall.post("/api/v1/jobs", both).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("max_attempts of 3 contradicts at_most_once"), "{}", refused.text());
}
