//! Sources over HTTP: data under keys, and the steps that receive it.

use std::fs;
use std::time::{Duration, SystemTime};

use jobhall_engine::Config;
use jobhall_server::RESERVED;
use serde_json::{Value, json};

use crate::server::{Reply, TestServer, wait_until};

const PUT: &str = r#"{"commands":{"a":{"version":"1","command":{"run":["a"]}}}}"#;

async fn hall() -> TestServer {
    let hall = TestServer::with(Config { reserved: RESERVED, ..Config::default() }).await;
    assert_eq!(hall.send("PUT", "/api/v1/commands", &hall.worker, &[], PUT.as_bytes()).await.status, 200);
    hall
}

async fn put(hall: &TestServer, key: &str, data: &[u8]) -> Reply {
    let headers = [("Content-Type", "text/csv")];
    hall.send("PUT", &format!("/api/v1/sources/{key}"), &hall.client, &headers, data).await
}

async fn get(hall: &TestServer, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    hall.send(method, path, &hall.viewer, headers, b"").await
}

/// Takes the job of the next step.
async fn take(hall: &TestServer) -> Value {
    let offer = r#"{"slots":1,"wait_s":10,"abilities":"commands=[a@1]","accepts":"type=q.a"}"#;
    let reply = hall.work("/api/v1/vacancies", offer).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["attempts"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn data_is_put_read_in_ranges_listed_and_removed() {
    let hall = hall().await;
    let first = put(&hall, "2026/sales%20%C3%A4.csv", b"a,b\n1,2\n").await;
    let source = first.json();
    let digest = blake3::hash(b"a,b\n1,2\n").to_hex().to_string();
    assert_eq!(
        (first.status, first.header("location")),
        (201, Some("/api/v1/sources/2026/sales%20%C3%A4.csv"))
    );
    assert_eq!(first.header("etag"), Some(format!("\"{digest}\"").as_str()));
    assert_eq!((&source["key"], &source["size"]), (&json!("2026/sales ä.csv"), &json!(8)));
    assert_eq!((&source["digest"], &source["media_type"]), (&json!(digest), &json!("text/csv")));
    assert_eq!(put(&hall, "2026/sales%20%C3%A4.csv", b"a,b\n1,2\n").await.status, 200);
    let path = "/api/v1/sources/2026/sales%20%C3%A4.csv";
    let whole = get(&hall, "GET", path, &[]).await;
    assert_eq!((whole.status, whole.text().as_str()), (200, "a,b\n1,2\n"));
    assert_eq!(whole.header("content-type"), Some("text/csv"));
    assert_eq!(whole.header("content-security-policy"), Some("sandbox; default-src 'none'"));
    assert_eq!(whole.header("x-content-type-options"), Some("nosniff"));
    let part = get(&hall, "GET", path, &[("Range", "bytes=4-6")]).await;
    assert_eq!((part.status, part.text().as_str()), (206, "1,2"));
    assert_eq!(part.header("content-range"), Some("bytes 4-6/8"));
    let tag = whole.header("etag").unwrap();
    assert_eq!(get(&hall, "GET", path, &[("If-None-Match", tag)]).await.status, 304);
    let head = get(&hall, "HEAD", path, &[]).await;
    assert_eq!((head.status, head.header("content-length"), head.text().as_str()), (200, Some("8"), ""));
    get(&hall, "GET", path, &[("Range", "bytes=9-")]).await.problem(416, "range_not_satisfiable");

    for key in ["b", "c/1", "c/2", "d"] {
        assert_eq!(put(&hall, key, key.as_bytes()).await.status, 201);
    }
    let keys = |reply: &Reply| {
        let items = reply.json()["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut path = "/api/v1/sources?limit=2".to_owned();
    let mut all = Vec::new();
    loop {
        let page = get(&hall, "GET", &path, &[]).await;
        all.push(keys(&page));
        let Some(cursor) = page.json()["next_cursor"].as_str().map(str::to_owned) else { break };
        assert!(page.header("link").unwrap().contains(&cursor));
        path = format!("/api/v1/sources?limit=2&cursor={cursor}");
    }
    assert_eq!(all, [vec!["2026/sales ä.csv", "b"], vec!["c/1", "c/2"], vec!["d"]]);
    assert_eq!(keys(&get(&hall, "GET", "/api/v1/sources?prefix=c/", &[]).await), ["c/1", "c/2"]);
    get(&hall, "GET", "/api/v1/sources?cursor=x", &[]).await.problem(400, "bad_request");

    let removed = hall.send("DELETE", "/api/v1/sources/c/1", &hall.client, &[], b"").await;
    assert_eq!(removed.status, 204);
    let gone = get(&hall, "GET", "/api/v1/sources/c/1", &[]).await.problem(404, "not_found");
    assert_eq!(gone, "there is no source \"c/1\"; did you mean \"c/2\"?");
    hall.send("DELETE", "/api/v1/sources/c/1", &hall.client, &[], b"").await.problem(404, "not_found");
    let audit = hall.send("GET", "/api/v1/audit", &hall.admin, &[], b"").await.text();
    assert!(audit.contains("source_put") && audit.contains("source_removed"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_keys_and_bodies_are_refused_and_nothing_is_stored() {
    let hall = hall().await;
    let long = "x".repeat(513);
    for (key, why) in [
        ("a//b", "has no empty names"),
        ("a/", "has no empty names"),
        ("..%2Fup", "has no name that is"),
        ("a/%2E%2E/b", "has no name that is"),
        ("a/-/b", "has no name that is"),
        ("a%00b", "has no control characters"),
        ("a%0Ab", "has no control characters"),
        (long.as_str(), "has at most 512 bytes"),
        ("blake3/00", "is the digest of its data"),
    ] {
        let detail = put(&hall, key, b"x").await.problem(400, "bad_request");
        assert!(detail.contains(why), "{key}: {detail}");
    }
    let wrong = [("Jobhall-Digest", "00".repeat(32))];
    let wrong: Vec<_> = wrong.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let detail =
        hall.send("PUT", "/api/v1/sources/k", &hall.client, &wrong, b"x").await.problem(400, "bad_request");
    assert!(detail.contains("but the body has"), "{detail}");
    let large = ((1_u64 << 30) + 1).to_string();
    hall.send("PUT", "/api/v1/sources/k", &hall.client, &[("Content-Length", &large)], b"")
        .await
        .problem(413, "too_large");
    let listed = get(&hall, "GET", "/api/v1/sources", &[]).await.json();
    assert_eq!(listed["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_read_sources_and_others_need_the_queue() {
    let hall = hall().await;
    assert_eq!(put(&hall, "k", b"x").await.status, 201);
    for (method, path) in [("PUT", "/api/v1/sources/k"), ("DELETE", "/api/v1/sources/k")] {
        for token in [&hall.viewer, &hall.worker] {
            hall.send(method, path, token, &[], b"y").await.problem(403, "forbidden");
        }
    }
    let other = hall.secret(r#"{"role":"client","name":"ci","queues":["ci-*"]}"#).await;
    for (method, path) in [
        ("GET", "/api/v1/sources"),
        ("GET", "/api/v1/sources/k"),
        ("PUT", "/api/v1/sources/k"),
        ("DELETE", "/api/v1/sources/k"),
    ] {
        let detail = hall.send(method, path, &other, &[], b"y").await.problem(403, "forbidden");
        assert!(detail.contains("the queue queries"), "{method} {path}: {detail}");
    }
    let own = hall.secret(r#"{"role":"client","name":"q","queues":["queries"]}"#).await;
    assert_eq!(hall.send("PUT", "/api/v1/sources/k", &own, &[], b"z").await.status, 200);
    assert_eq!(get(&hall, "GET", "/api/v1/sources/k", &[]).await.text(), "z");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_begins_with_the_data_and_is_the_data_without_a_command() {
    let hall = hall().await;
    put(&hall, "k", b"the data").await;
    let alone = get(&hall, "GET", "/q/-R/k/-", &[]).await;
    assert_eq!((alone.status, alone.text().as_str()), (200, "the data"));
    assert_eq!(
        (alone.header("jobhall-cache"), alone.header("content-type")),
        (Some("hit"), Some("text/csv"))
    );
    let promise = hall.post("/api/v1/queries", r#"{"query":"-R/k/-"}"#).await;
    promise.problem(400, "bad_request");
    let unknown = get(&hall, "GET", "/q/-R/kk/-/a", &[]).await.problem(400, "unknown_source");
    assert!(unknown.contains("did you mean \"k\"?"), "{unknown}");

    let asked = hall.send("GET", "/q/-R/k/-/a?wait=0", &hall.client, &[], b"").await;
    assert_eq!(asked.status, 202);
    let given = take(&hall).await;
    let (id, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
    let source = &given["job"]["params"]["sources"][0];
    assert_eq!(source["key"], "k");
    let read = async |digest: &str, lease: &str| {
        let path = format!("/api/v1/attempts/{id}/values/{digest}");
        hall.send("GET", &path, &hall.worker, &[("Jobhall-Lease", lease)], b"").await
    };
    let digest = source["digest"].as_str().unwrap();
    // What the key names by now does not count.
    put(&hall, "k", b"other").await;
    let value = read(digest, lease).await;
    assert_eq!((value.status, value.text().as_str()), (200, "the data"));
    assert_eq!(value.header("jobhall-digest"), Some(digest));
    let other = blake3::hash(b"other").to_hex().to_string();
    read(&other, lease).await.problem(404, "not_found");
    read(digest, &"0".repeat(32)).await.problem(409, "lease_lost");
    fs::remove_file(hall.blob(digest)).unwrap();
    let gone = read(digest, lease).await.problem(409, "conflict");
    assert!(gone.contains("the source \"k\" had is not stored any more"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_a_query_is_read_without_evaluating_it() {
    let hall = hall().await;
    put(&hall, "k", b"x").await;
    let read = async || get(&hall, "GET", "/api/v1/queries?query=-R/k/-/a", &[]).await.json();
    let none = read().await;
    assert_eq!(
        (&none["cache"], &none["state"], &none["job"]),
        (&json!("missing"), &Value::Null, &Value::Null)
    );
    assert_eq!((&none["query"], &none["commands"]), (&json!("-R/k/-/a"), &json!(["a@1"])));
    assert!(hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().is_empty());
    hall.send("GET", "/q/-R/k/-/a?wait=0", &hall.client, &[], b"").await;
    let queued = read().await;
    assert_eq!((&queued["cache"], &queued["state"]), (&json!("missing"), &json!("queued")));
    let given = take(&hall).await;
    hall.word(&given, "accept", b"").await;
    let outcome = json!({"outcome": "succeeded", "value": {"media_type": "a/b", "size": 2, "text": "hi"}});
    assert_eq!(hall.word(&given, "outcome", outcome.to_string().as_bytes()).await.status, 200);
    let made = read().await;
    assert_eq!(
        (&made["cache"], &made["state"], &made["size"]),
        (&json!("hit"), &json!("succeeded"), &json!(2))
    );
    assert_eq!((&made["media_type"], &made["worker"]), (&json!("a/b"), &json!("w")));
    assert_eq!((&made["job"], &made["identity"]), (&given["job"]["id"], &none["identity"]));
    assert!(made["created_at"].is_string() && made["ended_at"].is_string());
    for (query, status, code) in [
        ("?query=zz", 400, "unknown_command"),
        ("?query=-R/k/-", 400, "bad_request"),
        ("", 400, "bad_request"),
    ] {
        get(&hall, "GET", &format!("/api/v1/queries{query}"), &[]).await.problem(status, code);
    }
}

/// Makes all objects look two hours old.
fn age(hall: &TestServer, data: &[u8]) {
    let file = fs::File::open(hall.blob(&blake3::hash(data).to_hex())).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(2 * 3_600)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_a_source_survives_collections_until_it_is_removed() {
    let hall = hall().await;
    let there = |data: &[u8]| hall.blob(&blake3::hash(data).to_hex()).exists();
    put(&hall, "kept", b"kept").await;
    put(&hall, "gone", b"gone").await;
    assert_eq!(hall.send("DELETE", "/api/v1/sources/gone", &hall.client, &[], b"").await.status, 204);
    age(&hall, b"kept");
    age(&hall, b"gone");
    wait_until("a collection", async || !there(b"gone")).await;
    assert!(there(b"kept"));
    assert_eq!(get(&hall, "GET", "/api/v1/sources/kept", &[]).await.text(), "kept");
    // It is known after a restart too.
    let hall = hall.restart(Config { reserved: RESERVED, ..Config::default() }).await;
    put(&hall, "gone", b"gone").await;
    hall.send("DELETE", "/api/v1/sources/gone", &hall.client, &[], b"").await;
    age(&hall, b"kept");
    age(&hall, b"gone");
    wait_until("a collection", async || !hall.blob(&blake3::hash(b"gone").to_hex()).exists()).await;
    assert_eq!(get(&hall, "GET", "/api/v1/sources/kept", &[]).await.text(), "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_and_large_data_are_streamed() {
    let hall = hall().await;
    assert_eq!(put(&hall, "empty", b"").await.json()["size"], 0);
    let empty = get(&hall, "GET", "/api/v1/sources/empty", &[]).await;
    assert_eq!((empty.status, empty.text().as_str()), (200, ""));
    let large: Vec<u8> = (0..6_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    assert_eq!(put(&hall, "large", &large).await.json()["size"], 6_000_000);
    assert_eq!(get(&hall, "GET", "/api/v1/sources/large", &[]).await.body, large);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_value_is_served_from_the_blob_store_and_made_again_if_it_is_damaged() {
    let hall = hall().await;
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let work = async || {
        let given = take(&hall).await;
        let kept = hall.keep(&given, "result", &[], &bytes).await;
        assert_eq!(kept.status, 200, "{kept:?}");
        let value = json!({"media_type": "application/x-a", "size": bytes.len(), "digest": digest});
        let outcome = json!({"outcome": "succeeded", "value": value}).to_string();
        assert_eq!(hall.word(&given, "outcome", outcome.as_bytes()).await.status, 200);
        given["job"]["id"].as_u64().unwrap()
    };
    let ask =
        async |headers: &[(&str, &str)]| hall.send("GET", "/q/a?wait=0", &hall.client, headers, b"").await;
    assert_eq!(ask(&[]).await.status, 202);
    let job = work().await;
    for path in ["/q/a".to_owned(), format!("/api/v1/queries/{job}/value")] {
        let whole = get(&hall, "GET", &path, &[]).await;
        assert_eq!((whole.status, whole.body.len()), (200, bytes.len()), "{path}");
        assert_eq!(whole.body, bytes);
        assert_eq!(whole.header("content-length"), Some("200000"));
        assert_eq!(whole.header("content-type"), Some("application/x-a"));
        assert_eq!(whole.header("content-security-policy"), Some("sandbox; default-src 'none'"));
        let tag = format!("\"{digest}\"");
        assert_eq!(whole.header("etag"), Some(tag.as_str()));
        assert_eq!(get(&hall, "GET", &path, &[("If-None-Match", &tag)]).await.status, 304);
        let part = get(&hall, "GET", &path, &[("Range", "bytes=-4")]).await;
        assert_eq!((part.status, part.body.as_slice()), (206, &bytes[199_996..]));
        let head = get(&hall, "HEAD", &path, &[]).await;
        assert_eq!((head.status, head.header("content-length")), (200, Some("200000")));
    }
    let shown = get(&hall, "GET", &format!("/api/v1/queries/{job}"), &[]).await.json();
    assert_eq!((&shown["size"], &shown["media_type"]), (&json!(200_000), &json!("application/x-a")));

    let mut damaged = bytes.clone();
    damaged[7] ^= 1;
    fs::write(hall.blob(&digest), &damaged).unwrap();
    // The promise names bytes that are not there; the query makes them again.
    let broken = get(&hall, "GET", &format!("/api/v1/queries/{job}/value"), &[]).await;
    let detail = broken.problem(409, "conflict");
    assert!(detail.contains("ask for the query again"), "{detail}");
    let asked = ask(&[]).await;
    assert_eq!((asked.status, &asked.json()["created"]), (202, &json!(1)));
    assert!(work().await > job);
    for _ in 0..3 {
        let whole = ask(&[]).await;
        assert_eq!((whole.status, whole.header("jobhall-cache")), (200, Some("hit")));
        assert_eq!(whole.body, bytes);
    }
}
