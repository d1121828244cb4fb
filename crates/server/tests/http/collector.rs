use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jobhall_engine::Config;
use jobhall_server::{Listen, Options, References, Server};
use tokio::net::TcpListener;

use crate::artifacts::{files, started};
use crate::server::{TestServer, open_blobs, wait_until};

/// Sets the modification time of all files below a directory to two hours ago.
fn age(path: &Path) {
    for entry in fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            age(&entry);
        } else if let Ok(file) = fs::File::open(&entry) {
            file.set_modified(SystemTime::now() - Duration::from_secs(2 * 3_600)).unwrap();
        }
    }
}

/// Waits until a whole walk was made from here on: what a walk looks at last is gone in the second that finds it.
async fn whole_walk(blobs: &Path) {
    for _ in 0..2 {
        let last: PathBuf = blobs.join("logs/ff");
        fs::create_dir_all(&last).unwrap();
        let orphan = last.join(format!("{}-1", (1_u64 << 40) + 0xff));
        fs::write(&orphan, b"nobody's").unwrap();
        age(&last);
        wait_until("a walk", async || !orphan.exists()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_retention_removed_takes_its_blobs_along_and_nothing_else_goes() {
    let config = Config { retention_ms: 50, ..Config::default() };
    let hall = TestServer::with(config).await;
    let blobs = hall.dir.path().join("blobs");
    let mut jobs = Vec::new();
    for content in [&b"gone"[..], b"done", b"live"] {
        let (id, attempt) = started(&hall).await;
        hall.word(&attempt, "log", content).await;
        hall.keep(&attempt, "own", &[], content).await;
        hall.keep(&attempt, "shared", &[], b"of all").await;
        jobs.push((id, attempt));
    }
    let [gone, done, live] = [jobs[0].0, jobs[1].0, jobs[2].0];
    hall.word(&jobs[0].1, "outcome", br#"{"outcome":"succeeded"}"#).await;
    hall.word(&jobs[1].1, "outcome", br#"{"outcome":"failed","retry":"never"}"#).await;
    age(&blobs);
    whole_walk(&blobs).await;
    assert_eq!(
        (files(&blobs.join("objects")), files(&blobs.join("artifacts"))),
        (4, 3),
        "nothing is removed yet"
    );

    // Retention keeps one completed job: the newest.
    let keep = hall.send("PUT", "/api/v1/types/a", &hall.admin, &[], br#"{"keep_count":1}"#).await;
    assert_eq!(keep.status, 200, "{}", keep.text());
    wait_until("retention", async || {
        let listed = hall.get("/api/v1/jobs").await.json();
        listed["items"].as_array().unwrap().iter().all(|job| job["id"] != gone)
    })
    .await;
    assert_eq!(hall.get(&format!("/api/v1/jobs/{gone}")).await.status, 404);
    age(&blobs);
    whole_walk(&blobs).await;
    assert_eq!((files(&blobs.join("objects")), files(&blobs.join("artifacts"))), (3, 2));
    assert_eq!(files(&blobs.join("logs")), 4, "bytes and index of two logs");
    for (id, content) in [(done, "done"), (live, "live")] {
        for (name, content) in [("own", content), ("shared", "of all")] {
            assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/artifacts/{name}")).await.text(), content);
        }
        assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), content);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_11_the_collector_asks_for_references_and_pins_outside_attempts() {
    let mut hall = TestServer::start().await;
    hall.running.take().unwrap().stop().await;
    let place = hall.dir.path().join("blobs");
    let blobs = open_blobs(&hall.dir).await;
    let put = |content: &[u8]| blobs.objects().put(&mut &content[..], 100, 0).unwrap().digest;
    let [referenced, pinned, free] = [&b"referenced"[..], b"pinned", b"free"].map(put);
    let references = References {
        referenced: Arc::new(move |digest| *digest == referenced),
        pinned: Arc::new(move |digest| *digest == pinned),
    };
    let options = Options { references, ..hall.options(blobs) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Server::serve(listener, Listen::default(), options).unwrap();
    whole_walk(&place).await;
    let there = [referenced, pinned, free].map(|digest| hall.blob(&digest.hex()).exists());
    assert_eq!(there, [true, true, false]);
    running.stop().await;
}
