//! Sub-jobs, waits and timeouts over a session, with a worker that counts its slots like the real one.

use jobhall_protocol::{Code, Encoding, Hello, LogStream, SubJobState, SubmitJob, ToServer, ToWorker, Word};

use crate::server::TestServer;
use crate::worker::{Job, TestWorker};

/// A worker with one slot.
struct OneSlot {
    worker: TestWorker,
    heard: i64,
    busy: i64,
}

impl OneSlot {
    async fn new(hall: &TestServer, encoding: Encoding) -> OneSlot {
        let worker = TestWorker::connect(hall, encoding, Hello::default()).await;
        let mut slot = OneSlot { worker, heard: 0, busy: 0 };
        slot.tell().await;
        slot
    }

    async fn tell(&mut self) {
        self.worker.say(ToServer::Credit { total: self.heard + 1 - self.busy }).await;
    }

    async fn take(&mut self) -> Job {
        let job = self.worker.job().await;
        (self.heard, self.busy) = (self.heard + 1, self.busy + 1);
        self.tell().await;
        self.worker.say(job.accept()).await;
        job
    }

    async fn end(&mut self, job: &Job) {
        self.worker.say(job.passed()).await;
        assert_eq!(self.worker.moved(job.attempt, Word::Outcome).await, "succeeded");
        self.busy -= 1;
        self.tell().await;
    }

    async fn call(&mut self, job: &Job, call: &str, params: &str) -> u64 {
        let (attempt, lease) = (job.attempt, job.lease);
        let params = Some(serde_json::from_str(params).unwrap());
        let sub_job = SubmitJob { params, ..SubmitJob::new("a") };
        self.worker
            .say(ToServer::SubJob { attempt, lease, call: call.to_owned(), job: Box::new(sub_job) })
            .await;
        self.worker
            .hear(|message| match message {
                ToWorker::SubJob { attempt: of, call: name, job } if *of == attempt && name == call => {
                    Some(job.id)
                }
                _ => None,
            })
            .await
    }

    async fn wait(&mut self, job: &Job) {
        self.worker.say(ToServer::Wait { attempt: job.attempt, lease: job.lease, jobs: None }).await;
    }

