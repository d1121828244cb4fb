use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{Reply, TestServer, quick};

impl TestServer {
    /// Uploads an artifact with the lease of an attempt.
    pub async fn keep(&self, given: &Value, name: &str, more: &[(&str, &str)], body: &[u8]) -> Reply {
        let path = format!("/api/v1/attempts/{}/artifacts/{name}", given["id"].as_str().unwrap());
        let lease = [("Jobhall-Lease", given["lease"].as_str().unwrap())];
        self.send("PUT", &path, &self.worker, &[&lease[..], more].concat(), body).await
    }

    async fn artifacts(&self, id: u64, query: &str) -> Value {
        self.get(&format!("/api/v1/jobs/{id}/artifacts{query}")).await.json()
    }

    async fn names(&self, id: u64) -> Vec<String> {
        let list = self.artifacts(id, "").await;
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn fetch(&self, id: u64, name: &str, more: &[(&str, &str)]) -> Reply {
        self.send("GET", &format!("/api/v1/jobs/{id}/artifacts/{name}"), &self.viewer, more, b"").await
    }

    pub fn blob(&self, digest: &str) -> PathBuf {
        self.dir.path().join("blobs/objects").join(&digest[..2]).join(&digest[2..])
    }
}

pub async fn started(hall: &TestServer) -> (u64, Value) {
    let id = hall.submit(r#"{"type":"a"}"#).await;
    (id, hall.take().await)
}

/// Number of files below a directory, recursively.
pub fn files(path: &Path) -> usize {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|entry| if entry.is_dir() { files(&entry) } else { 1 }).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_comes_back_byte_by_byte_and_runs_nowhere() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let all: Vec<u8> = (0..=255).cycle().take(700_000).collect();
    let kept = hall.keep(&attempt, "report/index.html", &[("Content-Type", "text/html")], &all).await;
    assert_eq!(kept.status, 200, "{}", kept.text());
    let kept = kept.json();
    let digest = kept["digest"].as_str().unwrap().to_owned();
    assert_eq!((kept["name"].as_str(), kept["size"].as_u64()), (Some("report/index.html"), Some(700_000)));
    assert_eq!(
        (kept["media_type"].as_str(), kept["attempt"].as_str()),
        (Some("text/html"), attempt["id"].as_str())
    );
    assert_eq!(digest, blake3::hash(&all).to_hex().as_str());
    assert_eq!(hall.artifacts(id, "").await["items"], Value::Array(vec![kept]));
    let whole = hall.fetch(id, "report/index.html", &[]).await;
    assert_eq!(whole.status, 200);
    assert!(whole.body == all);
    let tag = format!("\"{digest}\"");
    for (name, value) in [
        ("content-type", "text/html"),
        ("content-length", "700000"),
        ("etag", &tag),
        ("jobhall-digest", &digest),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'"),
        ("content-disposition", "attachment; filename=\"index.html\"; filename*=UTF-8''index.html"),
    ] {
        assert_eq!(whole.header(name), Some(value));
    }
    let path = format!("/api/v1/jobs/{id}/artifacts/report%2Findex.html");
    let head = hall.send("HEAD", &path, &hall.viewer, &[], b"").await;
    assert_eq!((head.status, head.body.len(), head.header("content-length")), (200, 0, Some("700000")));
    let same = hall.fetch(id, "report/index.html", &[("If-None-Match", &tag)]).await;
    assert_eq!((same.status, same.body.len()), (304, 0));
    hall.fetch(id, "report", &[]).await.problem(404, "not_found");
    hall.fetch(id, "report/index.html?attempt=7", &[]).await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_an_artifact_are_had_by_ranges() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let digest =
        hall.keep(&attempt, "ten", &[], b"0123456789").await.json()["digest"].as_str().unwrap().to_owned();
    for (range, text, content) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
    ] {
        let part = hall.fetch(id, "ten", &[("Range", range)]).await;
        assert_eq!((part.status, part.text().as_str()), (206, text), "{range}");
        assert_eq!(part.header("content-range"), Some(content));
    }
    hall.fetch(id, "ten", &[("Range", "bytes=10-")]).await.problem(416, "range_not_satisfiable");
    let of_this = [("Range", "bytes=0-1"), ("If-Range", &format!("\"{digest}\""))];
    assert_eq!(hall.fetch(id, "ten", &of_this).await.status, 206);
    let of_another = hall.fetch(id, "ten", &[("Range", "bytes=0-1"), ("If-Range", "\"other\"")]).await;
    assert_eq!((of_another.status, of_another.text().as_str()), (200, "0123456789"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_name_replaces_and_each_attempt_has_its_own_also_after_a_restart() {
    let hall = TestServer::start().await;
    let (id, first) = started(&hall).await;
    hall.keep(&first, "a", &[], b"one").await;
    hall.keep(&first, "a", &[], b"two").await;
    hall.keep(&first, "only-first", &[], b"").await;
    hall.word(&first, "outcome", br#"{"outcome":"failed","retry":"now"}"#).await;
    let second = hall.take().await;
    hall.keep(&second, "a", &[], b"of the second").await;
    hall.word(&second, "outcome", br#"{"outcome":"succeeded"}"#).await;
    let hall = hall.restart(quick()).await;
    assert_eq!(hall.names(id).await, ["a"]);
    assert_eq!(hall.fetch(id, "a", &[]).await.text(), "of the second");
    assert_eq!(hall.fetch(id, "a?attempt=1", &[]).await.text(), "two");
    let list = hall.artifacts(id, &format!("?attempt={id}-1")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert_eq!(hall.fetch(id, "only-first?attempt=1", &[]).await.body, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pages() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    assert!(hall.names(id).await.is_empty());
    for name in ["d", "a/b", "c", "a/a"] {
        assert_eq!(hall.keep(&attempt, name, &[], name.as_bytes()).await.status, 200);
    }
    let first = hall.artifacts(id, "?limit=3").await;
    assert_eq!(first["items"].as_array().unwrap().len(), 3);
    assert_eq!(first["next_cursor"].as_str(), Some("c"));
    let second = hall.artifacts(id, "?limit=3&cursor=c").await;
    assert_eq!((second["items"][0]["name"].as_str(), second["next_cursor"].as_str()), (Some("d"), None));
    for wrong in ["?limit=0", "?limit=1001", "?cursor=..", "?page=2"] {
        hall.get(&format!("/api/v1/jobs/{id}/artifacts{wrong}")).await.problem(400, "bad_request");
    }
    hall.get("/api/v1/jobs/999/artifacts").await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_could_harm_are_refused() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let long = "x".repeat(1_025);
    for name in [
        "..",
        "../x",
        "a/../../x",
        "./a",
        "/etc/passwd",
        "a//b",
        "a/",
        "a%00b",
        "a%5Cb",
        "c:x",
        "-rf",
        "nul",
        "a%0Ab",
        "a%2F..%2Fb",
        "%2Fetc",
        "a.",
        &long,
    ] {
        let reply = hall.keep(&attempt, name, &[], b"x").await;
        assert!(reply.problem(400, "bad_request").contains("name an artifact"), "{name}");
        hall.fetch(id, name, &[]).await.problem(400, "bad_request");
    }
    assert!(hall.keep(&attempt, "%ff", &[], b"x").await.status < 500);
    assert!(hall.names(id).await.is_empty());
    assert_eq!(files(&hall.dir.path().join("blobs/objects")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_lease_not_a_byte_is_stored() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let mut stranger = attempt.clone();
    stranger["lease"] = "0".repeat(32).into();
    hall.keep(&stranger, "a", &[], b"x").await.problem(409, "lease_lost");
    let path = format!("/api/v1/attempts/{id}-1/artifacts/a");
    hall.send("PUT", &path, &hall.worker, &[], b"x").await.problem(400, "bad_request");
    hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
    hall.keep(&attempt, "a", &[], b"x").await.problem(409, "lease_lost");
    assert!(hall.names(id).await.is_empty());
    assert_eq!(files(&hall.dir.path().join("blobs/objects")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lost_during_the_upload_keeps_it_off_the_list() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let (path, lease) = (format!("/api/v1/attempts/{id}-1/artifacts/a"), attempt["lease"].as_str().unwrap());
    let headers = [("Jobhall-Lease", lease), ("Content-Length", "8")];
    let mut stream = hall.open("PUT", &path, &hall.worker, &headers, b"half").await;
    hall.until_temps(1).await;
    hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
    stream.write_all(b"more").await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    Reply::parse(&bytes).problem(409, "lease_lost");
    assert!(hall.names(id).await.is_empty());
}

impl TestServer {
    /// Waits until this many uploads are in progress.
    async fn until_temps(&self, count: usize) {
        for _ in 0..2_000 {
            if files(&self.dir.path().join("blobs/tmp")) == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} uploads are under way", files(&self.dir.path().join("blobs/tmp")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let (path, lease) = (format!("/api/v1/attempts/{id}-1/artifacts/a"), attempt["lease"].as_str().unwrap());
    let headers = [("Jobhall-Lease", lease), ("Content-Length", "8")];
    let stream = hall.open("PUT", &path, &hall.worker, &headers, b"half").await;
    hall.until_temps(1).await;
    drop(stream);
    hall.until_temps(0).await;
    assert!(hall.names(id).await.is_empty());
    assert_eq!(files(&hall.dir.path().join("blobs/objects")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_sizes_types_and_digests_are_refused_with_what_is_wrong() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let huge = [("Content-Length", "1073741825")];
    assert!(hall.keep(&attempt, "a", &huge, b"").await.problem(413, "too_large").contains("1073741824"));
    let kind = [("Content-Type", "nonsense")];
    assert!(hall.keep(&attempt, "a", &kind, b"").await.problem(400, "bad_request").contains("type/subtype"));
    let (right, wrong) = (blake3::hash(b"x").to_hex(), blake3::hash(b"y").to_hex());
    let differs = hall.keep(&attempt, "a", &[("Jobhall-Digest", wrong.as_str())], b"x").await;
    let words = differs.problem(400, "bad_request");
    assert!(words.contains(right.as_str()) && words.contains(wrong.as_str()), "{words}");
    let no_digest = hall.keep(&attempt, "a", &[("Jobhall-Digest", "7")], b"x").await;
    assert!(no_digest.problem(400, "bad_request").contains("jobhall-digest"));
    assert!(hall.names(id).await.is_empty());
    assert_eq!(hall.keep(&attempt, "a", &[("Jobhall-Digest", right.as_str())], b"x").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_content_is_an_error_and_never_given_away() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    let content = vec![b'a'; 300_000];
    let kept = hall.keep(&attempt, "a", &[], &content).await.json();
    let blob = hall.blob(kept["digest"].as_str().unwrap());
    let mut bytes = fs::read(&blob).unwrap();
    bytes[299_999] = b'b';
    fs::write(&blob, bytes).unwrap();
    for more in [&[][..], &[("Range", "bytes=0-9")]] {
        let reply = hall.fetch(id, "a", more).await;
        assert!(reply.problem(500, "internal").contains("damaged"));
    }
    assert_eq!(files(&hall.dir.path().join("blobs/quarantine")), 1);
    assert_eq!(hall.keep(&attempt, "a", &[], &content).await.status, 200);
    assert!(hall.fetch(id, "a", &[]).await.body == content, "stored again, it is complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_is_an_artifact_and_a_small_one_a_value() {
    let hall = TestServer::start().await;
    let (id, attempt) = started(&hall).await;
    hall.keep(&attempt, "result", &[("Content-Type", "text/plain")], b"no JSON").await;
    hall.get(&format!("/api/v1/jobs/{id}/result")).await.problem(409, "conflict");
    hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
    let result = hall.get(&format!("/api/v1/jobs/{id}/result")).await;
    assert_eq!((result.status, result.text().as_str()), (200, "no JSON"));
    assert_eq!(result.header("content-type"), Some("text/plain"));
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&job["result"], job["result_artifact"]["size"].as_u64()), (&Value::Null, Some(7)));
    assert_eq!(job["result_artifact"]["name"].as_str(), Some("result"));

    let (id, attempt) = started(&hall).await;
    hall.keep(&attempt, "result", &[], b"beside").await;
    let large = format!(r#"{{"outcome":"succeeded","value":"{}"}}"#, "x".repeat(256 * 1024));
    assert!(
        hall.word(&attempt, "outcome", large.as_bytes()).await.problem(400, "bad_request").contains("262144")
    );
    hall.word(&attempt, "outcome", br#"{"outcome":"succeeded","value":{"n":1}}"#).await;
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/result")).await.text(), r#"{"n":1}"#);
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((job["result"]["n"].as_u64(), job.get("result_artifact")), (Some(1), None));
}

/// A read of a job without a result does not wait for a blocking thread: here the only one is occupied.
#[test]
fn a_success_without_artifacts_is_shown_at_once() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let hall = TestServer::start().await;
        let (id, attempt) = started(&hall).await;
        hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (taken, is_taken) = tokio::sync::oneshot::channel();
        let thread = tokio::task::spawn_blocking(move || {
            taken.send(()).unwrap();
            // Returns when the sender is dropped, also when the test fails.
            let _ = released.recv();
        });
        is_taken.await.unwrap();
        let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
        assert_eq!((job["state"].as_str(), job.get("result_artifact")), (Some("succeeded"), None));
        assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/result")).await.text(), "null");
        drop(release);
        thread.await.unwrap();
    });
}
