//! Logs: an outcome is applied after its whole log, whether the log came by session or request and whatever failed.

use std::path::{Path, PathBuf};

use jobhall_blobs::{AttemptKey, LogKey};
use jobhall_core::AttemptId;
use jobhall_protocol::{LogStream, ToServer, ToWorker, Word};

use crate::server::{TestServer, open_blobs};
use crate::worker::{Job, TestWorker};

fn piece(job: &Job, offset: u64, stream: LogStream, bytes: &[u8]) -> ToServer {
    ToServer::Log { attempt: job.attempt, lease: job.lease, offset, stream, bytes: bytes.to_vec() }
}

/// Stops the server; returns whether the output of an attempt is complete.
async fn is_finished(hall: TestServer, attempt: AttemptId) -> bool {
    is_log_finished(hall, AttemptKey { job: attempt.job.get(), claim: attempt.claim }.into()).await
}

async fn is_log_finished(mut hall: TestServer, log: LogKey) -> bool {
    hall.running.take().unwrap().stop().await;
    hall.engine.stop().await;
    let TestServer { dir, engine, store, .. } = hall;
    drop((engine, store));
    open_blobs(&dir).await.logs().is_finished(log).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_is_seen_only_with_its_whole_log() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    worker.say(piece(&job, 3, LogStream::Stdout, b"gap")).await;
    assert_eq!(worker.refused(Word::Log).await.0, "conflict", "a chunk that does not fit is refused");
    let frame = [
        piece(&job, 0, LogStream::Stdout, b"one\n"),
        piece(&job, 4, LogStream::Stderr, b"two\n"),
        job.passed(),
    ];
    worker.session.send(&frame).await.unwrap();
    worker.moved(job.attempt, Word::Outcome).await;
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "one\ntwo\n");
    assert!(is_finished(hall, job.attempt).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_came_by_requests_is_complete_when_the_session_reports() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    let lease = format!("{:032x}", job.lease.0);
    let given = serde_json::json!({ "id": job.attempt.to_string(), "lease": lease });
    assert_eq!(hall.word(&given, "log", b"by request").await.status, 200);
    worker.say(job.passed()).await;
    worker.moved(job.attempt, Word::Outcome).await;
    assert!(is_finished(hall, job.attempt).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_polled_for_can_be_reported_over_a_session() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 0).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let given = hall.take().await;
    assert_eq!(hall.word(&given, "log", b"by request").await.status, 200);
    let attempt: AttemptId = given["id"].as_str().unwrap().parse().unwrap();
    let lease = jobhall_core::LeaseId(u128::from_str_radix(given["lease"].as_str().unwrap(), 16).unwrap());
    let report = crate::worker::report(jobhall_protocol::Outcome::Succeeded);
    worker.say(ToServer::Outcome { attempt, lease, report }).await;
    assert_eq!(worker.moved(attempt, Word::Outcome).await, "succeeded");
    assert_eq!(hall.state(id).await, "succeeded");
    assert!(is_finished(hall, attempt).await);
}

/// The file of a log, found by its name.
fn file(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = file(&path, name) {
                return Some(found);
            }
        } else if entry.file_name().to_str().is_some_and(|found| found.starts_with(name)) {
            return Some(path);
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_waits_for_a_log_that_could_not_be_stored() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 2).await;
    hall.submit(r#"{"type":"a"}"#).await;
    let first = worker.job().await;
    worker.session.send(&[piece(&first, 0, LogStream::Stdout, b"x"), first.passed()]).await.unwrap();
    worker.moved(first.attempt, Word::Outcome).await;
    let place = file(&hall.dir.path().join("blobs"), "1-1").expect("the first log");
    // A directory at the path of the second log makes it unwritable.
    let name = place.file_name().unwrap().to_str().unwrap().replacen("1-1", "2-1", 1);
    let blocked = place.parent().unwrap().parent().unwrap().join("02").join(name);
    std::fs::create_dir_all(&blocked).unwrap();
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    assert_eq!(job.attempt.to_string(), "2-1");
    worker.session.send(&[piece(&job, 0, LogStream::Stdout, b"late"), job.passed()]).await.unwrap();
    assert_eq!(worker.refused(Word::Log).await.0, "internal");
    let code = worker.refused(Word::Outcome).await.0;
    assert!(["unavailable", "internal"].contains(&code.as_str()), "{code}");
    std::fs::remove_dir(&blocked).unwrap();
    worker.say(job.passed()).await;
    assert_eq!(worker.refused(Word::Outcome).await.0, "unavailable", "the chunk is still missing");
    assert_eq!(hall.state(id).await, "running", "it does not end without its log");
    worker.session.send(&[piece(&job, 0, LogStream::Stdout, b"late"), job.passed()]).await.unwrap();
    worker.hear(|message| matches!(message, ToWorker::Logged { len: 4, .. }).then_some(())).await;
    assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "succeeded");
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "late");
}

