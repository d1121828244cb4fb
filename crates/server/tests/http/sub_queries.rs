//! Queries that a running step asks for, with the token of its process.

use serde_json::{Value, json};

use crate::queries::{hall, work};
use crate::server::{Reply, TestServer};

/// Takes a step of a query.
async fn take(hall: &TestServer) -> Value {
    let offer = r#"{"slots":1,"wait_s":10,"abilities":"commands=[a@1,b@1]","accepts":"type in (q.a,q.b)"}"#;
    let reply = hall.work("/api/v1/vacancies", offer).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["attempts"][0].clone()
}

/// A step of `a` that runs; its query is in the background.
async fn running(hall: &TestServer) -> Value {
    let asked = hall.send("POST", "/api/v1/queries", &hall.client, &[], br#"{"query":"a"}"#).await;
    assert_eq!(asked.status, 202, "{asked:?}");
    let given = take(hall).await;
    assert_eq!(hall.word(&given, "accept", b"").await.status, 200);
    given
}

/// A request of the process of a step.
async fn process(hall: &TestServer, given: &Value, method: &str, path: &str, body: &Value) -> Reply {
    let (id, token) = (given["id"].as_str().unwrap(), given["token"].as_str().unwrap());
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    hall.send(method, &format!("/api/v1/attempts/{id}/{path}"), token, &[], &body).await
}

async fn ask(hall: &TestServer, given: &Value, query: &str) -> Reply {
    process(hall, given, "POST", "queries", &json!({ "query": query })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn q14_a_pending_value_is_waited_for_and_its_job_is_assigned_to_the_asker() {
    let hall = hall().await;
    let given = running(&hall).await;
    let parent = given["job"]["id"].as_u64().unwrap();
    let pending = ask(&hall, &given, "a-2/b").await;
    let answer = pending.json();
    assert_eq!((pending.status, answer["answer"].as_str()), (202, Some("pending")), "{pending:?}");
    let job = answer["job"].as_u64().unwrap();
    let again = ask(&hall, &given, "a-2/b").await.json();
    assert_eq!((again["job"].as_u64(), &again["identity"]), (Some(job), &answer["identity"]), "the same job");
    let made = hall.get(&format!("/api/v1/jobs/{job}")).await.json();
    assert_eq!((&made["parent"], &made["type"]), (&json!(parent), &json!("q.b")));
    let path = format!("queries/{job}");
    assert_eq!(process(&hall, &given, "GET", &path, &Value::Null).await.status, 202);
    let still = process(&hall, &given, "POST", "wait", &json!({"jobs": [job], "wait_s": 0})).await;
    assert_eq!((still.status, hall.state(parent).await.as_str()), (204, "waiting"));
    // The only worker is the one that waits.
    work(&hall, "one").await;
    let body = json!({"jobs": [job], "wait_s": 30});
    let waiting = process(&hall, &given, "POST", "wait", &body);
    let (waited, _) = tokio::join!(waiting, work(&hall, "two"));
    assert_eq!(waited.status, 200, "{waited:?}");
    assert_eq!(hall.state(parent).await, "running");
    let ready = process(&hall, &given, "GET", &path, &Value::Null).await;
    let expected = json!({"answer": "ready", "identity": answer["identity"], "job": job,
        "media_type": "text/html", "size": 3, "text": "two"});
    assert_eq!((ready.status, ready.json()), (200, expected.clone()));
    let known = ask(&hall, &given, "a-2/b").await;
    assert_eq!((known.status, known.json()), (200, expected), "by value");
}

#[tokio::test(flavor = "multi_thread")]
async fn q14_a_value_that_is_not_small_is_read_by_its_identity() {
    let hall = hall().await;
    let put = hall.send("PUT", "/api/v1/sources/k", &hall.client, &[], b"data").await;
    assert_eq!(put.status, 201, "{put:?}");
    let given = running(&hall).await;
    let hidden = hall.send("PUT", "/api/v1/sources/hidden", &hall.client, &[], b"other").await.json();
    let answer = ask(&hall, &given, "-R/k/-").await;
    assert_eq!((answer.status, &answer.json()["size"], answer.json().get("text")), (200, &json!(4), None));
    let identity = answer.json()["identity"].as_str().unwrap().to_owned();
    let read = process(&hall, &given, "GET", &format!("values/{identity}"), &Value::Null).await;
    assert_eq!((read.status, read.text().as_str()), (200, "data"));
    // What it has not asked for it may not read.
    let digest = hidden["digest"].as_str().unwrap();
    assert_eq!(process(&hall, &given, "GET", &format!("values/{digest}"), &Value::Null).await.status, 404);
    let pending = ask(&hall, &given, "b").await.json();
    let identity = pending["identity"].as_str().unwrap();
    let early = process(&hall, &given, "GET", &format!("values/{identity}"), &Value::Null).await;
    assert_eq!(early.status, 409, "it is not there yet");
    work(&hall, "value of b").await;
    let read = process(&hall, &given, "GET", &format!("values/{identity}"), &Value::Null).await;
    assert_eq!((read.status, read.text().as_str()), (200, "value of b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn q14_a_lost_lease_reads_nothing() {
    let hall = hall().await;
    let given = running(&hall).await;
    let job = ask(&hall, &given, "b").await.json();
    work(&hall, "secret").await;
    let path = format!("queries/{}", job["job"]);
    let values = format!("values/{}", job["identity"].as_str().unwrap());
    for path in [path.as_str(), values.as_str()] {
        assert_eq!(process(&hall, &given, "GET", path, &Value::Null).await.status, 200, "{path}");
    }
    let outcome = br#"{"outcome":"succeeded","value":{"media_type":"text/plain","size":1,"text":"1"}}"#;
    assert_eq!(hall.word(&given, "outcome", outcome).await.status, 200);
    let jobs = hall.get("/api/v1/jobs").await.text();
    let refused = ask(&hall, &given, "a-3").await;
    assert!([401, 409].contains(&refused.status), "{refused:?}");
    for path in [path.as_str(), values.as_str()] {
        let refused = process(&hall, &given, "GET", path, &Value::Null).await;
        assert!([401, 409].contains(&refused.status), "{refused:?}");
        // The worker has its own token, and no lease either.
        let of_worker = hall.word(&given, "queries", br#"{"query":"a-3"}"#).await;
        assert_eq!(of_worker.status, 409, "{of_worker:?}");
    }
    assert_eq!(hall.get("/api/v1/jobs").await.text(), jobs, "nothing was created");
    // What it asked for was noted by the server.
    let value = hall.get(&format!("/api/v1/jobs/{}", given["job"]["id"])).await.json();
    assert_eq!(value["result"]["asked"], json!([["b", job["identity"]]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_step_of_a_query_asks_and_a_wrong_query_creates_nothing() {
    let hall = hall().await;
    hall.submit(r#"{"type":"p","queue":"q"}"#).await;
    let other = hall.take().await;
    let refused = ask(&hall, &other, "a").await;
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("forbidden")), "{refused:?}");
    let given = running(&hall).await;
    let id = given["id"].as_str().unwrap();
    let path = format!("/api/v1/attempts/{id}/queries");
    for token in [&hall.client, &hall.viewer] {
        assert_eq!(hall.send("POST", &path, token, &[], br#"{"query":"a"}"#).await.status, 403);
    }
    let foreign = other["token"].as_str().unwrap();
    assert_eq!(hall.send("POST", &path, foreign, &[], br#"{"query":"a"}"#).await.status, 404);
    let jobs = hall.get("/api/v1/jobs").await.text();
    for (query, status, code) in [
        ("aa", 400, "unknown_command"),
        ("a-1-2", 400, "wrong_argument"),
        ("a/~", 400, "query_syntax"),
        ("-R/none/-/a", 400, "unknown_source"),
        ("a", 409, "query_cycle"),
        ("a/b", 409, "query_cycle"),
    ] {
        let refused = ask(&hall, &given, query).await;
        assert_eq!((refused.status, &refused.json()["code"]), (status, &json!(code)), "{refused:?}");
    }
    let refused = ask(&hall, &given, "b/aa").await.json();
    assert_eq!(refused["query"]["column"], 3);
    assert_eq!(ask(&hall, &given, &"b/".repeat(40_000)).await.status, 413);
    let unasked =
        process(&hall, &given, "GET", &format!("queries/{}", given["job"]["id"]), &Value::Null).await;
    assert_eq!(unasked.status, 404);
    assert_eq!(hall.get("/api/v1/jobs").await.text(), jobs, "nothing was created");
}
