use std::time::Duration;

use jobhall_protocol::LogFrame;
use tokio::io::AsyncReadExt;

use crate::artifacts::started;
use crate::server::{Reply, TestServer, read_until};

const FRAMES: [(&str, &str); 1] = [("Accept", "application/x-ndjson")];

fn frames(reply: &Reply) -> Vec<LogFrame> {
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn parts(frames: &[LogFrame]) -> Vec<(u64, &str, Vec<u8>)> {
    frames.iter().map(|frame| (frame.offset, frame.stream.as_str(), frame.bytes().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_tells_its_streams() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    hall.word(&attempt, "log?stream=stdout&offset=0", b"out\n").await;
    hall.word(&attempt, "log?stream=stderr&offset=4", b"\xff\x00\n").await;
    hall.word(&attempt, "log?stream=stdout&offset=7", "m\u{e4}hr\n".as_bytes()).await;
    let get = async |query: &str, more: &[(&str, &str)]| {
        hall.send("GET", &format!("/api/v1/jobs/{id}/log{query}"), &hall.viewer, more, b"").await
    };
    assert_eq!(get("", &[]).await.body, b"out\n\xff\x00\nm\xc3\xa4hr\n");
    assert_eq!(get("?stream=stdout", &[]).await.text(), "out\nm\u{e4}hr\n");
    assert_eq!(get("?stream=stderr", &[]).await.body, b"\xff\x00\n");
    assert_eq!(get("?from=7", &[]).await.text(), "m\u{e4}hr\n");
    assert!(get("?stream=both", &[]).await.problem(400, "bad_request").contains("stdout, stderr or note"));

    let reply = get("", &FRAMES).await;
    let all = frames(&reply);
    let expected = [
        (0, "stdout", b"out\n".to_vec()),
        (4, "stderr", b"\xff\x00\n".to_vec()),
        (7, "stdout", "m\u{e4}hr\n".into()),
    ];
    assert_eq!(parts(&all), expected);
    assert!(all[1].text.is_none() && all[2].base64.is_none(), "text is text and the rest is base64");
    assert!(all.iter().all(|frame| u128::try_from(frame.at.0.as_ms()).unwrap() >= before), "when it came");
    assert!(all.is_sorted_by_key(|frame| frame.at));
    assert_eq!(parts(&frames(&get("?stream=stderr", &FRAMES).await)), expected[1..2]);
    assert_eq!(
        parts(&frames(&get("?from=6", &FRAMES).await)),
        [(6, "stderr", b"\n".to_vec()), expected[2].clone()]
    );
    let both = [("Accept", "text/html, application/x-ndjson;q=0.5")];
    assert_eq!(frames(&get("", &both).await).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_followed_as_they_come() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let path = format!("/api/v1/jobs/{id}/log?follow=true&stream=stderr&from=4");
    let mut stream = hall.open("GET", &path, &hall.viewer, &FRAMES, b"").await;
    read_until(&mut stream, "\r\n\r\n").await;
    hall.word(&attempt, "log?stream=stderr&offset=0", b"one\n").await;
    hall.word(&attempt, "log?stream=stdout&offset=4", b"hidden\n").await;
    hall.word(&attempt, "log?stream=stderr&offset=11", b"two\n").await;
    let seen = read_until(&mut stream, "two").await;
    assert!(!seen.contains("one") && !seen.contains("hidden"), "{seen}");
    hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest));
    end.await.expect("the stream ends with the attempt").unwrap();
    let whole = hall.send("GET", &path, &hall.viewer, &FRAMES, b"").await;
    assert_eq!(parts(&frames(&whole)), [(11, "stderr", b"two\n".to_vec())]);
}