    async fn resumed(&mut self, job: &Job) -> Vec<SubJobState> {
        let about = job.attempt;
        self.worker
            .hear(|message| match message {
                ToWorker::Resumed { attempt, jobs } if *attempt == about => Some(jobs.clone()),
                _ => None,
            })
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn capacity_one_with_fifty_levels_finishes_over_a_session() {
    for encoding in Encoding::ALL {
        let hall = TestServer::start().await;
        hall.submit(r#"{"type":"a"}"#).await;
        let mut slot = OneSlot::new(&hall, encoding).await;
        let mut line = vec![slot.take().await];
        for level in 0..50 {
            let id = slot.call(&line[level], "next", &format!("[{level},\"é\"]")).await;
            slot.wait(&line[level]).await;
            let job = slot.take().await;
            assert_eq!((job.job.id, job.job.params.get()), (id, format!("[{level},\"é\"]").as_str()));
            line.push(job);
        }
        slot.end(&line.pop().unwrap()).await;
        while let Some(job) = line.pop() {
            let over = slot.resumed(&job).await;
            assert_eq!((over.len(), over[0].state.as_str()), (1, "succeeded"));
            slot.end(&job).await;
        }
        assert_eq!(slot.busy, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_what_is_over_goes_on_at_once_and_a_foreign_job_is_refused() {
    let hall = TestServer::start().await;
    hall.submit(r#"{"type":"a"}"#).await;
    let mut slot = OneSlot::new(&hall, Encoding::Json).await;
    let job = slot.take().await;
    slot.wait(&job).await;
    assert!(slot.resumed(&job).await.is_empty(), "it has no sub-jobs");
    let other = hall.submit(r#"{"type":"b"}"#).await;
    let (attempt, lease) = (job.attempt, job.lease);
    slot.worker.say(ToServer::Wait { attempt, lease, jobs: Some(vec![other]) }).await;
    let (code, detail) = slot.worker.refused(Word::Wait).await;
    assert!(code == "bad_request" && detail.contains("is not a sub-job"), "{code}: {detail}");
    let call = String::new();
    slot.worker.say(ToServer::SubJob { attempt, lease, call, job: Box::new(SubmitJob::new("a")) }).await;
    let (code, detail) = slot.worker.refused(Word::SubJob).await;
    assert!(code == "bad_request" && detail.contains("call length of 0"), "{code}: {detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_over_is_answered_also_beside_a_chunk_of_the_log() {
    for encoding in Encoding::ALL {
        let hall = TestServer::start().await;
        hall.submit(r#"{"type":"a"}"#).await;
        let mut slot = OneSlot::new(&hall, encoding).await;
        let job = slot.take().await;
        let id = slot.call(&job, "next", "[]").await;
        assert_eq!(hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await.status, 200);
        let (attempt, lease) = (job.attempt, job.lease);
        let (stream, bytes) = (LogStream::Stdout, b"waits\n".to_vec());
        let log = ToServer::Log { attempt, lease, offset: 0, stream, bytes };
        slot.worker
            .session
            .send(&[ToServer::Wait { attempt, lease, jobs: Some(vec![id]) }, log])
            .await
            .unwrap();
        let over = slot.resumed(&job).await;
        assert_eq!((over.len(), over[0].state.as_str()), (1, "cancelled"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_a_session_hears_that_the_time_of_an_attempt_is_over() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a","timeouts":{"total":"50ms"},"retry":{"max_attempts":1}}"#).await;
    let mut slot = OneSlot::new(&hall, Encoding::Json).await;
    let job = slot.take().await;
    let about = job.attempt;
    let told = |message: &ToWorker| {
        matches!(message, ToWorker::Cancel { attempt, timed_out: true } if *attempt == about).then_some(())
    };
    slot.worker.hear(told).await;
    slot.worker.say(job.outcome(jobhall_protocol::Outcome::Cancelled)).await;
    assert_eq!(slot.worker.moved(job.attempt, Word::Outcome).await, "crashed");
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(job["attempts"][0]["outcome"], "timed_out");
}

/// Sub-jobs whose results are together much larger than a frame.
#[tokio::test(flavor = "multi_thread")]
async fn audit_m7_large_results_do_not_end_a_session() {
    for encoding in Encoding::ALL {
        let hall = TestServer::start().await;
        hall.submit(r#"{"type":"a"}"#).await;
        let mut slot = OneSlot::new(&hall, encoding).await;
        let parent = slot.take().await;
        let mut ids = Vec::new();
        for n in 0..6 {
            ids.push(slot.call(&parent, &n.to_string(), "{}").await);
        }
        slot.wait(&parent).await;
        let result = format!("\"{}\"", "x".repeat(250_000));
        for n in 0..6 {
            let job = slot.take().await;
            let mut report = crate::worker::report(jobhall_protocol::Outcome::Succeeded);
            if n == 5 {
                // Escaping makes an explanation six times as large.
                report.outcome = jobhall_protocol::Outcome::Failed;
                report.error = Some(jobhall_protocol::Failure {
                    reason: "r".to_owned(),
                    explanation: "\u{1}".repeat(16 * 1024),
                    data: Some(serde_json::value::RawValue::from_string(result.clone()).unwrap()),
                });
                report.retry = Some(jobhall_protocol::RetryVerdict::Never);
            } else {
                report.value = Some(serde_json::value::RawValue::from_string(result.clone()).unwrap());
            }
            let (attempt, lease) = (job.attempt, job.lease);
            slot.worker.say(ToServer::Outcome { attempt, lease, report }).await;
            slot.worker.moved(attempt, Word::Outcome).await;
            slot.busy -= 1;
            slot.tell().await;
        }
        let over = slot.resumed(&parent).await;
        assert_eq!(over.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
        let whole = over.iter().filter(|job| job.result.is_some()).count();
        assert_eq!((whole, over.iter().filter(|job| job.left_out).count()), (4, 2), "of 1 MiB");
        let (attempt, lease) = (parent.attempt, parent.lease);
        for left in over.iter().filter(|job| job.left_out) {
            slot.worker.say(ToServer::Wait { attempt, lease, jobs: Some(vec![left.id]) }).await;
            let alone = slot.resumed(&parent).await;
            assert!(alone[0].result.is_some() || alone[0].error.is_some(), "each can be requested alone");
        }
        slot.worker.say(ToServer::Ping { n: 1 }).await;
        slot.worker.hear(|message| matches!(message, ToWorker::Pong { n: 1, .. }).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m1_a_sub_job_in_another_queue_is_refused_over_a_session() {
    for encoding in Encoding::ALL {
        let hall = TestServer::start().await;
        let parent = hall.submit(r#"{"type":"a","queue":"own"}"#).await;
        let mut slot = OneSlot::new(&hall, encoding).await;
        let job = slot.take().await;
        let elsewhere = SubmitJob { queue: Some("prod".to_owned()), ..SubmitJob::new("a") };
        let (attempt, lease) = (job.attempt, job.lease);
        let call = ToServer::SubJob { attempt, lease, call: "c".to_owned(), job: Box::new(elsewhere) };
        slot.worker.say(call).await;
        let (code, detail) = slot
            .worker
            .hear(|message| match message {
                ToWorker::Refused { to: Word::SubJob, code, detail, .. } => Some((*code, detail.clone())),
                _ => None,
            })
            .await;
        assert_eq!(code, Code::Forbidden, "{detail}");
        let jobs = hall.get("/api/v1/jobs").await.json();
        let ids: Vec<_> =
            jobs["items"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, [parent], "no job was created");
        // The session and the attempt continue, and the queue of the parent is accepted.
        let id = slot.call(&job, "c", "1").await;
        assert_eq!(hall.get(&format!("/api/v1/jobs/{id}")).await.json()["queue"], "own");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_an_artifact_is_left_out_and_read_with_a_request() {
    for encoding in Encoding::ALL {
        let hall = TestServer::start().await;
        hall.submit(r#"{"type":"a"}"#).await;
        let mut slot = OneSlot::new(&hall, encoding).await;
        let parent = slot.take().await;
        let id = slot.call(&parent, "next", "{}").await;
        slot.wait(&parent).await;
        let child = slot.take().await;
        let large = "x".repeat(200_000);
        let [child_lease, parent_lease] = [&child, &parent].map(|job| format!("{:032x}", job.lease.0));
        let path = format!("/api/v1/attempts/{}/artifacts/result", child.attempt);
        let of_child = [("Jobhall-Lease", child_lease.as_str())];
        assert_eq!(hall.send("PUT", &path, &hall.worker, &of_child, large.as_bytes()).await.status, 200);
        slot.end(&child).await;
        let over = slot.resumed(&parent).await;
        assert_eq!((over.len(), over[0].id, over[0].left_out, over[0].result.is_none()), (1, id, true, true));
        let path = format!("/api/v1/attempts/{}/jobs/{id}/result", parent.attempt);
        let of_parent = [("Jobhall-Lease", parent_lease.as_str())];
        let read = hall.send("GET", &path, &hall.worker, &of_parent, b"").await;
        assert!((read.status, read.text()) == (200, large), "{} bytes", read.body.len());
        hall.send("GET", &path, &hall.worker, &of_child, b"").await.problem(409, "lease_lost");
    }
}

/// One unreadable message of each kind about an attempt, between messages that are handled.
#[tokio::test(flavor = "multi_thread")]
async fn audit_m7_a_message_that_cannot_be_read_is_refused_and_the_session_goes_on() {
    use crate::socket::Socket;
    use tokio_tungstenite::tungstenite::Message;

    for encoding in Encoding::ALL {
        let hall = TestServer::start().await;
        hall.submit(r#"{"type":"a"}"#).await;
        let mut socket = Socket::speaking(&hall, encoding.subprotocol()).await;
        let send = async |socket: &mut Socket, frame: serde_json::Value| match encoding {
            Encoding::Json => socket.text(&frame.to_string()).await,
            Encoding::MessagePack => {
                socket.send(Message::binary(rmp_serde::to_vec_named(&frame).unwrap())).await;
            }
        };
        send(&mut socket, serde_json::json!([{"hello": {"version": 1}}, {"credit": {"total": 1}}])).await;
        let assign = socket.until(encoding, "assign").await;
        let of = |more: serde_json::Value| {
            let mut about = serde_json::json!({"attempt": assign["attempt"], "lease": assign["lease"]});
            about.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            about
        };
        let sub_job = |call: &str, job: serde_json::Value| {
            let job = serde_json::json!({"call": call, "job": job});
            serde_json::json!({"sub_job": of(job)})
        };
        let long = "f".repeat(100_000);
        let frame = serde_json::json!([
            sub_job("one", serde_json::json!({"type": "c"})),
            sub_job("two", serde_json::json!({"type": "c", "priority": "high"})),
            sub_job("three", serde_json::json!({"type": "c"})),
            sub_job("four", serde_json::json!({"type": "c", long: 1})),
            {"wait": of(serde_json::json!({"jobs": ["one"]}))},
            {"accept": of(serde_json::json!({"answer": 1}))},
            {"progress": of(serde_json::json!({"indicators": 5}))},
            {"log": of(serde_json::json!({"offset": 0, "stream": "stdin", "bytes": ""}))},
            {"outcome": of(serde_json::json!({"report": {"outcome": "won"}}))},
            {"ping": {"n": 4}},
        ]);
        send(&mut socket, frame).await;
        let mut answers = Vec::new();
        while answers.len() < 10 {
            answers.extend(socket.messages(encoding).await);
        }
        let kind = |message: &serde_json::Value| message.as_object().unwrap().keys().next().unwrap().clone();
        let mut refused: Vec<_> = answers.iter().filter_map(|message| message.get("refused")).collect();
        for refusal in &refused {
            assert_eq!((&refusal["code"], &refusal["attempt"]), (&"bad_request".into(), &assign["attempt"]));
            assert!(refusal["detail"].as_str().unwrap().len() <= 500);
        }
        let sub_jobs: Vec<_> = answers
            .iter()
            .filter(|message| message.get("sub_job").is_some() || message["refused"]["to"] == "sub_job")
            .collect();
        let order: Vec<_> = sub_jobs.iter().map(|message| kind(message)).collect();
        assert_eq!(order, ["sub_job", "refused", "sub_job", "refused"], "in the order of the requests");
        assert_eq!(sub_jobs[2]["sub_job"]["call"], "three");
        let detail = sub_jobs[1]["refused"]["detail"].as_str().unwrap();
        let field = if encoding == Encoding::Json { "at sub_job.job.priority" } else { "marker" };
        assert!(detail.starts_with("the message is wrong") && detail.contains(field), "{detail}");
        refused.retain(|refusal| refusal["to"] != "sub_job");
        let mut kinds: Vec<_> = refused.iter().map(|refusal| refusal["to"].as_str().unwrap()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["accept", "log", "outcome", "progress", "wait"]);
        assert!(answers.iter().any(|message| message["pong"]["n"] == 4));
        send(&mut socket, serde_json::json!([{"ping": {"n": 5}}])).await;
        assert_eq!(socket.until(encoding, "pong").await["n"], 5, "the session goes on");
    }
}
