//! Queries over HTTP: a long poll plays the worker.

use jobhall_engine::Config;
use jobhall_server::RESERVED;
use serde_json::{Value, json};

use crate::server::{Reply, TestServer};

const PUT: &str = r#"{"commands":{
    "a":{"version":"1","command":{"run":["a"],"args":[{"name":"x","default":"z"}]}},
    "b":{"version":"1","command":{"run":["b"]}}
}}"#;

/// A hall with the commands `a` and `b`, declared by its worker.
pub async fn hall() -> TestServer {
    let hall = TestServer::with(Config { reserved: RESERVED, ..Config::default() }).await;
    let declared = hall.send("PUT", "/api/v1/commands", &hall.worker, &[], PUT.as_bytes()).await;
    assert_eq!((declared.status, declared.json()), (200, json!({"changed": 2})));
    hall
}

/// Takes a job, and answers with this value.
pub async fn work(hall: &TestServer, value: &str) -> Value {
    let offer = r#"{"slots":1,"wait_s":10,"abilities":"commands=[a@1,b@1]","accepts":"type in (q.a,q.b)"}"#;
    let reply = hall.work("/api/v1/vacancies", offer).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let given = reply.json()["attempts"][0].clone();
    let outcome = json!({"outcome": "succeeded", "value":
        {"media_type": "text/html", "size": value.len(), "text": value}});
    assert_eq!(hall.word(&given, "outcome", outcome.to_string().as_bytes()).await.status, 200);
    given
}

