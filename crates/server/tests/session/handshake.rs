//! Checks before a session begins.

use std::time::{Duration, Instant};

use jobhall_client::{ClientError, Session};
use jobhall_core::LeaseId;
use jobhall_protocol::{AttemptRef, Code, Encoding, Hello, ToServer};

use crate::server::{TestServer, quick};
use crate::socket::Socket;
use crate::worker::{LONG, TestWorker, client};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_cannot_open_a_session() {
    let hall = TestServer::start().await;
    let bearer = format!("Bearer {}", hall.worker);
    let from = async |origin: &str| {
        let headers = [("authorization", bearer.as_str()), ("origin", origin)];
        Socket::open(&hall, &headers).await.err().map(|refusal| refusal.status)
    };
    for foreign in ["http://evil.example", "null", "http://127.0.0.1:1", "127.0.0.1"] {
        assert_eq!(from(foreign).await, Some(403), "{foreign}");
    }
    assert_eq!(from(&format!("http://{}", hall.address)).await, None, "its own lease is valid");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_workers_open_sessions_and_the_token_says_who_they_are() {
    let hall = TestServer::start().await;
    for (token, status) in [("jh_wrong", 401), (&hall.client, 403), (&hall.viewer, 403)] {
        let bearer = format!("Bearer {token}");
        let refusal = Socket::open(&hall, &[("authorization", bearer.as_str())]).await.err().unwrap();
        assert_eq!(refusal.status, status);
    }
    assert_eq!(Socket::open(&hall, &[]).await.err().unwrap().status, 401);
    let hello = Hello { abilities: "os=linux, name=other".to_owned(), ..Hello::default() };
    let _worker = TestWorker::connect(&hall, Encoding::Json, hello).await;
    let workers = hall.get("/api/v1/workers").await.json()["items"].clone();
    assert_eq!((workers.as_array().unwrap().len(), workers[0]["name"].as_str()), (1, Some("w")));
    assert!(workers[0]["abilities"].as_str().unwrap().contains("os=linux"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_no_upgrade_is_told_so() {
    let hall = TestServer::start().await;
    let reply = hall.send("GET", "/api/v1/session", &hall.worker, &[], b"").await;
    assert!(reply.problem(400, "bad_request").contains("WebSocket"), "{reply:?}");
    let bearer = format!("Bearer {}", hall.worker);
    let headers = [("authorization", bearer.as_str()), ("sec-websocket-protocol", "jobhall.v9.json, chat")];
    let refusal = Socket::open(&hall, &headers).await.err().unwrap();
    assert_eq!(refusal.status, 400);
    assert!(refusal.body.contains("jobhall.v1.msgpack"), "{}", refusal.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_that_cannot_be_is_refused_with_words() {
    let hall = TestServer::start().await;
    let held = AttemptRef { attempt: "1-1".parse().unwrap(), lease: LeaseId(7) };
    for (hello, word) in [
        (Hello { version: 9, ..Hello::default() }, "version 1, not 9"),
        (Hello { abilities: "==".to_owned(), ..Hello::default() }, "abilities"),
        (Hello { accepts: "colour=red".to_owned(), ..Hello::default() }, "accepts"),
        (Hello { attempts: vec![held; 10_001], ..Hello::default() }, "10001"),
    ] {
        for encoding in Encoding::ALL {
            let refused = TestWorker::try_connect(&hall, &hall.worker, encoding, hello.clone()).await;
            let Err(ClientError::Problem(problem)) = refused else { panic!("not refused: {word}") };
            assert!(problem.detail.contains(word), "{problem}");
        }
    }
    assert_eq!(hall.get("/api/v1/workers").await.json()["items"].as_array().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_says_nothing_or_something_else_first_is_sent_away() {
    let hall = TestServer::with(quick()).await;
    let mut silent = Socket::speaking(&hall, "jobhall.v1.json").await;
    let mut rude = Socket::speaking(&hall, "jobhall.v1.json").await;
    rude.text(r#"[{"renew":{}}]"#).await;
    assert_eq!(rude.closed().await, (1002, "the first message must be hello".to_owned()));
    let mut twice = Socket::speaking(&hall, "jobhall.v1.json").await;
    twice.text(r#"[{"hello":{"version":1}},{"credit":{"total":1}},{"ping":{"n":1}}]"#).await;
    assert!(twice.hear().await.contains("welcome"), "a first frame may contain more than hello");
    assert!(twice.hear().await.contains(r#""n":1"#));
    twice.text(r#"[{"hello":{"version":1}}]"#).await;
    assert_eq!(twice.closed().await, (1002, "hello must be sent once, as the first message".to_owned()));
    assert_eq!(silent.closed().await, (1008, "no hello was received in time".to_owned()));
}

/// A client with the administrator's token that acts for the worker of this name.
async fn named(hall: &TestServer, name: &str, instance: &str) -> Result<Session, ClientError> {
    let hello = Hello { instance: Some(instance.to_owned()), ..Hello::default() };
    client(hall, &hall.admin).as_worker(name).session(hello).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_names_its_workers_and_others_do_not() {
    let hall = TestServer::start().await;
    let session = named(&hall, "gpu-1", "a").await.unwrap();
    assert_eq!(session.welcome.worker, "gpu-1");
    let own = client(&hall, &hall.worker).as_worker("other").session(Hello::default()).await.unwrap();
    assert_eq!(own.welcome.worker, "w", "the token counts");
    let headers = [("jobhall-worker", "a b")];
    let reply = hall.send("POST", "/api/v1/renewals", &hall.admin, &headers, b"{\"attempts\":[]}").await;
    assert!(reply.problem(400, "bad_request").contains("header jobhall-worker"), "{reply:?}");
}

/// What an administrator's worker reports by requests is reported for the worker that it names.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_belongs_to_the_worker_that_was_named() {
    let hall = TestServer::start().await;
    let hello = Hello { instance: Some("a".to_owned()), ..Hello::default() };
    let mut worker = TestWorker::of(client(&hall, &hall.admin).as_worker("gpu-1"), hello).await;
    worker.say(ToServer::Credit { total: 1 }).await;
    hall.submit(r#"{"type":"t"}"#).await;
    let job = worker.job().await;
    let (attempt, lease) = (job.attempt.to_string(), format!("{:032x}", job.lease.0));
    let of = jobhall_client::AttemptRef { attempt: &attempt, lease: &lease };
    assert!(client(&hall, &hall.admin).accept(of).await.is_err(), "another worker");
    client(&hall, &hall.admin).as_worker("gpu-1").accept(of).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_are_never_one_worker() {
    let hall = TestServer::start().await;
    let first = named(&hall, "gpu-1", "a").await.unwrap();
    let refusal = named(&hall, "gpu-1", "b").await.unwrap_err();
    assert_eq!(refusal.code(), Some(Code::Conflict));
    assert!(refusal.to_string().contains("a worker named gpu-1 is connected"), "{refusal}");
    let _other = named(&hall, "gpu-2", "b").await.unwrap();
    // The same process comes back before the server has noticed that its connection broke.
    let again = named(&hall, "gpu-1", "a").await.unwrap();
    first.leave().await;
    assert!(named(&hall, "gpu-1", "b").await.is_err(), "one session of the first is still open");
    again.leave().await;
    eventually(async || named(&hall, "gpu-1", "b").await.is_ok()).await;
    for wrong in ["", &"x".repeat(101)] {
        assert_eq!(named(&hall, "gpu-3", wrong).await.unwrap_err().code(), Some(Code::BadRequest));
    }
}

/// Polls a condition, with a generous deadline.
async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds().await {
        assert!(Instant::now() < end, "the condition did not come true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a hello is refused, and how.
async fn refusal(hall: &TestServer, hello: Hello) -> Option<(Option<Code>, String)> {
    match TestWorker::try_connect(hall, &hall.worker, Encoding::Json, hello).await {
        Err(ClientError::Problem(problem)) => Some((Some(problem.code), problem.detail)),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_8_a_worker_asks_for_a_lease_within_bounds() {
    let hall = TestServer::start().await;
    for lease_ms in [2_999, 30_001] {
        let (code, detail) =
            refusal(&hall, Hello { lease_ms: Some(lease_ms), ..Hello::default() }).await.unwrap();
        assert_eq!(code, Some(Code::BadRequest));
        assert_eq!(detail, format!("lease_ms of {lease_ms} is outside 3000 to 30000"));
    }
    for (lease_ms, got) in [(None, 30_000), (Some(3_000), 3_000)] {
        let hello = Hello { lease_ms, ..Hello::default() };
        let worker = TestWorker::connect(&hall, Encoding::Json, hello).await;
        assert_eq!(worker.session.welcome.lease_ms, got);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_8_a_hello_cannot_name_another_worker_than_its_credential() {
    let hall = TestServer::start().await;
    let naming = |name: &str| Hello { worker: Some(name.to_owned()), ..Hello::default() };
    let (code, detail) = refusal(&hall, naming("other")).await.unwrap();
    assert_eq!(
        (code, detail.as_str()),
        (Some(Code::Forbidden), "worker: the token is of worker w, not of \"other\"")
    );
    assert_eq!(refusal(&hall, naming("w")).await, None);
    let (_, detail) =
        refusal(&hall, Hello { abilities: "worker=w".to_owned(), ..Hello::default() }).await.unwrap();
    assert!(detail.contains("abilities: ability \"worker\" is reserved"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_8_a_process_that_began_anew_has_the_resources_of_the_one_before() {
    let hall = TestServer::start().await;
    let hello = |instance: &str| Hello {
        abilities: "gpu=1".to_owned(),
        instance: Some(instance.to_owned()),
        fresh: true,
        ..Hello::default()
    };
    let mut first = TestWorker::connect(&hall, Encoding::Json, hello("1")).await;
    first.say(ToServer::Credit { total: 1 }).await;
    let id = hall.submit(r#"{"type":"a","uses":"gpu=1"}"#).await;
    let job = first.job().await;
    first.say(job.accept()).await;
    drop(first);
    // The name is free when the server has noticed the end of the connection.
    let mut again = loop {
        match TestWorker::try_connect(&hall, &hall.worker, Encoding::Json, hello("2")).await {
            Ok(worker) => break worker,
            Err(ClientError::Problem(problem)) if problem.code == Code::Conflict => {}
            Err(error) => panic!("{error}"),
        }
    };
    again.say(ToServer::Credit { total: 1 }).await;
    assert_eq!(again.job().await.job.id, id, "the lease of the first process has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_8_a_worker_with_several_sessions_is_one_row() {
    let hall = TestServer::start().await;
    let mut all = Vec::new();
    for abilities in ["gpu=1", "disk=2", "os=linux"] {
        let hello = Hello { abilities: abilities.to_owned(), ..Hello::default() };
        let mut worker = TestWorker::connect(&hall, Encoding::Json, hello).await;
        worker.say(ToServer::Credit { total: 2 }).await;
        worker.so_far().await;
        all.push(worker);
    }
    let workers = hall.workers().await;
    assert_eq!((workers.len(), &workers[0]["name"], &workers[0]["slots"]), (1, &"w".into(), &6.into()));
    let abilities = workers[0]["abilities"].clone();
    for _ in 0..10 {
        assert_eq!(hall.workers().await[0]["abilities"], abilities, "always those of the same session");
    }
}
