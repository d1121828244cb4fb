use crate::server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn queues_tell_their_open_jobs() {
    let hall = TestServer::start().await;
    assert_eq!(hall.get("/api/v1/queues").await.json()["items"].as_array().unwrap().len(), 0);
    hall.get("/api/v1/queues/mail").await.problem(404, "not_found");
    hall.get("/api/v1/queues/no%20name").await.problem(400, "bad_request");
    for body in [
        r#"{"type":"a","queue":"mail"}"#,
        r#"{"type":"a","queue":"mail"}"#,
        r#"{"type":"a","queue":"mail","run_at":"2999-01-01T00:00:00Z"}"#,
        r#"{"type":"a","queue":"web"}"#,
    ] {
        hall.submit(body).await;
    }
    let held = hall.take().await;
    let mail = hall.get("/api/v1/queues/mail").await.json();
    assert_eq!((mail["name"].as_str(), mail["ready"].as_u64()), (Some("mail"), Some(1)));
    let jobs = |state: &str| mail["jobs"][state].as_u64();
    assert_eq!([jobs("queued"), jobs("scheduled"), jobs("assigned")], [Some(1), Some(1), Some(1)]);
    assert_eq!([jobs("blocked"), jobs("accepted"), jobs("running"), jobs("retrying")], [Some(0); 4]);
    assert!(mail["oldest_ready_at"].is_string() && mail["oldest_ready_ms"].is_u64(), "{mail}");
    assert_eq!((mail["workers"].as_u64(), mail["free_slots"].as_u64()), (Some(1), Some(0)));
    let all = hall.get("/api/v1/queues").await.json();
    assert!(all["items"][0].get("workers").is_none(), "included for one queue");
    let names: Vec<_> = all["items"].as_array().unwrap().iter().map(|queue| queue["name"].clone()).collect();
    assert_eq!(names, ["mail", "web"]);
    hall.word(&held, "outcome", br#"{"outcome":"succeeded"}"#).await;
    assert_eq!(hall.get("/api/v1/queues/mail").await.json()["jobs"]["assigned"].as_u64(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_come_in_pages() {
    let hall = TestServer::start().await;
    let all: Vec<_> = (0..5).map(|n| format!(r#"{{"type":"t","queue":"q{n}"}}"#)).collect();
    hall.post("/api/v1/jobs", &format!("[{}]", all.join(","))).await;
    let mut path = "/api/v1/queues?limit=2".to_owned();
    let mut sizes = Vec::new();
    loop {
        let page = hall.get(&path).await.json();
        sizes.push(page["items"].as_array().unwrap().len());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/api/v1/queues?limit=2&cursor={cursor}");
    }
    assert_eq!(sizes, [2, 2, 1]);
    for bad in ["limit=0", "limit=501", "cursor=x", "cursor=a%20b", "sort=up"] {
        hall.get(&format!("/api/v1/queues?{bad}")).await.problem(400, "bad_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_tell_the_hall_as_a_whole() {
    let hall = TestServer::start().await;
    hall.submit(r#"{"type":"a"}"#).await;
    let given = hall.take().await;
    hall.word(&given, "accept", b"").await;
    hall.word(&given, "outcome", br#"{"outcome":"succeeded"}"#).await;
    hall.submit(r#"{"type":"a"}"#).await;
    let stats = hall.get("/api/v1/stats").await.json();
    assert_eq!(stats["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(stats["token"], serde_json::json!({ "name": "v", "role": "viewer" }));
    assert_eq!((stats["jobs"]["queued"].as_u64(), stats["ready"].as_u64()), (Some(1), Some(1)));
    assert_eq!(stats["totals"]["submitted"].as_u64(), Some(2));
    assert_eq!(stats["totals"]["completed"]["succeeded"].as_u64(), Some(1));
    assert_eq!(stats["totals"]["attempts"]["succeeded"].as_u64(), Some(1));
    assert_eq!(stats["submitted"]["per_s_1m"].as_f64(), Some(2.0 / 60.0));
    assert_eq!(stats["completed"]["per_s_5m"].as_f64(), Some(1.0 / 300.0));
    assert_eq!([stats["wait"]["count"].as_u64(), stats["run"]["count"].as_u64()], [Some(1), Some(1)]);
    let (p50, p95) = (stats["wait"]["p50_ms"].as_f64().unwrap(), stats["wait"]["p95_ms"].as_f64().unwrap());
    assert!(p50 > 0.0 && p50 <= p95, "{p50} {p95}");
    assert!(stats["commit"]["count"].as_u64().unwrap() >= 3 && stats["commit"]["p95_ms"].is_f64());
    assert_eq!(stats["workers"]["busy"].as_u64(), Some(0));
    let disk = &stats["disk"];
    assert!(disk["store_bytes"].as_u64().unwrap() > 0 && disk["free_bytes"].as_u64().unwrap() > 0);
    assert!(stats["connections"].as_u64().unwrap() >= 1, "this one at least");
    assert_eq!(stats["live_clients"].as_u64(), Some(0));
    let read: jobhall_protocol::Stats = serde_json::from_value(stats).unwrap();
    assert_eq!(read.totals.submitted, 2);
}
