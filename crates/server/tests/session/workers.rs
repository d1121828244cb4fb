//! Several workers, their credit, and messages of workers without the lease.

use std::collections::BTreeSet;

use jobhall_protocol::{
    Encoding, FEATURE_ABILITIES, FEATURE_MOVED, Failure, Hello, Outcome, RetryVerdict, ToServer, ToWorker,
    Word,
};
use jobhall_server::Role;

use crate::server::TestServer;
use crate::worker::{Job, TestWorker, report};

fn assigned(messages: &[ToWorker]) -> usize {
    messages.iter().filter(|message| matches!(message, ToWorker::Assign { .. })).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn q06_no_vacancy_no_job_and_credit_is_never_exceeded() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::connect(&hall, Encoding::MessagePack, Hello::default()).await;
    for _ in 0..10 {
        hall.submit(r#"{"type":"a"}"#).await;
    }
    assert_eq!(assigned(&worker.so_far().await), 0, "a connected worker has given no credit yet");
    worker.say(ToServer::Credit { total: 3 }).await;
    let mut jobs = vec![worker.job().await, worker.job().await, worker.job().await];
    worker.say(ToServer::Credit { total: 3 }).await;
    worker.say(jobs[0].passed()).await;
    worker.moved(jobs[0].attempt, Word::Outcome).await;
    assert_eq!(assigned(&worker.so_far().await), 0, "an end alone adds no credit");
    let shown = hall.get("/api/v1/workers").await.json()["items"][0].clone();
    assert_eq!((shown["slots"].as_u64(), shown["attempts"].as_array().unwrap().len()), (Some(0), 2));
    worker.say(ToServer::Credit { total: 5 }).await;
    jobs.extend([worker.job().await, worker.job().await]);
    worker.say(ToServer::Credit { total: 0 }).await;
    worker.say(ToServer::Credit { total: 20_000 }).await;
    let (code, detail) = worker.refused(Word::Credit).await;
    assert_eq!((code.as_str(), detail.contains("10000")), ("bad_request", true), "{detail}");
    assert_eq!(assigned(&worker.so_far().await), 0, "a refused message changes nothing");
    let ids: BTreeSet<_> = jobs.iter().map(|job| job.job.id).collect();
    assert_eq!(ids.len(), 5, "each job once");
}

#[tokio::test(flavor = "multi_thread")]
async fn l09_another_workers_lease_is_refused_and_nothing_changes() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    let token = hall.tokens.mint("thief", Role::Worker);
    let mut thief =
        TestWorker::try_connect(&hall, &token, Encoding::Json, Hello::default()).await.ok().unwrap();
    let stolen = Job { lease: jobhall_core::LeaseId(job.lease.0 ^ 1), ..job.clone() };
    let piece = |job: &Job, offset: u64| ToServer::Log {
        attempt: job.attempt,
        lease: job.lease,
        offset,
        stream: jobhall_protocol::LogStream::Stdout,
        bytes: b"part".to_vec(),
    };
    worker.say(piece(&job, 0)).await;
    worker.hear(|message| matches!(message, ToWorker::Logged { len: 4, .. }).then_some(())).await;
    let progress =
        |job: &Job| ToServer::Progress { attempt: job.attempt, lease: job.lease, indicators: Vec::new() };
    for (who, job) in [(&mut thief, &job), (&mut worker, &stolen)] {
        let words = [
            (job.accept(), Word::Accept),
            (progress(job), Word::Progress),
            (piece(job, 4), Word::Log),
            (job.passed(), Word::Outcome),
        ];
        for (message, word) in words {
            who.say(message).await;
            assert_eq!(who.refused(word).await.0, "lease_lost", "{word:?}");
        }
    }
    assert_eq!(hall.state(id).await, "running");
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "part");
    // The refused message did not complete the log either.
    worker.session.send(&[piece(&job, 4), job.passed()]).await.unwrap();
    assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "succeeded", "its own lease is valid");
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "partpart");
    worker.say(piece(&job, 8)).await;
    assert_eq!(worker.refused(Word::Log).await.0, "lease_lost", "after the end no worker holds it");
}

