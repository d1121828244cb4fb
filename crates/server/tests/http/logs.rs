use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::server::{Reply, TestServer, read_until};

async fn logged(hall: &TestServer, bytes: &[u8]) -> (u64, serde_json::Value) {
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    assert_eq!(hall.word(&attempt, "log?offset=0", bytes).await.status, 200);
    (id, attempt)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_read_by_ranges() {
    let hall = TestServer::start().await;
    let (id, _) = logged(&hall, b"0123456789").await;
    let path = format!("/api/v1/jobs/{id}/log");
    let whole = hall.get(&path).await;
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    for (range, text, content) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=8-99", "89", "bytes 8-9/10"),
    ] {
        let part = hall.send("GET", &path, &hall.viewer, &[("Range", range)], b"").await;
        assert_eq!((part.status, part.text().as_str()), (206, text), "{range}");
        assert_eq!(part.header("content-range"), Some(content));
    }
    let none = hall.send("GET", &path, &hall.viewer, &[("Range", "bytes=10-")], b"").await;
    none.problem(416, "range_not_satisfiable");
    assert_eq!(none.header("content-range"), Some("bytes */10"));
    for ignored in ["lines=1-2", "bytes=1-2,4-5", "bytes=x"] {
        let reply = hall.send("GET", &path, &hall.viewer, &[("Range", ignored)], b"").await;
        assert_eq!(reply.status, 200, "{ignored}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_placed_by_offset_and_kept_byte_by_byte() {
    let hall = TestServer::start().await;
    let all: Vec<u8> = (0..=255).collect();
    let (id, attempt) = logged(&hall, &all[..100]).await;
    assert_eq!(hall.word(&attempt, "log?offset=50", &all[50..]).await.json()["len"].as_u64(), Some(256));
    hall.word(&attempt, "log?offset=300", b"x").await.problem(409, "conflict");
    hall.word(&attempt, "log?offset=0", b"other").await.problem(409, "conflict");
    hall.word(&attempt, "log?offset=x", b"x").await.problem(400, "bad_request");
    hall.word(&attempt, "log?stream=stdlog", b"x").await.problem(400, "bad_request");
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.body, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_log_comes_whole_and_a_larger_one_is_cut() {
    let hall = TestServer::start().await;
    let mib = vec![b'a'; 1 << 20];
    let (id, attempt) = logged(&hall, &mib).await;
    for n in 1..5u64 {
        let place = format!("log?offset={}", n << 20);
        let answer = hall.word(&attempt, &place, &mib).await.json();
        assert_eq!(answer["truncated"].as_bool(), Some(n == 4));
    }
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.body.len(), 4 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_from_before_the_job_starts_until_its_attempt_ends() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let path = format!("/api/v1/jobs/{id}/log?follow=true");
    let mut stream = hall.open("GET", &path, &hall.viewer, &[], b"").await;
    assert!(read_until(&mut stream, "\r\n\r\n").await.contains("200"));
    let attempt = hall.take().await;
    hall.word(&attempt, "log?offset=0", b"one\n").await;
    read_until(&mut stream, "one\n").await;
    hall.word(&attempt, "log?offset=4", b"two\n").await;
    read_until(&mut stream, "two\n").await;
    hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest));
    end.await.expect("the stream ends with the attempt").unwrap();
    let whole = hall.get(&path).await;
    assert_eq!(whole.text(), "one\ntwo\n", "following an ended log returns all of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_its_own_log() {
    let hall = TestServer::start().await;
    let (id, first) = logged(&hall, b"first").await;
    hall.word(&first, "outcome", br#"{"outcome":"failed","retry":"now"}"#).await;
    let second = hall.take().await;
    hall.word(&second, "log", b"second").await;
    let log = async |query: &str| -> Reply { hall.get(&format!("/api/v1/jobs/{id}/log{query}")).await };
    assert_eq!(log("").await.text(), "second");
    assert_eq!(log("?attempt=1").await.text(), "first");
    assert_eq!(log(&format!("?attempt={id}-2")).await.text(), "second");
    assert_eq!(log("?attempt=1&follow=true").await.text(), "first");
    log("?attempt=3").await.problem(404, "not_found");
    log("?attempt=x").await.problem(400, "bad_request");
    let none = hall.submit(r#"{"type":"b"}"#).await;
    assert_eq!(hall.get(&format!("/api/v1/jobs/{none}/log")).await.text(), "");
}
