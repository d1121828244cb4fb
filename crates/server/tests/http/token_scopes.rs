//! Tokens reach no further than they say.

use jobhall_store::{SettingKind, SettingWrite, Unit};
use serde_json::{Value, json};

use crate::server::{Reply, TestServer};

async fn admin(hall: &TestServer, method: &str, path: &str, body: &str) -> Reply {
    hall.send(method, path, &hall.admin, &[], body.as_bytes()).await
}

/// A request of a sub-job for this assignment, with this token and the lease.
async fn call(hall: &TestServer, token: &str, given: &Value, body: &Value) -> Reply {
    let path = format!("/api/v1/attempts/{}/jobs", given["id"].as_str().unwrap());
    let lease = [("Jobhall-Lease", given["lease"].as_str().unwrap())];
    hall.send("POST", &path, token, &lease, body.to_string().as_bytes()).await
}

/// Takes a job with this token.
async fn take(hall: &TestServer, token: &str) -> Value {
    let body = br#"{"slots":1,"wait_s":10}"#;
    let reply = hall.send("POST", "/api/v1/vacancies", token, &[], body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["attempts"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_h1_an_administrator_cannot_be_limited_to_queues() {
    let hall = TestServer::start().await;
    for queues in [r#"["team-a"]"#, r#"["*"]"#] {
        let body = format!(r#"{{"name":"half","role":"admin","queues":{queues}}}"#);
        let detail = admin(&hall, "POST", "/api/v1/tokens", &body).await.problem(400, "bad_request");
        assert!(detail.starts_with("queues: ") && detail.contains("admin"), "{detail}");
    }
    assert_eq!(hall.secret(r#"{"name":"whole","role":"admin"}"#).await.len(), 84);
}

/// Changes the role of a stored token to admin, as a token of an earlier version.
async fn make_admin(hall: &TestServer, name: &str) {
    let stored = hall.store.settings(None).await.unwrap();
    let stored = stored.into_iter().find(|it| it.kind == SettingKind::Token && it.name == name).unwrap();
    let mut content: Value = serde_json::from_str(&stored.value).unwrap();
    content["role"] = "admin".into();
    let value = Some(content.to_string());
    let write = SettingWrite { kind: stored.kind, name: stored.name, expected: stored.rev, value };
    let unit = Unit { settings: vec![write], ..Unit::default() };
    assert!(hall.store.commit(vec![unit]).await.unwrap().results[0].is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_h1_a_stored_limited_administrator_is_a_client_of_its_queues() {
    let hall = TestServer::start().await;
    let half = hall.secret(r#"{"name":"half","role":"client","queues":["team-a"]}"#).await;
    make_admin(&hall, "half").await;
    let hall = hall.restart(jobhall_engine::Config::default()).await;
    let listed = admin(&hall, "GET", "/api/v1/tokens", "").await.json();
    assert_eq!(
        (&listed["items"][0]["role"], &listed["items"][0]["queues"][0]),
        (&json!("client"), &json!("team-a"))
    );
    for (method, path, body) in [
        ("POST", "/api/v1/tokens", r#"{"name":"more","role":"admin"}"#),
        ("POST", "/api/v1/tokens", r#"{"name":"more","role":"viewer","queues":["team-a"]}"#),
        ("GET", "/api/v1/tokens", ""),
        ("DELETE", "/api/v1/tokens/x", ""),
        ("GET", "/api/v1/audit", ""),
        ("PUT", "/api/v1/types/foo", r#"{"paused":true}"#),
        ("PUT", "/api/v1/queues/team-a", r#"{"paused":true}"#),
        ("GET", "/api/v1/stats", ""),
        ("POST", "/api/v1/vacancies", r#"{"slots":1,"wait_s":0}"#),
    ] {
        hall.send(method, path, &half, &[], body.as_bytes()).await.problem(403, "forbidden");
    }
    let own = hall.send("POST", "/api/v1/jobs", &half, &[], br#"{"type":"t","queue":"team-a"}"#).await;
    assert_eq!(own.status, 201);
    let other = hall.send("POST", "/api/v1/jobs", &half, &[], br#"{"type":"t","queue":"b"}"#).await;
    other.problem(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_h1_a_join_token_makes_a_worker_of_its_queues_and_nothing_else() {
    let hall = TestServer::start().await;
    let (near, far) =
        (hall.submit(r#"{"type":"t","queue":"a"}"#).await, hall.submit(r#"{"type":"t","queue":"b"}"#).await);
    let join = hall.secret(r#"{"role":"worker","kind":"join","queues":["a"]}"#).await;
    for body in [r#"{"name":"x","role":"worker"}"#, r#"{"name":"x","role":"admin"}"#] {
        hall.send("POST", "/api/v1/tokens", &join, &[], body.as_bytes()).await.problem(403, "forbidden");
    }
    let more = hall.send("POST", "/api/v1/join", &join, &[], br#"{"name":"w1","queues":[]}"#).await;
    more.problem(400, "bad_request");
    let made = hall.send("POST", "/api/v1/join", &join, &[], br#"{"name":"w1"}"#).await.json();
    assert_eq!((&made["role"], &made["queues"]), (&json!("worker"), &json!(["a"])));
    let worker = made["secret"].as_str().unwrap();
    hall.send("POST", "/api/v1/tokens", worker, &[], br#"{"name":"x","role":"worker"}"#)
        .await
        .problem(403, "forbidden");
    assert_eq!(take(&hall, worker).await["job"]["id"], near);
    assert_eq!(hall.state(far).await, "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_h1_a_jobs_token_reaches_its_job_and_its_queue_and_makes_no_token() {
    let hall = TestServer::start().await;
    hall.submit(r#"{"type":"t","queue":"a"}"#).await;
    let far = hall.submit(r#"{"type":"t","queue":"b","key":"k"}"#).await;
    let worker = hall.secret(r#"{"name":"wa","role":"worker","queues":["a"]}"#).await;
    let given = take(&hall, &worker).await;
    let token = given["token"].as_str().unwrap();
    for body in [r#"{"name":"x","role":"viewer"}"#, r#"{"name":"x","role":"worker","kind":"join"}"#] {
        hall.send("POST", "/api/v1/tokens", token, &[], body.as_bytes()).await.problem(403, "forbidden");
    }
    hall.send("POST", "/api/v1/join", token, &[], br#"{"name":"x"}"#).await.problem(403, "forbidden");
    hall.send("GET", &format!("/api/v1/jobs/{far}"), token, &[], b"").await.problem(404, "not_found");
    let body = json!({"call": "c", "job": {"type": "t", "key": "k"}});
    call(&hall, token, &given, &body).await.problem(409, "key_held");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m1_a_sub_job_is_in_the_queue_of_its_parent_for_every_role() {
    let hall = TestServer::start().await;
    for (n, who) in [&hall.worker, &hall.admin].into_iter().enumerate() {
        let parent = hall.submit(r#"{"type":"p","queue":"q"}"#).await;
        let given = take(&hall, who).await;
        assert_eq!(given["job"]["id"], parent);
        for token in [who.as_str(), given["token"].as_str().unwrap()] {
            let elsewhere = json!({"call": "c", "job": {"type": "exec", "queue": "prod"}});
            let detail = call(&hall, token, &given, &elsewhere).await.problem(403, "forbidden");
            assert!(detail.contains("\"prod\"") && detail.contains("its parent, which is q"), "{detail}");
            let call_name = format!("own-{n}-{}", token.len());
            let same = json!({"call": call_name, "job": {"type": "x", "queue": "q", "needs": "never"}});
            assert_eq!(call(&hall, token, &given, &same).await.status, 201);
        }
    }
    let queues: Vec<_> = hall.get("/api/v1/jobs").await.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["queue"].clone())
        .collect();
    assert!(queues.len() == 6 && queues.iter().all(|queue| queue == "q"), "{queues:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m1_a_sub_job_joins_reuses_and_supersedes_in_its_parents_queue_only() {
    let hall = TestServer::start().await;
    let secret = hall.submit(r#"{"type":"pay","queue":"fin","key":"done"}"#).await;
    let given = hall.take().await;
    assert_eq!(given["job"]["id"], secret);
    hall.word(&given, "outcome", br#"{"outcome":"succeeded","value":{"salary":1}}"#).await;
    let held = hall.submit(r#"{"type":"pay","queue":"fin","key":"open","needs":"never"}"#).await;
    hall.submit(r#"{"type":"p","queue":"q"}"#).await;
    let given = hall.take().await;
    for token in [hall.worker.as_str(), given["token"].as_str().unwrap()] {
        for (n, job) in [
            json!({"type": "pay", "key": "open"}),
            json!({"type": "pay", "key": "open", "on_duplicate": "supersede"}),
            json!({"type": "pay", "key": "open", "on_duplicate": "run_again"}),
            json!({"type": "pay", "key": "done", "reuse": {"max_age": "1h"}}),
        ]
        .into_iter()
        .enumerate()
        {
            let reply = call(&hall, token, &given, &json!({"call": format!("c{n}"), "job": job})).await;
            reply.problem(409, "key_held");
            assert!(!reply.text().contains("salary"), "{}", reply.text());
        }
    }
    assert_eq!(hall.state(held).await, "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m1_only_the_holder_of_the_lease_learns_the_queue_of_a_parent() {
    let hall = TestServer::start().await;
    hall.submit(r#"{"type":"p","queue":"hidden"}"#).await;
    let given = hall.take().await;
    let other = hall.secret(r#"{"name":"other","role":"worker","queues":["a"]}"#).await;
    let reply = call(&hall, &other, &given, &json!({"call": "c", "job": {"type": "x", "queue": "a"}})).await;
    reply.problem(409, "lease_lost");
    assert!(!reply.text().contains("hidden"), "{}", reply.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m2_the_successor_of_a_key_stays_hidden_in_every_way() {
    let hall = TestServer::start().await;
    let limited = hall.secret(r#"{"name":"limited","role":"client","queues":["qa"]}"#).await;
    hall.submit(r#"{"type":"t","queue":"qa","key":"k"}"#).await;
    hall.take().await;
    let body = r#"{"type":"t","queue":"qb","key":"k","params":"TOPSECRET","on_duplicate":"supersede"}"#;
    let far = hall.submit(body).await;
    let before = hall.get(&format!("/api/v1/jobs/{far}")).await.json();
    for way in ["join", "reject", "supersede", "run_again"] {
        let body = format!(r#"{{"type":"t","queue":"qa","key":"k","params":"mine","on_duplicate":"{way}"}}"#);
        let reply = hall.send("POST", "/api/v1/jobs", &limited, &[], body.as_bytes()).await;
        reply.problem(409, "key_held");
        assert!(!reply.text().contains("TOPSECRET"), "{way}");
    }
    assert_eq!(hall.get(&format!("/api/v1/jobs/{far}")).await.json(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l1_a_page_of_queues_names_no_other_queue() {
    let hall = TestServer::start().await;
    for queue in ["aalpha", "abeta", "gamma", "gamma-1", "gamma-2", "hidden"] {
        hall.submit(&format!(r#"{{"type":"t","queue":"{queue}"}}"#)).await;
    }
    let limited = hall.secret(r#"{"name":"limited","role":"viewer","queues":["gamma","gamma-*"]}"#).await;
    for limit in 1..5 {
        let (mut names, mut next) = (Vec::new(), Some(format!("/api/v1/queues?limit={limit}")));
        while let Some(path) = next.take() {
            let reply = hall.send("GET", &path, &limited, &[], b"").await;
            let text = format!("{}{}", reply.head, reply.text());
            assert!(!["alpha", "beta", "hidden"].iter().any(|name| text.contains(name)), "{text}");
            let page = reply.json();
            let items = page["items"].as_array().unwrap();
            names.extend(items.iter().map(|queue| queue["name"].as_str().unwrap().to_owned()));
            let full = items.len() == limit;
            next = page["next_cursor"]
                .as_str()
                .map(|cursor| format!("/api/v1/queues?limit={limit}&cursor={cursor}"));
            assert!(full || next.is_none(), "a page that is not full is the last one");
        }
        assert_eq!(names, ["gamma", "gamma-1", "gamma-2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l1_a_page_of_jobs_does_not_depend_on_jobs_out_of_scope() {
    let hall = TestServer::start().await;
    let limited = hall.secret(r#"{"name":"limited","role":"viewer","queues":["a"]}"#).await;
    let own = hall.submit(r#"{"type":"near","queue":"a"}"#).await;
    let job = r#"{"type":"pay","queue":"b","owner":"boss","tags":["x"]}"#;
    let many = format!("[{}]", [job; 50].join(","));
    assert_eq!(hall.post("/api/v1/jobs", &many).await.status, 200);
    let list = async |query: &str| {
        let reply = hall.send("GET", &format!("/api/v1/jobs?limit=1&{query}"), &limited, &[], b"").await;
        assert_eq!((reply.status, reply.header("link")), (200, None), "{query}");
        reply.json()
    };
    let none = list("type=nothing").await;
    assert_eq!(none, json!({"items": [], "next_cursor": null}));
    for query in ["type=pay", "owner=boss", "tag=x", "queue=b", "q=pay", "type=pay&state=queued"] {
        assert_eq!(list(query).await, none, "{query}");
    }
    let listed = list("type=near").await;
    assert_eq!((&listed["items"][0]["id"], &listed["next_cursor"]), (&json!(own), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l3_types_are_shown_to_tokens_of_all_queues() {
    let hall = TestServer::start().await;
    hall.submit(r#"{"type":"secret-type","queue":"b"}"#).await;
    for role in ["viewer", "client"] {
        let body = format!(r#"{{"name":"{role}","role":"{role}","queues":["a"]}}"#);
        let limited = hall.secret(&body).await;
        for path in ["/api/v1/types", "/api/v1/types/secret-type", "/api/v1/types/nothing"] {
            let detail = hall.send("GET", path, &limited, &[], b"").await.problem(403, "forbidden");
            assert!(detail.contains("limited to some queues"), "{detail}");
        }
    }
    assert!(hall.get("/api/v1/types").await.text().contains("secret-type"));
}

/// The reasons that this token gets for a job.
async fn reasons(hall: &TestServer, token: &str, id: u64) -> Value {
    let reply = hall.send("GET", &format!("/api/v1/jobs/{id}/explain"), token, &[], b"").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["reasons"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l3_explain_counts_the_workers_of_other_queues() {
    let hall = TestServer::start().await;
    let limited = hall.secret(r#"{"name":"limited","role":"viewer","queues":["a"]}"#).await;
    let worker = hall.secret(r#"{"name":"hidden-worker","role":"worker"}"#).await;
    let body = br#"{"slots":1,"wait_s":60,"abilities":"cuda=7,gpu=1","accepts":"type=hidden-type"}"#;
    let poll = hall.open("POST", "/api/v1/vacancies", &worker, &[], body).await;
    hall.until_offered("hidden-worker", 1).await;
    let id = hall.submit(r#"{"type":"t","queue":"a","needs":"gpu>=2"}"#).await;
    assert!(reasons(&hall, &hall.viewer, id).await.to_string().contains("hidden-worker"));
    let told = reasons(&hall, &limited, id).await;
    let expected = json!([{
        "code": "no_matching_worker",
        "text": "none of 1 connected worker matches\n  gpu>=2: not met by 1 worker\n  \
                 its type or queue: not accepted by 1 worker",
        "data": {"worker_count": 1, "unmet": [{"term": "gpu>=2", "worker_count": 1}], "not_accepting": 1},
    }]);
    assert_eq!(told, expected);
    drop(poll);
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l3_explain_counts_the_jobs_of_other_queues() {
    let hall = TestServer::start().await;
    let limited = hall.secret(r#"{"name":"limited","role":"viewer","queues":["a"]}"#).await;
    let set = br#"{"limits":[{"concurrency":1}]}"#;
    assert_eq!(hall.send("PUT", "/api/v1/types/t", &hall.admin, &[], set).await.status, 201);
    hall.submit(r#"{"type":"t","queue":"b"}"#).await;
    hall.take().await;
    let near = hall.submit(r#"{"type":"t","queue":"a"}"#).await;
    let poll = hall.open("POST", "/api/v1/vacancies", &hall.worker, &[], br#"{"slots":1,"wait_s":60}"#).await;
    hall.until_offered("w", 1).await;
    let whole = reasons(&hall, &hall.viewer, near).await;
    assert_eq!((&whole[0]["code"], &whole[0]["data"]["jobs"]), (&json!("limited"), &json!([1])));
    let told = reasons(&hall, &limited, near).await;
    assert_eq!((&told[0]["code"], &told[0]["data"]["jobs"]), (&json!("limited"), &json!([])));
    assert!(told[0]["text"].as_str().unwrap().contains("1 taken by 1 job;"), "{told}");
    drop(poll);
    let far = hall.submit(r#"{"type":"u","queue":"b","needs":"never"}"#).await;
    let after = hall.submit(&format!(r#"{{"type":"u","queue":"a","after":[{far}]}}"#)).await;
    let told = reasons(&hall, &limited, after).await;
    assert_eq!(told[0]["text"], "it depends on 1 other job, which must end first");
    assert_eq!(told[0]["data"], json!({"jobs": [], "more": 1}));
}
