//! What one client can take of the server is bounded.

use std::sync::Mutex;
use std::time::Duration;

use jobhall_engine::Config;
use jobhall_server::ConnectionLimits;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::{Reply, TestServer, wait_for, wait_until};

async fn limited(limits: ConnectionLimits) -> TestServer {
    let options = jobhall_store_sqlite::Options::default();
    TestServer::limited(tempfile::tempdir().unwrap(), Config::default(), options, limits).await
}

/// Whether the other side has closed the connection, without reading from it.
fn is_cut(stream: &TcpStream) -> bool {
    let written = stream.try_write(b"GET / HTTP/1.1\r\n");
    written.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m3_a_client_that_does_not_read_is_cut_and_one_that_waits_is_not() {
    let hall = limited(ConnectionLimits { write_ms: 200, ..ConnectionLimits::default() }).await;
    let mut waiting =
        hall.open("GET", "/api/v1/events", &hall.viewer, &[("Accept", "text/event-stream")], b"").await;
    let mut deaf = TcpStream::connect(&hall.address).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", hall.address);
    // Until the buffers of both sides are full.
    let full = async { while deaf.write_all(request.as_bytes()).await.is_ok() {} };
    let _ = tokio::time::timeout(Duration::from_secs(2), full).await;
    wait_until("the connection is cut", async || is_cut(&deaf)).await;
    // A stream without events is idle, not slow: it has been open as long and still gets the next event.
    let id = hall.submit(r#"{"type":"a"}"#).await;
    crate::server::read_until(&mut waiting, &format!("{{\"id\":{id},")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m3_connections_of_one_address_are_bounded_and_come_back() {
    let hall = limited(ConnectionLimits { per_loopback: 8, ..ConnectionLimits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(&hall.address).await.unwrap();
        let request = format!("GET /livez HTTP/1.1\r\nHost: {}\r\n\r\n", hall.address);
        stream.write_all(request.as_bytes()).await.unwrap();
        crate::server::read_until(&mut stream, "ok\n").await;
        held.push(stream);
    }
    let mut refused = TcpStream::connect(&hall.address).await.unwrap();
    let mut bytes = Vec::new();
    refused.read_to_end(&mut bytes).await.unwrap();
    let refused = Reply::parse(&bytes);
    assert_eq!((refused.status, refused.json()["code"].as_str()), (429, Some("too_many_requests")));
    assert!(refused.text().contains("too many connections from this address"));
    drop(held);
    wait_until("room", async || {
        let mut stream = hall.open("GET", "/livez", "", &[], b"").await;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.is_ok() && Reply::parse(&bytes).status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m4_a_page_of_jobs_ends_at_4_mib_and_the_next_one_continues() {
    let hall = TestServer::start().await;
    let job = format!(r#"{{"type":"a","params":"{}"}}"#, "x".repeat(200_000));
    let jobs = format!("[{}]", [job.as_str(); 4].join(","));
    for _ in 0..15 {
        assert_eq!(hall.post("/api/v1/jobs", &jobs).await.status, 200);
    }
    let (mut seen, mut path) = (Vec::new(), "/api/v1/jobs?limit=500".to_owned());
    loop {
        let reply = hall.get(&path).await;
        assert!(reply.body.len() < 5 << 20, "{} bytes", reply.body.len());
        let page = reply.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/api/v1/jobs?limit=500&cursor={cursor}");
    }
    assert_eq!(seen.len(), 60);
    assert!(seen.is_sorted_by(|one, next| one > next), "newest first, each once: {seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m4_a_page_of_schedules_ends_at_its_limit_and_at_4_mib() {
    let hall = TestServer::start().await;
    let body = |params: &str| format!(r#"{{"every":"1h","job":{{"type":"a","params":"{params}"}}}}"#);
    let large = body(&"x".repeat(200_000));
    for n in 0..30 {
        let path = format!("/api/v1/schedules/s{n:02}");
        let made = hall.send("PUT", &path, &hall.client, &[], large.as_bytes()).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    for (query, pages_expected) in [("", 2), ("?limit=7", 5), ("?limit=30", 2)] {
        let (mut names, mut path, mut pages) = (Vec::new(), format!("/api/v1/schedules{query}"), 0);
        loop {
            let reply = hall.get(&path).await;
            pages += 1;
            assert!(reply.body.len() < 5 << 20, "{} bytes", reply.body.len());
            let page = reply.json();
            names.extend(page["items"].as_array().unwrap().iter().map(|item| item["name"].clone()));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            assert!(reply.header("link").is_some_and(|link| link.contains(cursor)));
            let mark = if query.is_empty() { '?' } else { '&' };
            path = format!("/api/v1/schedules{query}{mark}cursor={cursor}");
        }
        let expected: Vec<_> = (0..30).map(|n| format!("s{n:02}")).collect();
        assert_eq!((names, pages), (expected.into_iter().map(Value::from).collect(), pages_expected));
    }
    for query in ["limit=0", "limit=501", "cursor=x", "all=1"] {
        hall.get(&format!("/api/v1/schedules?{query}")).await.problem(400, "bad_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m4_a_long_poll_gets_a_bounded_number_of_bytes_and_the_next_one_the_rest() {
    let hall = TestServer::start().await;
    let job = format!(r#"{{"type":"large","params":"{}"}}"#, "x".repeat(250_000));
    let jobs = format!("[{}]", [job.as_str(); 4].join(","));
    for _ in 0..12 {
        assert_eq!(hall.post("/api/v1/jobs", &jobs).await.status, 200);
    }
    // A job that was claimed and not sent would be missing until its lease ends, and the last poll would get none.
    let (mut ids, mut polls) = (Vec::new(), 0);
    while ids.len() < 48 {
        let reply = hall.work("/api/v1/vacancies", r#"{"slots":1000,"wait_s":10}"#).await;
        assert_eq!(reply.status, 200, "{} taken", ids.len());
        assert!(reply.body.len() < 9 << 20, "{} bytes", reply.body.len());
        let taken = reply.json()["attempts"].as_array().unwrap().clone();
        ids.extend(taken.iter().map(|given| given["job"]["id"].as_u64().unwrap()));
        polls += 1;
    }
    assert!(polls >= 2 && ids.is_sorted_by(|one, next| one < next), "{polls} polls: {ids:?}");
    let small = vec![r#"{"type":"small"}"#; 300].join(",");
    assert_eq!(hall.post("/api/v1/jobs", &format!("[{small}]")).await.status, 200);
    let reply = hall.work("/api/v1/vacancies", r#"{"slots":250,"wait_s":10}"#).await;
    assert_eq!(reply.json()["attempts"].as_array().unwrap().len(), 250, "small jobs are taken at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m4_a_job_has_its_newest_attempts_and_the_list_has_all_in_pages() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a","retry":{"max_attempts":100}}"#).await;
    let data = "x".repeat(250_000);
    for n in 1..=25 {
        let given = hall.take().await;
        let error = format!(r#"{{"reason":"no","explanation":"try {n}","data":"{data}"}}"#);
        let outcome = format!(r#"{{"outcome":"failed","retry":"now","error":{error}}}"#);
        assert_eq!(hall.word(&given, "outcome", outcome.as_bytes()).await.status, 200);
    }
    let reply = hall.get(&format!("/api/v1/jobs/{id}")).await;
    assert!(reply.body.len() < 300_000, "{} bytes", reply.body.len());
    let job = reply.json();
    let shown = job["attempts"].as_array().unwrap();
    assert_eq!((shown.len(), shown[19]["error"]["explanation"].as_str()), (20, Some("try 25")));
    assert!(shown.iter().all(|attempt| attempt["error"]["data"].is_null()));
    let (mut seen, mut path, mut pages) = (Vec::new(), format!("/api/v1/jobs/{id}/attempts?limit=100"), 0);
    loop {
        let reply = hall.get(&path).await;
        pages += 1;
        assert!(reply.body.len() < 5 << 20, "{} bytes", reply.body.len());
        let page = reply.json();
        seen.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/api/v1/jobs/{id}/attempts?limit=100&cursor={cursor}");
    }
    assert_eq!(pages, 2);
    let told: Vec<_> = seen.iter().map(|attempt| attempt["error"]["explanation"].as_str().unwrap()).collect();
    assert_eq!(told, (1..=25).rev().map(|n| format!("try {n}")).collect::<Vec<_>>());
    assert!(seen.iter().all(|attempt| attempt["error"]["data"].as_str().is_some_and(|has| has == data)));
    hall.get(&format!("/api/v1/jobs/{id}/attempts?limit=101")).await.problem(400, "bad_request");
    let log = hall.get(&format!("/api/v1/jobs/{id}/log?attempt=2")).await;
    assert_eq!(log.status, 200, "an attempt that is not shown with the job is found by its number");
    hall.get(&format!("/api/v1/jobs/{id}/log?attempt=26")).await.problem(404, "not_found");
}

/// Begins an upload and sends one byte of its body.
async fn begin_upload(hall: &TestServer, given: &Value, name: &str) -> TcpStream {
    begin_upload_as(hall, given, name, &hall.worker, "").await
}

async fn begin_upload_as(hall: &TestServer, given: &Value, name: &str, token: &str, more: &str) -> TcpStream {
    let (id, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
    let mut stream = TcpStream::connect(&hall.address).await.unwrap();
    let head = format!(
        "PUT /api/v1/attempts/{id}/artifacts/{name} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Jobhall-Lease: {lease}\r\n{more}Content-Length: 1000\r\n\r\nx",
        hall.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m6_one_attempt_has_8_uploads_and_they_end_with_its_lease() {
    let hall = TestServer::start().await;
    hall.submit(r#"{"type":"a"}"#).await;
    hall.submit(r#"{"type":"a"}"#).await;
    let (given, other) = (hall.take().await, hall.take().await);
    let streams = Mutex::new(Vec::new());
    // A probe that succeeds may have had the place of a begun upload, which was then refused. So one more is begun.
    let refused = async || {
        let stream = begin_upload(&hall, &given, "held").await;
        streams.lock().unwrap().push(stream);
        let reply = hall.keep(&given, "more", &[], b"x").await;
        reply.status == 503 && reply.text().contains("8 uploads of attempt")
    };
    wait_until("an upload beyond the eighth is refused", refused).await;
    assert_eq!(hall.keep(&other, "mine", &[], b"x").await.status, 200, "another attempt can upload");
    assert_eq!(hall.word(&given, "outcome", br#"{"outcome":"succeeded"}"#).await.status, 200);
    let mut ended = 0;
    for mut stream in streams.into_inner().unwrap() {
        let text = crate::server::read_until(&mut stream, "request_id").await;
        ended += usize::from(text.starts_with("HTTP/1.1 409") && text.contains("lease_lost"));
    }
    assert!((7..=8).contains(&ended), "{ended} uploads ended with the lease");
}

/// Takes a job as the worker of this name, with the token of an administrator.
async fn take_as(hall: &TestServer, worker: &str) -> Value {
    let body = br#"{"slots":1,"wait_s":10}"#;
    let named = [("Jobhall-Worker", worker)];
    let reply = hall.send("POST", "/api/v1/vacancies", &hall.admin, &named, body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["attempts"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m6_one_token_has_64_uploads_whichever_workers_it_names() {
    let hall = TestServer::start().await;
    let mut taken = Vec::new();
    for n in 0..10 {
        hall.submit(r#"{"type":"a"}"#).await;
        let worker = format!("w{}", n % 5);
        taken.push((take_as(&hall, &worker).await, worker));
    }
    hall.submit(r#"{"type":"a"}"#).await;
    let other = hall.take().await;
    let mut streams = Vec::new();
    for (given, worker) in &taken {
        for n in 0..8 {
            let more = format!("Jobhall-Worker: {worker}\r\n");
            streams.push(begin_upload_as(&hall, given, &format!("f{n}"), &hall.admin, &more).await);
        }
    }
    // An upload that is not refused has ended at once and may have had the place of a begun one.
    hall.submit(r#"{"type":"a"}"#).await;
    let last = take_as(&hall, "w9").await;
    let refused = async || {
        let path = format!("/api/v1/attempts/{}/artifacts/more", last["id"].as_str().unwrap());
        let headers = [("Jobhall-Lease", last["lease"].as_str().unwrap()), ("Jobhall-Worker", "w9")];
        let reply = hall.send("PUT", &path, &hall.admin, &headers, b"x").await;
        reply.status == 503 && reply.text().contains("64 uploads of token admin")
    };
    wait_until("an upload beyond the 64th is refused", refused).await;
    assert_eq!(hall.keep(&other, "mine", &[], b"x").await.status, 200, "another token can upload");
}

/// Opens this request until it is refused: two are the share of a token here.
async fn refuses_a_third(
    hall: &TestServer,
    what: [&str; 3],
    more: &[(&str, &str)],
    body: &[u8],
) -> Vec<TcpStream> {
    let [method, path, token] = what;
    let held = Mutex::new(Vec::new());
    // A request that is not refused at once has a place, maybe that of an earlier one, which was then refused. So it
    // is held too.
    wait_until(&format!("a third {method} {path} is refused"), async || {
        let mut stream = hall.open(method, path, token, more, body).await;
        let mut head = [0; 12];
        let read = tokio::time::timeout(Duration::from_millis(200), stream.read_exact(&mut head)).await;
        let is_refused = read.is_ok_and(|read| read.is_ok()) && &head == b"HTTP/1.1 429";
        let mut held = held.lock().unwrap();
        held.push(stream);
        is_refused && held.len() > 2
    })
    .await;
    held.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l11_one_token_has_a_share_of_long_polls_waits_and_followed_logs() {
    let hall = limited(ConnectionLimits { waiting_per_token: 2, ..ConnectionLimits::default() }).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let given = hall.take().await;
    let (attempt, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
    let log = format!("/api/v1/jobs/{id}/log?follow=true");
    let logs = refuses_a_third(&hall, ["GET", &log, &hall.viewer], &[], b"").await;
    let path = "/api/v1/vacancies";
    let poll = br#"{"slots":1,"wait_s":60,"accepts":"type=none"}"#;
    let polls = refuses_a_third(&hall, ["POST", path, &hall.worker], &[], poll).await;
    // A wait for sub-jobs has the same share; the process of the job has its own.
    let sub_job = br#"{"call":"c","job":{"type":"never","needs":"never"}}"#;
    assert!(hall.word(&given, "jobs", sub_job).await.status < 300);
    let wait = br#"{"wait_s":0}"#;
    hall.word(&given, "wait", wait).await.problem(429, "too_many_requests");
    let (job, lease) = (given["token"].as_str().unwrap(), [("Jobhall-Lease", lease)]);
    let path = format!("/api/v1/attempts/{attempt}/wait");
    assert_eq!(hall.send("POST", &path, job, &lease, wait).await.status, 204);
    drop((logs, polls));
    wait_until("the share is free again", async || hall.word(&given, "wait", wait).await.status != 429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l11_one_token_has_a_share_of_streams_and_polls() {
    let limits = ConnectionLimits { waiting_per_token: 2, ..ConnectionLimits::default() };
    let hall = limited(limits).await;
    let follow = async |token: &str| {
        hall.open("GET", "/api/v1/events", token, &[("Accept", "text/event-stream")], b"").await
    };
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = follow(&hall.viewer).await;
        crate::server::read_until(&mut stream, "retry:").await;
        open.push(stream);
    }
    let refused = hall.send("GET", "/api/v1/events", &hall.viewer, &[], b"").await;
    let detail = refused.problem(429, "too_many_requests");
    assert!(detail.contains("has 2 long polls and streams open"), "{detail}");
    let mut other = follow(&hall.client).await;
    crate::server::read_until(&mut other, "retry:").await;
    drop(open);
    let mut again = wait_for("the share is free again", async || {
        let mut stream = follow(&hall.viewer).await;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        (&head == b"HTTP/1.1 200").then_some(stream)
    })
    .await;
    crate::server::read_until(&mut again, "retry:").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m4_one_token_has_few_large_pages_that_are_not_read() {
    let hall = limited(ConnectionLimits { pages_per_token: 2, ..ConnectionLimits::default() }).await;
    let large = format!(r#"{{"type":"a","params":{{"x":"{}"}}}}"#, "x".repeat(250_000));
    for _ in 0..4 {
        let jobs = format!("[{}]", [large.as_str(); 4].join(","));
        assert_eq!(hall.post("/api/v1/jobs", &jobs).await.status, 200);
    }
    let page = "/api/v1/jobs?limit=500";
    let mut unread = Vec::new();
    for _ in 0..2 {
        let mut stream = hall.open_narrow(page, &hall.viewer).await;
        crate::server::read_until(&mut stream, "200").await;
        unread.push(stream);
    }
    let refused = hall.send("GET", page, &hall.viewer, &[], b"").await;
    let detail = refused.problem(429, "too_many_requests");
    assert!(detail.contains("has 2 large pages open"), "{detail}");
    let small = hall.send("GET", "/api/v1/jobs?limit=0", &hall.viewer, &[], b"").await;
    assert_ne!(small.status, 429, "small pages are not counted");
    let whole = hall.send("GET", page, &hall.client, &[], b"").await;
    assert_eq!(whole.json()["items"].as_array().unwrap().len(), 16, "another token has its own share");
    drop(unread);
    wait_until("the share is free again", async || {
        hall.send("GET", page, &hall.viewer, &[], b"").await.status == 200
    })
    .await;
}