async fn get(hall: &TestServer, method: &str, path: &str, token: &str, headers: &[(&str, &str)]) -> Reply {
    hall.send(method, path, token, headers, b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_served_as_what_it_is_and_cannot_act_for_the_server() {
    let hall = hall().await;
    let asked = hall.send("POST", "/api/v1/queries", &hall.client, &[], br#"{"query":"/a-z/"}"#).await;
    let promise = asked.json();
    assert_eq!(
        (asked.status, &promise["query"], &promise["cache"]),
        (202, &json!("a-z"), &json!("computed"))
    );
    assert_eq!(asked.header("location"), Some(format!("/api/v1/queries/{}", promise["id"]).as_str()));
    work(&hall, "<b>1</b>").await;
    let path = format!("/api/v1/queries/{}/value", promise["id"]);
    for path in [path.as_str(), "/q/a", "/q/a-z", "/q/a-%7A/"] {
        let value = get(&hall, "GET", path, &hall.viewer, &[]).await;
        assert_eq!((value.status, value.text().as_str()), (200, "<b>1</b>"), "{path}");
        assert_eq!(value.header("content-type"), Some("text/html"));
        assert_eq!(value.header("jobhall-cache"), Some("hit"));
        assert_eq!(value.header("cache-control"), Some("private, no-cache"));
        assert_eq!(value.header("content-security-policy"), Some("sandbox; default-src 'none'"));
        assert_eq!(value.header("x-content-type-options"), Some("nosniff"));
        assert!(value.header("age").is_some());
        let tag = value.header("etag").unwrap().to_owned();
        let known = get(&hall, "GET", path, &hall.viewer, &[("If-None-Match", &tag)]).await;
        assert_eq!((known.status, known.text().as_str()), (304, ""));
        let head = get(&hall, "HEAD", path, &hall.viewer, &[]).await;
        assert_eq!((head.status, head.header("etag")), (200, Some(tag.as_str())), "{path}");
    }
    let shown = hall.get(&format!("/api/v1/queries/{}", promise["id"])).await.json();
    assert_eq!((&shown["state"], &shown["size"]), (&json!("succeeded"), &json!(8)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_the_value_or_gets_its_promise() {
    let hall = hall().await;
    let asked = get(&hall, "GET", "/q/a/b?wait=0", &hall.client, &[]).await;
    assert_eq!((asked.status, &asked.json()["created"]), (202, &json!(2)));
    let preferred = get(&hall, "GET", "/q/a/b", &hall.client, &[("Prefer", "respond-async, wait=0")]).await;
    assert_eq!((preferred.status, &preferred.json()["cache"]), (202, &json!("joined")));
    assert_eq!(preferred.json()["id"], asked.json()["id"]);
    let (value, ()) = tokio::join!(get(&hall, "GET", "/q/a/b", &hall.client, &[]), async {
        work(&hall, "one").await;
        let given = work(&hall, "two").await;
        // The second step could read the value of the first, and nothing else.
        let params = given["job"]["params"].clone();
        assert_eq!(params["query"], "a/b");
    });
    assert_eq!((value.status, value.text().as_str()), (200, "two"));
    assert_eq!(value.header("jobhall-cache"), Some("joined"));
    get(&hall, "GET", "/q/a?wait=3601", &hall.client, &[]).await.problem(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_reads_the_values_of_its_inputs_under_its_lease() {
    let hall = hall().await;
    get(&hall, "GET", "/q/a/b?wait=0", &hall.client, &[]).await;
    work(&hall, "first").await;
    let offer = r#"{"slots":1,"wait_s":10,"abilities":"commands=[b@1]","accepts":"type=q.b"}"#;
    let given = hall.work("/api/v1/vacancies", offer).await.json()["attempts"][0].clone();
    let (id, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
    let input = given["job"]["params"]["inputs"][0].as_str().unwrap().to_owned();
    let own = given["job"]["params"]["identity"].as_str().unwrap().to_owned();
    let read = async |identity: &str, lease: &str| {
        let path = format!("/api/v1/attempts/{id}/values/{identity}");
        get(&hall, "GET", &path, &hall.worker, &[("Jobhall-Lease", lease)]).await
    };
    let value = read(&input, lease).await;
    assert_eq!((value.status, value.text().as_str()), (200, "first"));
    assert_eq!(value.header("content-type"), Some("text/html"));
    read(&own, lease).await.problem(404, "not_found");
    read("nothing", lease).await.problem(404, "not_found");
    read(&input, &"0".repeat(32)).await.problem(409, "lease_lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_and_heads_compute_nothing_and_others_need_the_queue() {
    let hall = hall().await;
    for (method, token) in [("GET", &hall.viewer), ("HEAD", &hall.client)] {
        let refused = get(&hall, method, "/q/a/b", token, &[]).await;
        assert_eq!(refused.status, 409, "{method}");
    }
    let refused = get(&hall, "GET", "/q/a/b", &hall.viewer, &[]).await;
    let plan = refused.json()["query"]["plan"].clone();
    refused.problem(409, "not_computed");
    assert_eq!((plan[0]["query"].as_str(), plan[1]["cache"].as_str()), (Some("a"), Some("missing")));
    assert_eq!(plan[1]["commands"], json!(["b@1"]));
    hall.send("POST", "/api/v1/queries", &hall.viewer, &[], br#"{"query":"a"}"#)
        .await
        .problem(403, "forbidden");
    let known = get(&hall, "GET", "/api/v1/commands", &hall.worker, &[]).await.json();
    assert_eq!(known["items"][0]["name"], "a", "a worker reads whether it has to declare again: {known}");
    let other = hall.secret(r#"{"role":"client","name":"ci","queues":["ci-*"]}"#).await;
    for (method, path) in [
        ("GET", "/q/a"),
        ("POST", "/api/v1/queries"),
        ("GET", "/api/v1/commands"),
        ("GET", "/api/v1/queries/1"),
    ] {
        let detail =
            hall.send(method, path, &other, &[], br#"{"query":"a"}"#).await.problem(403, "forbidden");
        assert!(detail.contains("the queue queries"), "{method} {path}: {detail}");
    }
    let jobs = hall.get("/api/v1/jobs").await.json();
    assert!(jobs["items"].as_array().unwrap().is_empty(), "nothing is queued: {jobs}");
    let own = hall.secret(r#"{"role":"client","name":"q","queues":["queries"]}"#).await;
    assert_eq!(get(&hall, "GET", "/q/a?wait=0", &own, &[]).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_query_is_a_problem_with_its_place_and_queues_nothing() {
    let hall = hall().await;
    for (query, status, code, column) in [
        ("a/zz", 400, "unknown_command", 3),
        ("a-1-2", 400, "wrong_argument", 1),
        ("a/B", 400, "query_syntax", 3),
        ("-R/k/-/a", 400, "unknown_source", 1),
    ] {
        let refused = get(&hall, "GET", &format!("/q/{query}"), &hall.client, &[]).await;
        assert_eq!(refused.json()["query"]["column"], column, "{query}");
        refused.problem(status, code);
    }
    let long = format!("/q/a-{}", "x".repeat(8_191));
    get(&hall, "GET", &long, &hall.client, &[]).await.problem(414, "query_too_long");
    let long = json!({"query": format!("a-{}", "x".repeat(65_536))}).to_string();
    hall.send("POST", "/api/v1/queries", &hall.client, &[], long.as_bytes()).await.problem(413, "too_large");
    let wrong =
        r#"{"commands":{"c":{"version":"1","command":{"run":["sh","-c","{x}"],"args":[{"name":"x"}]}}}}"#;
    let detail = hall
        .send("PUT", "/api/v1/commands", &hall.worker, &[], wrong.as_bytes())
        .await
        .problem(400, "bad_request");
    assert!(detail.starts_with("commands.c.run[2]: {x} would be run as code"), "{detail}");
    let known = hall.get("/api/v1/commands").await.json();
    assert_eq!(known["items"].as_array().unwrap().len(), 2);
    assert!(hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_step_is_a_problem_and_no_error_of_the_server() {
    let hall = hall().await;
    let asked = get(&hall, "GET", "/q/a/b/a?wait=0", &hall.client, &[]).await.json();
    let offer = r#"{"slots":1,"wait_s":10,"abilities":"commands=[a@1]","accepts":"type=q.a"}"#;
    let given = hall.work("/api/v1/vacancies", offer).await.json()["attempts"][0].clone();
    let outcome = br#"{"outcome":"failed","error":{"reason":"exit_1","explanation":"no such file"}}"#;
    assert_eq!(hall.word(&given, "outcome", outcome).await.status, 200);
    let failed =
        get(&hall, "GET", &format!("/api/v1/queries/{}/value", asked["id"]), &hall.viewer, &[]).await;
    let query = failed.json()["query"].clone();
    let detail = failed.problem(422, "step_failed");
    assert!(detail.starts_with("a (job 1): exit_1: no such file"), "{detail}");
    assert_eq!((&query["query"], &query["marks"], &query["job"]), (&json!("a/b/a"), &json!("^"), &json!(1)));
}
