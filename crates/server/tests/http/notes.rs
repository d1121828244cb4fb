//! Notes: a log of lines of JSON beside the output, which only the worker writes.

use std::time::Duration;

use jobhall_blobs::{AttemptKey, LogKey};
use jobhall_engine::Config;
use jobhall_protocol::LogFrame;
use serde_json::Value;
use tokio::io::AsyncReadExt;

use crate::artifacts::started;
use crate::server::{Reply, TestServer, open_blobs, read_until};

const FRAMES: [(&str, &str); 1] = [("Accept", "application/x-ndjson")];

impl TestServer {
    async fn note(&self, attempt: &Value, line: &[u8]) -> Reply {
        self.word(attempt, "log?stream=note", line).await
    }

    async fn notes(&self, id: u64) -> String {
        let reply = self.get(&format!("/api/v1/jobs/{id}/log?stream=note")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.text()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_10_notes_are_read_apart_from_output_and_no_output_is_a_note() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    assert_eq!(hall.notes(id).await, "");
    hall.word(&attempt, "log", b"{\"forged\":1}\n").await;
    let stored = hall.note(&attempt, b"{\"phase\":\"build\"}\n").await;
    assert_eq!((stored.status, stored.json()["len"].as_u64()), (200, Some(18)), "{stored:?}");
    hall.word(&attempt, "log?stream=stderr", b"{\"forged\":2}\n").await;
    let again = hall.word(&attempt, "log?stream=note&offset=18", b"2\n").await;
    assert_eq!(again.json()["len"].as_u64(), Some(20));
    assert_eq!(hall.word(&attempt, "log?stream=note&offset=18", b"2\n").await.status, 200, "a repetition");
    hall.word(&attempt, "log?stream=note&offset=18", b"3\n").await.problem(409, "conflict");
    hall.word(&attempt, "log?stream=note&offset=28", b"3\n").await.problem(409, "conflict");

    assert_eq!(hall.notes(id).await, "{\"phase\":\"build\"}\n2\n");
    let output = hall.get(&format!("/api/v1/jobs/{id}/log")).await.text();
    assert_eq!(output, "{\"forged\":1}\n{\"forged\":2}\n");
    let path = format!("/api/v1/jobs/{id}/log?stream=note");
    assert_eq!(hall.get(&format!("{path}&from=18")).await.text(), "2\n");
    let range = hall.send("GET", &path, &hall.viewer, &[("Range", "bytes=18-")], b"").await;
    assert_eq!((range.status, range.text().as_str()), (206, "2\n"));
    let framed = hall.send("GET", &path, &hall.viewer, &FRAMES, b"").await.text();
    let frames: Vec<LogFrame> = framed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let parts: Vec<_> = frames.iter().map(|frame| (frame.offset, frame.stream.as_str())).collect();
    assert_eq!(parts, [(0, "note"), (18, "note")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_10_what_is_not_one_line_of_json_is_refused_and_nothing_is_written() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let deep = format!("{}{}\n", "[".repeat(200), "]".repeat(200));
    for (line, word) in [
        (&b""[..], "one line"),
        (b"{}", "one line"),
        (b"{}\n{}\n", "one line"),
        (b"\n", "not JSON"),
        (b"{\n", "not JSON"),
        (b"phase: build\n", "not JSON"),
        (b"{} {}\n", "not JSON"),
        (b"\"\xff\"\n", "not UTF-8"),
        (deep.as_bytes(), "nested deeper"),
    ] {
        let said = hall.note(&attempt, line).await.problem(400, "bad_request");
        assert!(said.contains("note") && said.contains(word), "{line:?}: {said}");
    }
    let long = format!("\"{}\"\n", "x".repeat(16 << 10));
    let said = hall.note(&attempt, long.as_bytes()).await.problem(413, "too_large");
    assert!(said.contains("16387 bytes") && said.contains("the limit is 16384"), "{said}");
    assert_eq!(hall.notes(id).await, "");
    assert!(!hall.dir.path().join("blobs/logs").join(format!("{id:02x}")).exists(), "no file was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_10_notes_beyond_4_mib_are_refused_and_never_truncated() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let line = format!("\"{}\"\n", "x".repeat((16 << 10) - 3));
    for _ in 0..256 {
        assert_eq!(hall.note(&attempt, line.as_bytes()).await.status, 200);
    }
    let said = hall.note(&attempt, b"1\n").await.problem(413, "too_large");
    assert!(said.contains("4194304"), "{said}");
    assert_eq!(hall.notes(id).await.len(), 4 << 20);
    let ended = hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
    assert_eq!(ended.status, 200, "the attempt ends all the same: {ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_10_only_the_worker_with_the_lease_writes_notes() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let path = format!("/api/v1/attempts/{}/log?stream=note", attempt["id"].as_str().unwrap());
    let lease = [("Jobhall-Lease", attempt["lease"].as_str().unwrap())];
    let of_job = attempt["token"].as_str().unwrap();
    for (token, more) in
        [(of_job, &[][..]), (of_job, &lease), (hall.client.as_str(), &lease), (hall.viewer.as_str(), &lease)]
    {
        hall.send("POST", &path, token, more, b"{}\n").await.problem(403, "forbidden");
    }
    let wrong = [("Jobhall-Lease", "00000000000000000000000000000000")];
    hall.send("POST", &path, &hall.worker, &wrong, b"{}\n").await.problem(409, "lease_lost");
    let other = hall.tokens.mint("w2", jobhall_server::Role::Worker);
    hall.send("POST", &path, &other, &lease, b"{}\n").await.problem(409, "lease_lost");
    assert_eq!(hall.notes(id).await, "");
    let read = hall.send("GET", &format!("/api/v1/jobs/{id}/log?stream=note"), of_job, &[], b"").await;
    assert_eq!(read.status, 200, "the job may read them");
    hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
    hall.note(&attempt, b"{}\n").await.problem(409, "lease_lost");
    assert_eq!(hall.notes(id).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_10_notes_are_followed_until_the_attempt_ends() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let path = format!("/api/v1/jobs/{id}/log?stream=note&follow=true");
    let mut stream = hall.open("GET", &path, &hall.viewer, &[], b"").await;
    read_until(&mut stream, "\r\n\r\n").await;
    hall.word(&attempt, "log", b"hidden\n").await;
    hall.note(&attempt, b"\"one\"\n").await;
    let seen = read_until(&mut stream, "one").await;
    hall.note(&attempt, b"\"two\"\n").await;
    let seen = seen + &read_until(&mut stream, "two").await;
    hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest));
    end.await.expect("the stream ends with the attempt").unwrap();
    assert!(!seen.contains("hidden"), "{seen}");
    assert_eq!(hall.get(&path).await.text(), "\"one\"\n\"two\"\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_10_an_outcome_completes_the_notes_also_after_a_restart() {
    let config = Config { lease_ms: 600_000, ..Config::default() };
    let hall = TestServer::with(config).await;
    let (_, attempt) = started(&hall).await;
    hall.word(&attempt, "accept", b"").await;
    assert_eq!(hall.note(&attempt, b"1\n").await.status, 200);
    let mut hall = hall.restart(config).await;
    assert_eq!(hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await.status, 200);
    hall.running.take().unwrap().stop().await;
    hall.engine.stop().await;
    let log: LogKey = attempt["id"].as_str().unwrap().parse::<AttemptKey>().unwrap().notes();
    let TestServer { dir, engine, store, .. } = hall;
    drop((engine, store));
    let info = open_blobs(&dir).await.logs().info(log).unwrap();
    assert_eq!((info.len, info.finished), (2, true));
}
