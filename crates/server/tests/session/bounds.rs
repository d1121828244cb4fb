//! Workers that do not read, and workers that vanish.

use jobhall_engine::Config;
use jobhall_protocol::{Encoding, Hello, ToServer, ToWorker};
use jobhall_server::ConnectionLimits;

use crate::server::{TestServer, quick, wait_until};
use crate::socket::Socket;
use crate::worker::TestWorker;

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_is_cut_and_its_jobs_come_back() {
    let hall = TestServer::with(quick()).await;
    let mut deaf = Socket::speaking(&hall, "jobhall.v1.json").await;
    deaf.text(r#"[{"hello":{"version":1}},{"credit":{"total":10000}}]"#).await;
    deaf.hear().await;
    let large = format!(r#"{{"type":"a","params":{{"x":"{}"}}}}"#, "x".repeat(250_000));
    let jobs = format!("[{}]", vec![large; 4].join(","));
    // Far more than the buffers of a local connection can hold.
    for _ in 0..25 {
        assert_eq!(hall.post("/api/v1/jobs", &jobs).await.status, 200);
    }
    assert!(deaf.until_cut().await, "it was not cut");
    hall.until_no_worker().await;
    let mut worker = TestWorker::ready(&hall, 100).await;
    for _ in 0..100 {
        let job = worker.job().await;
        assert_eq!(job.job.attempt, 1, "an assignment that was not accepted does not count");
        worker.say(job.passed()).await;
        worker.say(ToServer::Renew {}).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_gone_without_a_word_is_noticed_within_a_lease() {
    let hall = TestServer::with(quick()).await;
    let mut silent = Socket::speaking(&hall, "jobhall.v1.json").await;
    silent.text(r#"[{"hello":{"version":1}},{"credit":{"total":1}}]"#).await;
    silent.hear().await;
    // The connection stays open and nobody is behind it: neither a renewal nor a pong comes.
    hall.until_offered("w", 1).await;
    hall.until_no_worker().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.state(id).await, "queued", "it gets no further job");
    assert_eq!(silent.closed().await.0, 1008);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_frames_may_be_under_way_and_each_is_answered_in_order() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::connect(&hall, Encoding::MessagePack, Hello::default()).await;
    let (mut sender, mut receiver) = {
        worker.say(ToServer::Ping { n: 0 }).await;
        worker.hear(|message| matches!(message, ToWorker::Pong { n: 0, .. }).then_some(())).await;
        worker.session.split()
    };
    let speak = async {
        for n in 1..=2_000 {
            sender.send(&[ToServer::Ping { n }]).await.unwrap();
        }
    };
    let hear = async {
        let mut next = 1;
        while next <= 2_000 {
            for message in receiver.next().await.unwrap() {
                let ToWorker::Pong { n, .. } = message else { panic!("{message:?}") };
                assert_eq!(n, next);
                next += 1;
            }
        }
    };
    tokio::time::timeout(crate::worker::LONG, async { tokio::join!(speak, hear) })
        .await
        .expect("all answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l11_one_token_has_a_share_of_sessions() {
    let limits = ConnectionLimits { sessions_per_token: 2, ..ConnectionLimits::default() };
    let options = jobhall_store_sqlite::Options::default();
    let hall = TestServer::limited(tempfile::tempdir().unwrap(), Config::default(), options, limits).await;
    let open = async |token: &str| {
        let bearer = format!("Bearer {token}");
        Socket::open(&hall, &[("authorization", bearer.as_str())]).await
    };
    let first = open(&hall.worker).await.ok().unwrap();
    let _second = open(&hall.worker).await.ok().unwrap();
    let refused = open(&hall.worker).await.err().unwrap();
    assert_eq!(refused.status, 429);
    assert!(refused.body.contains("has 2 sessions open"), "{}", refused.body);
    let other = hall.secret(r#"{"name":"other","role":"worker"}"#).await;
    let _other = open(&other).await.ok().unwrap();
    drop(first);
    wait_until("the share is free again", async || open(&hall.worker).await.is_ok()).await;
}
