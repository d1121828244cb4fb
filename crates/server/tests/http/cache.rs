//! The cache of values over HTTP.

use jobhall_engine::Config;
use jobhall_server::RESERVED;
use serde_json::{Value, json};

use crate::queries::{hall, work};
use crate::server::{Reply, TestServer, wait_until};

async fn get(hall: &TestServer, path: &str, token: &str) -> Reply {
    hall.send("GET", path, token, &[], b"").await
}

/// Has the value of a query made.
async fn made(hall: &TestServer, query: &str, value: &str) {
    let path = format!("/q/{query}");
    let (reply, _) = tokio::join!(get(hall, &path, &hall.client), work(hall, value));
    assert_eq!((reply.status, reply.header("jobhall-cache")), (200, Some("computed")), "{query}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_from_memory_is_answered_as_one_from_the_store() {
    let hall = hall().await;
    made(&hall, "a", "<b>1</b>").await;
    let warm = get(&hall, "/q/a", &hall.viewer).await;
    let hall = hall.restart(Config { reserved: RESERVED, ..Config::default() }).await;
    let cold = get(&hall, "/q/a", &hall.viewer).await;
    let again = get(&hall, "/q/a?wait=5", &hall.viewer).await;
    let heads = |reply: &Reply| {
        let names = ["content-type", "etag", "jobhall-cache", "cache-control", "content-security-policy"];
        let more = ["x-content-type-options", "content-length"];
        names.iter().chain(&more).map(|name| reply.header(name).map(str::to_owned)).collect::<Vec<_>>()
    };
    for reply in [&warm, &cold, &again] {
        assert_eq!((reply.status, reply.text().as_str()), (200, "<b>1</b>"));
        assert_eq!(heads(reply), heads(&warm));
        assert!(reply.header("age").is_some() && reply.header("x-request-id").is_some());
    }
    // A value in memory does not hide a request that is wrong or not permitted.
    get(&hall, "/q/a?wait=3601", &hall.viewer).await.problem(400, "bad_request");
    get(&hall, "/q/a?weight=1", &hall.viewer).await.problem(400, "bad_request");
    let other = hall.secret(r#"{"role":"client","name":"ci","queues":["ci-*"]}"#).await;
    get(&hall, "/q/a", &other).await.problem(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_listed_dropped_and_pinned() {
    let hall = hall().await;
    for (query, value) in [("a-1", "one"), ("a-2", "two"), ("b", "three")] {
        made(&hall, query, value).await;
    }
    let list = async |path: &str| get(&hall, path, &hall.viewer).await.json()["items"].clone();
    let queries = |items: &Value| {
        let items = items.as_array().unwrap().iter();
        items.map(|item| item["query"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(queries(&list("/api/v1/cache").await), ["b", "a-2", "a-1"]);
    assert_eq!(queries(&list("/api/v1/cache?command=a").await), ["a-2", "a-1"]);
    let first = get(&hall, "/api/v1/cache?limit=2", &hall.viewer).await.json();
    let next = format!("/api/v1/cache?limit=2&cursor={}", first["next_cursor"].as_str().unwrap());
    assert_eq!(queries(&list(&next).await), ["a-1"]);
    let one = list("/api/v1/cache?query=a-1").await;
    assert_eq!((&one[0]["size"], &one[0]["commands"]), (&json!(3), &json!(["a@1"])));
    assert_eq!((&one[0]["pinned"], &one[0]["media_type"]), (&json!(false), &json!("text/html")));
    assert_eq!(list("/api/v1/cache?query=a-9").await, json!([]));

    let pin = hall.send("PUT", "/api/v1/cache/pins/a-1", &hall.client, &[], b"").await;
    assert_eq!((pin.status, pin.json()["query"].as_str()), (201, Some("a-1")));
    assert_eq!(hall.send("PUT", "/api/v1/cache/pins/a-1", &hall.client, &[], b"").await.status, 200);
    assert_eq!(list("/api/v1/cache?query=a-1").await[0]["pinned"], true);

    let drop = async |words: &str| {
        let path = format!("/api/v1/cache?{words}");
        hall.send("DELETE", &path, &hall.client, &[], b"").await
    };
    let counted = drop("command=a&dry_run=true").await.json();
    assert_eq!(counted, json!({"values": 1, "bytes": 3, "kept": 1}));
    assert_eq!(drop("command=a").await.json(), counted);
    assert_eq!(queries(&list("/api/v1/cache").await), ["b", "a-1"]);
    assert_eq!(drop("query=a-1").await.json()["values"], 1);
    made(&hall, "a-1", "again").await;
    for wrong in ["", "all=false", "all=true&command=a", "query=a&source=b", "command=A"] {
        drop(wrong).await.problem(400, "bad_request");
    }

    let identity = pin.json()["identity"].as_str().unwrap().to_owned();
    let unpin = format!("/api/v1/cache/pins/{identity}");
    assert_eq!(hall.send("DELETE", &unpin, &hall.client, &[], b"").await.status, 204);
    hall.send("DELETE", &unpin, &hall.client, &[], b"").await.problem(404, "not_found");
    hall.send("DELETE", "/api/v1/cache/pins/a-1", &hall.client, &[], b"").await.problem(404, "not_found");

    let verified = hall.send("POST", "/api/v1/cache/verify", &hall.client, &[], b"").await;
    assert_eq!(verified.json(), json!({"checked": 2, "damaged": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_read_the_cache_and_change_nothing() {
    let hall = hall().await;
    made(&hall, "a", "one").await;
    for path in ["/api/v1/cache", "/api/v1/cache/stats", "/api/v1/cache?query=a"] {
        assert_eq!(get(&hall, path, &hall.viewer).await.status, 200, "{path}");
    }
    let other = hall.secret(r#"{"role":"client","name":"ci","queues":["ci-*"]}"#).await;
    for (method, path) in [
        ("DELETE", "/api/v1/cache?all=true"),
        ("PUT", "/api/v1/cache/pins/a"),
        ("DELETE", "/api/v1/cache/pins/a"),
        ("POST", "/api/v1/cache/verify"),
    ] {
        for token in [&hall.viewer, &hall.worker, &other] {
            hall.send(method, path, token, &[], b"").await.problem(403, "forbidden");
        }
    }
    for path in ["/api/v1/cache", "/api/v1/cache/stats"] {
        get(&hall, path, &other).await.problem(403, "forbidden");
    }
    assert_eq!(get(&hall, "/q/a", &hall.viewer).await.text(), "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_the_cache_are_in_the_metrics_and_the_figures() {
    let hall = hall().await;
    made(&hall, "a", "one").await;
    for _ in 0..3 {
        assert_eq!(get(&hall, "/q/a", &hall.client).await.header("jobhall-cache"), Some("hit"));
    }
    let failed = async {
        let offer = r#"{"slots":1,"wait_s":10,"abilities":"commands=[b@1]","accepts":"type=q.b"}"#;
        let given = hall.work("/api/v1/vacancies", offer).await.json()["attempts"][0].clone();
        let outcome = br#"{"outcome":"failed","error":{"reason":"exit_1","explanation":"no"}}"#;
        assert_eq!(hall.word(&given, "outcome", outcome).await.status, 200);
    };
    let (reply, ()) = tokio::join!(get(&hall, "/q/b", &hall.client), failed);
    assert_eq!(reply.status, 422);
    let shown = async || hall.get("/metrics").await.text();
    let lines = [
        "jobhall_query_requests_total{result=\"hit\"} 3",
        "jobhall_query_requests_total{result=\"joined\"} 0",
        "jobhall_query_requests_total{result=\"computed\"} 1",
        "jobhall_query_requests_total{result=\"failed\"} 1",
        "jobhall_query_seconds_count 5",
        "jobhall_cache_values 1",
        "jobhall_cache_bytes 3",
        "jobhall_cache_evictions_total 0",
    ];
    let text = shown().await;
    for line in lines {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    let stats = async || hall.get("/api/v1/cache/stats").await.json();
    wait_until("both ends", async || stats().await["commands"][1]["failed"] == 1).await;
    wait_until("the computed value", async || stats().await["commands"][0]["computed"] == 1).await;
    let stats = stats().await;
    let a = json!({"command": "a", "hit": 3, "joined": 0, "computed": 1, "skipped": 0, "failed": 0});
    assert_eq!(stats["commands"][0], a);
    assert_eq!(
        (&stats["values"], &stats["bytes"], &stats["misses"]["new"]),
        (&json!(1), &json!(3), &json!(2))
    );
    assert_eq!(stats["max_values"], 1_000_000);
}