/// Replaces every file of a log with a directory, so that it can be neither read nor written.
fn block(files: &[PathBuf]) {
    for path in files {
        std::fs::rename(path, aside(path)).unwrap();
        std::fs::create_dir(path).unwrap();
    }
}

fn unblock(files: &[PathBuf]) {
    for path in files {
        std::fs::remove_dir(path).unwrap();
        std::fs::rename(aside(path), path).unwrap();
    }
}

fn aside(path: &Path) -> PathBuf {
    path.with_file_name(format!("aside-{}", path.file_name().unwrap().to_str().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_not_complete_while_a_piece_is_missing() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    worker.say(piece(&job, 0, LogStream::Stdout, b"early ")).await;
    worker.hear(|message| matches!(message, ToWorker::Logged { len: 6, .. }).then_some(())).await;
    let folder = file(&hall.dir.path().join("blobs"), "1-1").expect("the log").parent().unwrap().to_owned();
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    block(&files);
    worker.session.send(&[piece(&job, 6, LogStream::Stdout, b"late"), job.passed()]).await.unwrap();
    assert_eq!(worker.refused(Word::Log).await.0, "internal");
    worker.refused(Word::Outcome).await;
    unblock(&files);
    worker.say(job.passed()).await;
    assert_eq!(worker.refused(Word::Outcome).await.0, "unavailable", "the chunk is still missing");
    worker.session.send(&[piece(&job, 6, LogStream::Stdout, b"late"), job.passed()]).await.unwrap();
    assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "succeeded");
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "early late");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_10_notes_of_a_session_are_stored_apart_and_complete_before_the_outcome() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    let frame = [
        piece(&job, 0, LogStream::Stdout, b"out\n"),
        piece(&job, 0, LogStream::Note, b"{\"n\":1}\n"),
        piece(&job, 8, LogStream::Note, b"2\n"),
    ];
    worker.session.send(&frame).await.unwrap();
    for (wanted, of_note) in [(4, false), (8, true), (10, true)] {
        let heard = |message: &ToWorker| match message {
            ToWorker::Logged { len, note, truncated: false, .. } => Some((*len, *note)),
            _ => None,
        };
        assert_eq!(worker.hear(heard).await, (wanted, of_note));
    }
    let long = format!("\"{}\"\n", "x".repeat(16 << 10));
    for (bytes, code) in
        [(&b"no json\n"[..], "bad_request"), (b"3\n4\n", "bad_request"), (long.as_bytes(), "too_large")]
    {
        worker.say(piece(&job, 10, LogStream::Note, bytes)).await;
        assert_eq!(worker.refused(Word::Note).await.0, code);
    }
    worker.say(piece(&job, 11, LogStream::Note, b"3\n")).await;
    assert_eq!(worker.refused(Word::Note).await.0, "conflict", "a gap");
    worker.session.send(&[piece(&job, 10, LogStream::Note, b"3\n"), job.passed()]).await.unwrap();
    worker.moved(job.attempt, Word::Outcome).await;
    worker.say(piece(&job, 12, LogStream::Note, b"4\n")).await;
    assert_eq!(worker.refused(Word::Note).await.0, "lease_lost", "notes are fenced by the lease");
    let notes = hall.get(&format!("/api/v1/jobs/{id}/log?stream=note")).await.text();
    assert_eq!(notes, "{\"n\":1}\n2\n3\n");
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "out\n");
    let notes = AttemptKey { job: job.attempt.job.get(), claim: job.attempt.claim }.notes();
    assert!(is_log_finished(hall, notes).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_10_an_outcome_waits_for_a_note_although_later_output_was_stored() {
    let hall = TestServer::start().await;
    let mut worker = TestWorker::ready(&hall, 1).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let job = worker.job().await;
    let blocked = hall.dir.path().join("blobs/logs/01/1-1.notes");
    std::fs::create_dir_all(&blocked).unwrap();
    let note = || piece(&job, 0, LogStream::Note, b"1\n");
    let frame = [note(), piece(&job, 0, LogStream::Stdout, b"out\n"), job.passed()];
    worker.session.send(&frame).await.unwrap();
    assert_eq!(worker.refused(Word::Note).await.0, "internal");
    assert_eq!(worker.refused(Word::Outcome).await.0, "unavailable", "the note is missing");
    std::fs::remove_dir(&blocked).unwrap();
    worker.session.send(&[note(), job.passed()]).await.unwrap();
    assert_eq!(worker.moved(job.attempt, Word::Outcome).await, "succeeded");
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log?stream=note")).await.text(), "1\n");
}
