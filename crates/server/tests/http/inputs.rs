//! Inputs of an attempt: what it may read of the jobs that its job comes after, and of its parent.

use serde_json::{Value, json};

use crate::server::{Reply, TestServer};

/// A read by the process of a job, with its own token.
async fn read(hall: &TestServer, given: &Value, path: &str) -> Reply {
    let (id, token) = (given["id"].as_str().unwrap(), given["token"].as_str().unwrap());
    hall.send("GET", &format!("/api/v1/attempts/{id}/inputs{path}"), token, &[], b"").await
}

/// A read by a worker, with the lease.
async fn read_as(hall: &TestServer, worker: &str, given: &Value, path: &str) -> Reply {
    let path = format!("/api/v1/attempts/{}/inputs{path}", given["id"].as_str().unwrap());
    let lease = [("Jobhall-Lease", given["lease"].as_str().unwrap())];
    hall.send("GET", &path, worker, &lease, b"").await
}

async fn ends(hall: &TestServer, given: &Value, report: &Value) {
    assert_eq!(hall.word(given, "outcome", report.to_string().as_bytes()).await.status, 200);
}

async fn succeeds(hall: &TestServer, value: &Value) -> Value {
    let given = hall.take().await;
    ends(hall, &given, &json!({"outcome": "succeeded", "value": value})).await;
    given
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_6_an_attempt_reads_results_and_artifacts_of_the_jobs_it_comes_after_in_order() {
    let hall = TestServer::start().await;
    let first = hall.submit(r#"{"type":"split","key":"a"}"#).await;
    let second = hall.submit(r#"{"type":"load"}"#).await;
    let body = json!({"type": "merge", "after": [second, first]}).to_string();
    let merge = hall.submit(&body).await;
    let given = hall.take().await;
    assert_eq!(given["job"].get("inputs"), None, "a job without dependencies has none");
    hall.keep(&given, "rows/1.csv", &[("Content-Type", "text/csv")], b"a,b\n").await;
    ends(&hall, &given, &json!({"outcome": "succeeded", "value": {"rows": 7}})).await;
    succeeds(&hall, &Value::Null).await;
    let given = hall.take().await;
    assert_eq!((&given["job"]["id"], &given["job"]["inputs"]), (&json!(merge), &json!(2)));
    let listed = json!([
        {"n": 0, "job": second, "type": "load", "key": null, "state": "succeeded", "result": null,
         "artifacts": []},
        {"n": 1, "job": first, "type": "split", "key": "a", "state": "succeeded", "result": {"rows": 7},
         "artifacts": [{"name": "rows/1.csv", "size": 4}]},
    ]);
    for list in [read(&hall, &given, "").await, read_as(&hall, &hall.worker, &given, "").await] {
        assert_eq!((list.status, &list.json()["items"]), (200, &listed), "{}", list.text());
    }
    assert_eq!(read(&hall, &given, "/1").await.json(), json!({"rows": 7}));
    assert_eq!(read(&hall, &given, "/0").await.text(), "null");
    let csv = read(&hall, &given, "/1/artifacts/rows/1.csv").await;
    assert_eq!((csv.text().as_str(), csv.header("content-type")), ("a,b\n", Some("text/csv")));
    let page = read(&hall, &given, "?limit=1").await.json();
    assert_eq!((&page["items"][0]["n"], &page["items"][1]), (&json!(0), &Value::Null));
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    let page = read(&hall, &given, &format!("?cursor={cursor}")).await.json();
    assert_eq!((&page["items"][0], &page["next_cursor"]), (&listed[1], &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_6_an_input_that_is_not_there_is_named_and_nothing_is_read_without_the_lease() {
    let hall = TestServer::start().await;
    let first = hall.submit(r#"{"type":"a","retry":{"max_attempts":1}}"#).await;
    let body = json!({"type": "b", "after": [first], "after_any": true}).to_string();
    let merge = hall.submit(&body).await;
    let given = hall.take().await;
    ends(&hall, &given, &json!({"outcome": "failed"})).await;
    let other = hall.submit(r#"{"type":"c"}"#).await;
    let given = hall.take().await;
    assert_eq!(given["job"]["id"], merge);
    for (path, code, words) in [
        ("/1", "not_found", format!("job {merge} has no input 1: it has 1 inputs, counted from 0")),
        ("/parent", "not_found", format!("job {merge} has no parent")),
        ("/0", "conflict", format!("job {first} is failed and has no result")),
        ("/0/artifacts/x", "not_found", format!("job {first}, which is input 0, has no artifact x")),
        ("/first", "bad_request", "\"first\" is not an input: give a position from 0, or parent".to_owned()),
        ("/-1", "bad_request", "\"-1\" is not an input".to_owned()),
        ("?limit=0", "bad_request", "limit of 0 is outside 1 to 1000".to_owned()),
        ("?cursor=x", "bad_request", "is not a cursor of this list".to_owned()),
    ] {
        let reply = read(&hall, &given, path).await;
        let status = if code == "bad_request" {
            400
        } else if code == "conflict" {
            409
        } else {
            404
        };
        let detail = reply.problem(status, code);
        assert!(detail.contains(&words), "{path}: {detail}");
    }
    let mut foreign = given.clone();
    foreign["id"] = format!("{other}-1").into();
    read(&hall, &foreign, "").await.problem(404, "not_found");
    let mut stale = given.clone();
    stale["lease"] = "0".repeat(32).into();
    for path in ["", "/0", "/0/artifacts/x"] {
        read_as(&hall, &hall.worker, &stale, path).await.problem(409, "lease_lost");
    }
    let thief = hall.secret(r#"{"name":"thief","role":"worker"}"#).await;
    read_as(&hall, &thief, &given, "/0").await.problem(409, "lease_lost");
    read_as(&hall, &hall.client, &given, "/0").await.problem(403, "forbidden");
    ends(&hall, &given, &json!({"outcome": "succeeded"})).await;
    read_as(&hall, &hall.worker, &given, "").await.problem(409, "lease_lost");
    read(&hall, &given, "").await.problem(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_6_the_queue_of_an_input_does_not_matter_to_a_worker_of_another_queue() {
    let hall = TestServer::start().await;
    let first = hall.submit(r#"{"type":"a","queue":"far"}"#).await;
    succeeds(&hall, &json!(1)).await;
    hall.submit(&json!({"type": "b", "queue": "near", "after": [first]}).to_string()).await;
    let near = hall.secret(r#"{"name":"near","role":"worker","queues":["near"]}"#).await;
    let taken = hall.send("POST", "/api/v1/vacancies", &near, &[], br#"{"slots":1,"wait_s":10}"#).await;
    let given = taken.json()["attempts"][0].clone();
    assert_eq!(read_as(&hall, &near, &given, "/0").await.text(), "1");
    assert_eq!(read(&hall, &given, "").await.json()["items"][0]["result"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_6_a_sub_job_reads_what_the_attempt_of_its_parent_has_stored_so_far() {
    let hall = TestServer::start().await;
    let parent = hall.submit(r#"{"type":"p","retry":{"max_attempts":2,"delay":"0s"}}"#).await;
    let lost = hall.take().await;
    hall.keep(&lost, "old", &[], b"1").await;
    ends(&hall, &lost, &json!({"outcome": "failed", "retry": "now"})).await;
    let above = hall.take().await;
    let ask = json!({"call": "c", "job": {"type": "c"}}).to_string();
    assert_eq!(hall.word(&above, "jobs", ask.as_bytes()).await.status, 201);
    assert_eq!(hall.word(&above, "wait", br#"{"wait_s":0}"#).await.status, 204);
    let given = hall.take().await;
    let items = |list: Reply| list.json()["items"].clone();
    let listed = items(read(&hall, &given, "").await);
    assert_eq!((&listed[0]["n"], &listed[0]["job"]), (&json!("parent"), &json!(parent)));
    assert_eq!(listed[0]["artifacts"], json!([]), "what an earlier attempt stored is not there");
    hall.keep(&above, "source.tar", &[], b"tar").await;
    let listed = items(read(&hall, &given, "").await);
    assert_eq!(listed[0]["artifacts"], json!([{"name": "source.tar", "size": 3}]));
    assert_eq!(read(&hall, &given, "/parent/artifacts/source.tar").await.text(), "tar");
    read(&hall, &given, "/parent/artifacts/old").await.problem(404, "not_found");
    let detail = read(&hall, &given, "/parent").await.problem(409, "conflict");
    assert!(detail.contains("is waiting and has no result"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_6_results_beyond_a_mebibyte_and_result_artifacts_are_left_out_and_read_alone() {
    let hall = TestServer::start().await;
    let mut after = Vec::new();
    for _ in 0..6 {
        after.push(hall.submit(r#"{"type":"a"}"#).await);
        succeeds(&hall, &json!("x".repeat(200_000))).await;
    }
    after.push(hall.submit(r#"{"type":"a"}"#).await);
    let large = hall.take().await;
    hall.keep(&large, "result", &[("Content-Type", "application/json")], b"[1]").await;
    ends(&hall, &large, &json!({"outcome": "succeeded"})).await;
    hall.submit(&json!({"type": "b", "after": after}).to_string()).await;
    let given = hall.take().await;
    let list = read(&hall, &given, "").await;
    assert!(list.body.len() < (1 << 20) + 4_096, "{} bytes", list.body.len());
    let items = list.json()["items"].as_array().unwrap().clone();
    let left: Vec<_> = items.iter().map(|item| item["left_out"] == true).collect();
    assert_eq!(left, [false, false, false, false, false, true, true]);
    assert_eq!(read(&hall, &given, "/5").await.json().as_str().map(str::len), Some(200_000));
    assert_eq!(read(&hall, &given, "/6").await.text(), "[1]");
}
