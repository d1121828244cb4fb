//! Sub-jobs with requests only: with a lease, or with the job token of the process.

use serde_json::{Value, json};

use crate::server::{Reply, TestServer, wait_until};

/// A parent job that is assigned to a worker.
async fn parent(hall: &TestServer) -> (u64, Value) {
    let id = hall.submit(r#"{"type":"p","queue":"q"}"#).await;
    (id, hall.take().await)
}

/// A request of the process of a job.
async fn ask(hall: &TestServer, given: &Value, verb: &str, body: &Value) -> Reply {
    let (id, token) = (given["id"].as_str().unwrap(), given["token"].as_str().unwrap());
    let path = format!("/api/v1/attempts/{id}/{verb}");
    hall.send("POST", &path, token, &[], body.to_string().as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_asks_for_jobs_and_waits_for_their_values() {
    let hall = TestServer::start().await;
    let (id, given) = parent(&hall).await;
    let made = ask(&hall, &given, "jobs", &json!({"job": {"type": "c", "key": "k", "params": [1]}})).await;
    assert_eq!((made.status, made.json()["disposition"].as_str()), (201, Some("created")), "{}", made.text());
    let child = made.json()["id"].as_u64().unwrap();
    let job = hall.get(&format!("/api/v1/jobs/{child}")).await.json();
    assert_eq!((&job["parent"], &job["queue"]), (&json!(id), &json!("q")), "in the queue of its parent");
    let again = ask(&hall, &given, "jobs", &json!({"call": "c/k", "job": {"type": "c"}})).await;
    assert_eq!((again.status, again.json()["id"].as_u64()), (200, Some(child)), "by the same name");
    let still = ask(&hall, &given, "wait", &json!({"wait_s": 0})).await;
    assert_eq!((still.status, hall.state(id).await.as_str()), (204, "waiting"));
    let explained = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(explained["reasons"][0]["code"], "waits_for_jobs");
    assert!(explained["reasons"][0]["text"].as_str().unwrap().contains(&format!("job {child} is queued")));
    let taken = hall.take().await;
    let long = json!({"jobs": [child], "wait_s": 30});
    let waiting = ask(&hall, &given, "wait", &long);
    let working = hall.word(&taken, "outcome", br#"{"outcome":"succeeded","value":{"sum":7}}"#);
    let (waited, done) = tokio::join!(waiting, working);
    assert_eq!((done.status, waited.status), (200, 200), "{}", waited.text());
    let told = json!([{"id": child, "state": "succeeded", "outcome": "succeeded", "result": {"sum": 7}}]);
    assert_eq!(waited.json()["jobs"], told);
    assert_eq!(hall.state(id).await, "running");
    let known = ask(&hall, &given, "jobs", &json!({"call": "c/k", "job": {"type": "c"}})).await.json();
    assert_eq!((&known["disposition"], &known["result"]), (&json!("reused"), &json!({"sum": 7})));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_sub_job_is_refused_by_name_and_makes_nothing() {
    let hall = TestServer::start().await;
    let (id, given) = parent(&hall).await;
    let other = hall.submit(r#"{"type":"x"}"#).await;
    for (verb, body, word) in [
        ("jobs", json!({"job": {"type": "c"}}), "call is missing"),
        ("jobs", json!({"call": "", "job": {"type": "c"}}), "call length of 0 is outside 1 to 512"),
        ("jobs", json!({"call": "c".repeat(513), "job": {"type": "c"}}), "call length of 513"),
        ("jobs", json!({"call": "c", "job": {"type": "c", "cron": 1}}), "unknown field `cron`"),
        ("jobs", json!({"call": "c", "job": {"type": "c", "timeouts": {"total": "0s"}}}), "total_ms of 0"),
        ("wait", json!({"wait_s": 61}), "wait_s of 61 is outside 0 to 60"),
        ("wait", json!({"jobs": [0]}), "jobs:"),
        ("wait", json!({"jobs": [other]}), "is not a sub-job of job"),
    ] {
        let detail = ask(&hall, &given, verb, &body).await.problem(400, "bad_request");
        assert!(detail.contains(word), "{detail} does not contain {word}");
    }
    let elsewhere = json!({"call": "c", "job": {"type": "c", "queue": "prod"}});
    let detail = ask(&hall, &given, "jobs", &elsewhere).await.problem(403, "forbidden");
    assert!(detail.contains("the queue of its parent"), "a process can access only its own queue: {detail}");
    assert_eq!(hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len(), 2);
    hall.word(&given, "outcome", br#"{"outcome":"succeeded"}"#).await;
    assert_eq!(hall.state(id).await, "succeeded");
    let late = ask(&hall, &given, "jobs", &json!({"call": "c", "job": {"type": "c"}})).await;
    assert_eq!(late.status, 401, "its token expired with its lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_parent_that_is_cancelled_takes_its_sub_jobs_along() {
    let hall = TestServer::start().await;
    let (id, given) = parent(&hall).await;
    let child = ask(&hall, &given, "jobs", &json!({"call": "one", "job": {"type": "c"}})).await.json();
    let child = child["id"].as_u64().unwrap();
    assert_eq!(ask(&hall, &given, "wait", &json!({"wait_s": 0})).await.status, 204);
    hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await;
    hall.word(&given, "outcome", br#"{"outcome":"cancelled"}"#).await;
    hall.until(child, "cancelled").await;
    let job = hall.get(&format!("/api/v1/jobs/{child}")).await.json();
    assert_eq!(job["error"]["reason"], "parent_ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m7_an_answer_is_as_bounded_as_a_frame_and_the_rest_is_read_alone() {
    let hall = TestServer::start().await;
    let (_, given) = parent(&hall).await;
    for n in 0..6 {
        ask(&hall, &given, "jobs", &json!({"call": n.to_string(), "job": {"type": "c"}})).await;
    }
    let report = json!({"outcome": "succeeded", "value": "x".repeat(250_000)}).to_string();
    for _ in 0..6 {
        let taken = hall.take().await;
        assert_eq!(hall.word(&taken, "outcome", report.as_bytes()).await.status, 200);
    }
    let waited = ask(&hall, &given, "wait", &json!({})).await;
    assert!(waited.body.len() < 1 << 20, "{} bytes", waited.body.len());
    let jobs = waited.json()["jobs"].as_array().unwrap().clone();
    let left: Vec<_> = jobs.iter().filter(|job| job["left_out"] == true).collect();
    assert_eq!((jobs.len(), left.len()), (6, 2));
    for job in left {
        let alone = ask(&hall, &given, "wait", &json!({"jobs": [job["id"]]})).await.json();
        assert_eq!(alone["jobs"][0]["result"].as_str().map(str::len), Some(250_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_7_a_process_waits_by_several_requests_and_resumes_for_the_first_that_is_over() {
    let hall = TestServer::start().await;
    let (id, given) = parent(&hall).await;
    let two = json!([{"call": "quick", "job": {"type": "q"}}, {"call": "slow", "job": {"type": "s"}}]);
    let made = ask(&hall, &given, "jobs", &two).await.json();
    let [quick, slow] = [0, 1].map(|at| made[at]["id"].as_u64().unwrap());
    let wait = |job: u64, wait_s: u64| {
        let (hall, given) = (&hall, &given);
        async move { ask(hall, given, "wait", &json!({"jobs": [job], "wait_s": wait_s})).await }
    };
    // The wait for the slow job is the later one.
    assert_eq!(wait(quick, 0).await.status, 204);
    let first = hall.take().await;
    assert_eq!(first["job"]["id"], quick);
    let explain = format!("/api/v1/jobs/{id}/explain");
    let ends = async {
        let waits = format!("job {slow} ");
        wait_until("both waits", async || hall.get(&explain).await.text().contains(&waits)).await;
        hall.word(&first, "outcome", br#"{"outcome":"succeeded","value":1}"#).await
    };
    let (of_slow, of_quick, _) = tokio::join!(wait(slow, 30), wait(quick, 30), ends);
    assert_eq!((of_slow.status, of_quick.status), (204, 200), "{}", of_slow.text());
    assert_eq!(of_quick.json()["jobs"][0]["result"], 1);
    assert_eq!(hall.state(id).await, "running", "the slow job is not over");
    let second = hall.take().await;
    assert_eq!(second["job"]["id"], slow);
    let ends = hall.word(&second, "outcome", br#"{"outcome":"succeeded","value":2}"#);
    let (of_slow, _) = tokio::join!(wait(slow, 30), ends);
    assert_eq!(of_slow.json()["jobs"][0]["result"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_7_several_sub_jobs_are_requested_at_once() {
    let hall = TestServer::start().await;
    let (_, given) = parent(&hall).await;
    let three = json!([
        {"call": "a", "job": {"type": "c"}},
        {"call": "b", "job": {"type": "c", "after": ["#0"]}},
        {"job": {"type": "c", "key": "k"}},
    ]);
    let made = ask(&hall, &given, "jobs", &three).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let made = made.json();
    let ids: Vec<_> = made.as_array().unwrap().iter().map(|called| called["id"].as_u64().unwrap()).collect();
    assert!(made.as_array().unwrap().iter().all(|called| called["disposition"] == "created"), "{made}");
    let second = hall.get(&format!("/api/v1/jobs/{}", ids[1])).await.json();
    assert_eq!(second["after"], json!([ids[0]]));
    let again = ask(&hall, &given, "jobs", &three).await.json();
    let known: Vec<_> =
        again.as_array().unwrap().iter().map(|called| called["id"].as_u64().unwrap()).collect();
    assert_eq!(known, ids, "by the same names");
    let twice = json!([{"call": "x", "job": {"type": "c"}}, {"call": "x", "job": {"type": "c"}}]);
    let detail = ask(&hall, &given, "jobs", &twice).await.problem(400, "bad_request");
    assert!(detail.contains("call \"x\" is used twice"), "{detail}");
    ask(&hall, &given, "jobs", &json!([])).await.problem(400, "bad_request");
    let wrong = json!([{"call": "y", "job": {"type": "c"}}, {"call": "z", "job": {"type": "c", "needs": "gpu >>> 1"}}]);
    let detail = ask(&hall, &given, "jobs", &wrong).await.problem(400, "bad_request");
    assert!(detail.contains("job 1: needs"), "{detail}");
    assert_eq!(
        hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len(),
        4,
        "nothing else was made"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_6_a_process_cannot_read_other_jobs_through_a_dependency() {
    let hall = TestServer::start().await;
    let foreign = hall.submit(r#"{"type":"secret","queue":"q"}"#).await;
    let taken = hall.take().await;
    hall.word(&taken, "outcome", br#"{"outcome":"succeeded","value":{"secret":1}}"#).await;
    let (_, given) = parent(&hall).await;
    let spy = json!({"call": "x", "job": {"type": "c", "after": [foreign]}});
    let detail = ask(&hall, &given, "jobs", &spy).await.problem(409, "dependency_unmet");
    assert!(detail.contains(&format!("there is no job {foreign}")), "{detail}");
}

/// A read of the result of a sub-job with this token.
async fn result(hall: &TestServer, token: &str, lease: &str, attempt: &str, job: u64) -> Reply {
    let path = format!("/api/v1/attempts/{attempt}/jobs/{job}/result");
    hall.send("GET", &path, token, &[("Jobhall-Lease", lease)], b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_an_artifact_is_left_out_and_the_parent_reads_it() {
    let hall = TestServer::start().await;
    let (id, given) = parent(&hall).await;
    let joined = hall.submit(r#"{"type":"c","key":"k","queue":"q"}"#).await;
    let join = ask(&hall, &given, "jobs", &json!({"job": {"type": "c", "key": "k"}})).await.json();
    assert_eq!((&join["id"], &join["disposition"]), (&json!(joined), &json!("joined")));
    let own = json!({"call": "own", "job": {"type": "c"}});
    let own_id = ask(&hall, &given, "jobs", &own).await.json()["id"].as_u64().unwrap();
    let small = ask(&hall, &given, "jobs", &json!({"call": "small", "job": {"type": "c"}})).await.json();
    let small = small["id"].as_u64().unwrap();
    let large = json!("x".repeat(200_000)).to_string();
    for _ in 0..2 {
        let taken = hall.take().await;
        let json = [("Content-Type", "application/json")];
        assert_eq!(hall.keep(&taken, "result", &json, large.as_bytes()).await.status, 200);
        assert_eq!(hall.word(&taken, "outcome", br#"{"outcome":"succeeded"}"#).await.status, 200);
    }
    let (attempt, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
    let token = given["token"].as_str().unwrap();
    let early = result(&hall, token, lease, attempt, small).await;
    assert!(early.problem(409, "conflict").contains("has no result"), "it has not ended");
    let taken = hall.take().await;
    hall.word(&taken, "outcome", br#"{"outcome":"succeeded","value":[1]}"#).await;
    let artifact = |job| json!({"id": job, "state": "succeeded", "outcome": "succeeded", "left_out": true});
    let waited = ask(&hall, &given, "wait", &json!({"jobs": [joined, own_id]})).await.json();
    assert_eq!(waited["jobs"], json!([artifact(joined), artifact(own_id)]));
    let alone = ask(&hall, &given, "wait", &json!({"jobs": [own_id]})).await.json();
    assert_eq!(alone["jobs"], json!([artifact(own_id)]));
    let again = ask(&hall, &given, "jobs", &own).await.json();
    assert_eq!((&again["disposition"], &again["left_out"]), (&json!("reused"), &json!(true)));
    for token in [token, &hall.worker] {
        for job in [joined, own_id] {
            let read = result(&hall, token, lease, attempt, job).await;
            assert_eq!((read.status, read.header("content-type")), (200, Some("application/json")));
            assert!(read.text() == large, "{} bytes", read.body.len());
        }
        assert_eq!(result(&hall, token, lease, attempt, small).await.text(), "[1]");
    }
    let path = format!("/api/v1/attempts/{attempt}/jobs/{own_id}/result");
    let part = hall.send("GET", &path, token, &[("Range", "bytes=0-1")], b"").await;
    assert_eq!((part.status, part.text().as_str()), (206, "\"x"));
    assert_eq!(hall.state(id).await, "assigned", "a read is not an accept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_reads_results_of_its_own_sub_jobs_only() {
    let hall = TestServer::start().await;
    let foreign = hall.submit(r#"{"type":"secret","queue":"q"}"#).await;
    let taken = hall.take().await;
    hall.word(&taken, "outcome", br#"{"outcome":"succeeded","value":{"secret":1}}"#).await;
    let (id, given) = parent(&hall).await;
    let own = ask(&hall, &given, "jobs", &json!({"call": "own", "job": {"type": "c"}})).await.json();
    let own = own["id"].as_u64().unwrap();
    let taken = hall.take().await;
    hall.word(&taken, "outcome", br#"{"outcome":"succeeded","value":7}"#).await;
    let (attempt, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
    let token = given["token"].as_str().unwrap();
    for token in [token, &hall.worker] {
        for job in [foreign, id, 999_999] {
            let detail = result(&hall, token, lease, attempt, job).await.problem(404, "not_found");
            assert!(detail.contains(&format!("job {job} is not a sub-job of job {id}")), "{detail}");
        }
        result(&hall, token, lease, attempt, 0).await.problem(400, "bad_request");
        assert_eq!(result(&hall, token, lease, attempt, own).await.text(), "7");
    }
    let other = format!("{foreign}-1");
    result(&hall, token, lease, &other, own).await.problem(404, "not_found");
    result(&hall, &hall.worker, &"0".repeat(32), attempt, own).await.problem(409, "lease_lost");
    let thief = hall.secret(r#"{"name":"thief","role":"worker"}"#).await;
    result(&hall, &thief, lease, attempt, own).await.problem(409, "lease_lost");
    result(&hall, &hall.client, lease, attempt, own).await.problem(403, "forbidden");
    hall.word(&given, "outcome", br#"{"outcome":"succeeded"}"#).await;
    result(&hall, &hall.worker, lease, attempt, own).await.problem(409, "lease_lost");
    result(&hall, token, lease, attempt, own).await.problem(401, "unauthorized");
}