#[tokio::test(flavor = "multi_thread")]
async fn l14_many_sessions_share_many_jobs_and_none_is_done_twice() {
    let hall = TestServer::start().await;
    let mut workers = Vec::new();
    for n in 0..4 {
        let token = hall.tokens.mint(&format!("w{n}"), Role::Worker);
        let encoding = Encoding::ALL[n % 2];
        workers.push(TestWorker::try_connect(&hall, &token, encoding, Hello::default()).await.ok().unwrap());
    }
    let jobs = format!("[{}]", vec![r#"{"type":"a"}"#; 400].join(","));
    let work = async |mut worker: TestWorker| {
        let (mut total, mut done) = (8, Vec::new());
        worker.say(ToServer::Credit { total }).await;
        loop {
            let frame = tokio::time::timeout(std::time::Duration::from_secs(3), worker.session.next()).await;
            let Ok(frame) = frame else { return done };
            let mut answers = Vec::new();
            for message in frame.unwrap() {
                match message {
                    ToWorker::Assign { attempt, lease, job, .. } => {
                        let job = Job { attempt, lease, job };
                        answers.extend([job.accept(), job.passed()]);
                        total += 1;
                    }
                    ToWorker::Moved { attempt, state, .. } => {
                        assert_eq!(state, "succeeded");
                        done.push(attempt.job);
                    }
                    other => panic!("{other:?}"),
                }
            }
            answers.push(ToServer::Credit { total });
            worker.session.send(&answers).await.unwrap();
        }
    };
    assert_eq!(hall.post("/api/v1/jobs", &jobs).await.status, 200);
    let all = futures_util::future::join_all(workers.into_iter().map(work)).await;
    assert!(all.iter().all(|done| !done.is_empty()), "every worker had some");
    let all: Vec<_> = all.into_iter().flatten().collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (400, 400));
}

#[tokio::test(flavor = "multi_thread")]
async fn l08_l18_outcomes_have_words_values_and_verdicts_in_both_encodings() {
    for encoding in Encoding::ALL {
        let hall = TestServer::start().await;
        let hello = Hello { features: vec![FEATURE_MOVED.to_owned()], ..Hello::default() };
        let mut worker = TestWorker::connect(&hall, encoding, hello).await;
        let mut total = 0;
        for value in ["null", "false", "0", "\"\"", "[1,{}]"] {
            let id = hall.submit(r#"{"type":"a"}"#).await;
            total += 1;
            worker.say(ToServer::Credit { total }).await;
            let Job { attempt, lease, .. } = worker.job().await;
            let mut report = report(Outcome::Succeeded);
            report.value = Some(serde_json::from_str(value).unwrap());
            worker.say(ToServer::Outcome { attempt, lease, report }).await;
            worker.moved(attempt, Word::Outcome).await;
            assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/result")).await.text(), value);
        }
        let id = hall.submit(r#"{"type":"a"}"#).await;
        worker.say(ToServer::Credit { total: total + 2 }).await;
        let job = worker.job().await;
        worker.say(job.accept()).await;
        let mut failed = report(Outcome::Failed);
        let data = Some(serde_json::from_str(r#"{"line":7}"#).unwrap());
        failed.error = Some(Failure { reason: "boom".into(), explanation: "it broke".into(), data });
        failed.retry = Some(RetryVerdict::Now);
        failed.params = Some(serde_json::from_str(r#"{"n":2}"#).unwrap());
        worker.say(ToServer::Outcome { attempt: job.attempt, lease: job.lease, report: failed }).await;
        assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "retrying");
        let second = worker.job().await;
        assert_eq!((second.job.id, second.job.attempt, second.job.params.get()), (id, 2, r#"{"n":2}"#));
        let error = hall.get(&format!("/api/v1/jobs/{id}")).await.json()["attempts"][0]["error"].clone();
        assert_eq!((&error["reason"], &error["data"]["line"]), (&"boom".into(), &7.into()));
        let mut bad = report(Outcome::Failed);
        bad.value = Some(serde_json::from_str("1").unwrap());
        worker.say(ToServer::Outcome { attempt: second.attempt, lease: second.lease, report: bad }).await;
        assert_eq!(worker.refused(Word::Outcome).await.0, "bad_request");
        let many = vec![serde_json::from_str(r#"{"step":1}"#).unwrap(); 33];
        let (attempt, lease) = (second.attempt, second.lease);
        worker.say(ToServer::Progress { attempt, lease, indicators: many }).await;
        assert_eq!(worker.refused(Word::Progress).await.0, "bad_request");
        assert_eq!(hall.state(id).await, "assigned", "refused messages changed nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_changes_what_it_offers_within_its_session() {
    let hall = TestServer::start().await;
    let features = vec![FEATURE_ABILITIES.to_owned()];
    let hello = Hello { features: features.clone(), abilities: "lang=[a]".to_owned(), ..Hello::default() };
    let mut worker = TestWorker::connect(&hall, Encoding::Json, hello).await;
    assert_eq!(worker.session.welcome.features, features);
    worker.say(ToServer::Credit { total: 2 }).await;
    let first = hall.submit(r#"{"type":"t","needs":"lang=a"}"#).await;
    let running = worker.job().await;
    let second = hall.submit(r#"{"type":"t","needs":"lang=b"}"#).await;
    let offer = |abilities: &str, accepts: &str| ToServer::Abilities {
        abilities: abilities.to_owned(),
        accepts: accepts.to_owned(),
    };
    for (abilities, accepts, field) in [("lang=", "", "abilities: "), ("", "type==", "accepts: ")] {
        worker.say(offer(abilities, accepts)).await;
        let (code, detail) = worker.refused(Word::Abilities).await;
        assert!(code == "bad_request" && detail.starts_with(field), "{code} {detail}");
    }
    assert_eq!(assigned(&worker.so_far().await), 0);
    worker.say(offer("lang=[b]", "type in (t)")).await;
    worker.hear(|message| matches!(message, ToWorker::AbilitiesSet {}).then_some(())).await;
    assert_eq!((running.job.id, worker.job().await.job.id), (first, second));
    worker.say(running.passed()).await;
    assert_eq!(worker.moved(running.attempt, Word::Outcome).await, "succeeded", "its attempts go on");
    assert_eq!(hall.workers().await[0]["abilities"], "lang=[b]");
}
