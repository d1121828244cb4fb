use serde_json::{Value, json};

use crate::server::{Reply, TestServer, quick, read_until, wait_for};

const PATH: &str = "/api/v1/groups";

async fn create(hall: &TestServer, body: &Value) -> Value {
    let reply = hall.post(PATH, &body.to_string()).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let group = reply.json();
    assert_eq!(reply.header("location"), Some(format!("{PATH}/{}", group["id"]).as_str()));
    group
}

async fn show(hall: &TestServer, id: &Value) -> Value {
    hall.get(&format!("{PATH}/{id}")).await.json()
}

/// Waits until the group has ended.
async fn until_ended(hall: &TestServer, id: &Value) -> Value {
    let ended = async || Some(show(hall, id).await).filter(|group| !group["completed_at"].is_null());
    wait_for(&format!("the end of group {id}"), ended).await
}

async fn end(hall: &TestServer, outcome: &str) -> u64 {
    let attempt = hall.take().await;
    let body = format!(r#"{{"outcome":"{outcome}","error":{{"reason":"because"}}}}"#);
    let body = if outcome == "succeeded" { r#"{"outcome":"succeeded"}"#.to_owned() } else { body };
    let reply = hall.word(&attempt, "outcome", body.as_bytes()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    attempt["job"]["id"].as_u64().unwrap()
}

fn counts(group: &Value) -> [u64; 7] {
    let counts = &group["counts"];
    ["total", "pending", "active", "succeeded", "failed", "crashed", "cancelled"]
        .map(|name| counts[name].as_u64().unwrap())
}

async fn verb(hall: &TestServer, id: &Value, verb: &str) -> Reply {
    hall.post(&format!("{PATH}/{id}/{verb}"), "").await
}

/// A job of type `t` with one attempt.
fn once() -> Value {
    json!({"type": "t", "retry": {"max_attempts": 1}})
}

#[tokio::test(flavor = "multi_thread")]
async fn l21_a_set_of_jobs_is_created_and_followed_as_one() {
    let hall = TestServer::with(quick()).await;
    let jobs = json!([once(), {"type": "t", "retry": {"max_attempts": 1}, "after": ["#0"], "tags": ["b", "a", "b"]}]);
    let body = json!({"name": "nightly", "owner": "ci", "tags": ["main"], "jobs": jobs});
    let group = create(&hall, &body).await;
    let id = group["id"].clone();
    assert_eq!(
        (&group["name"], &group["owner"], &group["tags"]),
        (&json!("nightly"), &json!("ci"), &json!(["main"]))
    );
    assert_eq!((&group["state"], &group["closed"]), (&json!("new"), &json!(false)));
    let made: Vec<u64> =
        group["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect();
    let second = hall.get(&format!("/api/v1/jobs/{}", made[1])).await.json();
    assert_eq!((&second["after"], &second["group"]), (&json!([made[0]]), &id));
    assert_eq!((&second["state"], &second["tags"]), (&json!("blocked"), &json!(["a", "b"])));

    let mut events = hall.open("GET", &format!("/api/v1/events?group={id}"), &hall.viewer, &[], b"").await;
    read_until(&mut events, "retry: 2000").await;
    let stranger = hall.submit(r#"{"type":"other","run_at":"2099-01-01T00:00:00Z"}"#).await;
    let third = json!({"type": "t", "group": id, "retry": {"max_attempts": 1}}).to_string();
    let third = hall.submit(&third).await;
    assert_eq!(end(&hall, "succeeded").await, made[0]);
    let group = show(&hall, &id).await;
    assert_eq!((&group["state"], counts(&group)), (&json!("running"), [3, 2, 0, 1, 0, 0, 0]));
    end(&hall, "succeeded").await;
    end(&hall, "failed").await;
    let last = format!(r#"{{"id":{third},"state":"failed"}}"#);
    let seen = read_until(&mut events, &last).await;
    assert!(!seen.contains(&format!(r#""id":{stranger},"#)), "only jobs of the group: {seen}");
    assert_eq!(show(&hall, &id).await["completed_at"], Value::Null, "it accepts more jobs");
    assert_eq!(verb(&hall, &id, "close").await.status, 200);
    let group = until_ended(&hall, &id).await;
    assert_eq!((&group["state"], counts(&group)), (&json!("failed"), [3, 0, 0, 2, 1, 0, 0]));
    verb(&hall, &id, "close").await.json();

    let listed = hall.get(&format!("/api/v1/jobs?group={id}")).await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    let hall = hall.restart(quick()).await;
    assert_eq!(show(&hall, &id).await, group, "an end is final");

    let reply = hall.post(&format!("{PATH}/{id}/retry"), "").await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let new = reply.json();
    assert_eq!((&new["retry_of"], &new["closed"], counts(&new)), (&id, &json!(true), [1, 1, 0, 0, 0, 0, 0]));
    assert_eq!(reply.header("location"), Some(format!("{PATH}/{}", new["id"]).as_str()));
    end(&hall, "succeeded").await;
    let new = until_ended(&hall, &new["id"]).await;
    assert_eq!((&new["state"], &new["name"]), (&json!("succeeded"), &json!("nightly")));
    let page = hall.get(&format!("{PATH}?limit=1")).await;
    assert_eq!(page.json()["items"], json!([new]));
    let next = page.header("link").unwrap().to_owned();
    let page = hall.get(&next[1..next.find('>').unwrap()]).await.json();
    assert_eq!(page["items"], json!([group]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_cancelled_as_one_and_says_why() {
    let hall = TestServer::start().await;
    let group = create(&hall, &json!({"jobs": [once(), once(), once()], "closed": true})).await;
    let id = group["id"].clone();
    let held = hall.take().await;
    let why = r#"{"error":{"reason":"no_longer_wanted"}}"#;
    let reply = hall.post(&format!("{PATH}/{id}/cancel"), why).await.json();
    assert_eq!(
        (&reply["cancel_requested"], &reply["error"]["reason"]),
        (&json!(true), &json!("no_longer_wanted"))
    );
    let last = group["jobs"][2]["id"].as_u64().unwrap();
    hall.until(last, "cancelled").await;
    let error = hall.get(&format!("/api/v1/jobs/{last}")).await.json()["error"]["reason"].clone();
    assert_eq!(error, "no_longer_wanted");
    hall.word(&held, "outcome", br#"{"outcome":"succeeded"}"#).await;
    let group = until_ended(&hall, &id).await;
    assert_eq!((&group["state"], counts(&group)), (&json!("cancelled"), [3, 0, 0, 0, 0, 0, 3]));
    assert_eq!(verb(&hall, &id, "cancel").await.status, 200, "a repetition changes nothing");
    let acts = hall.send("GET", "/api/v1/audit", &hall.admin, &[], b"").await.json();
    let act = &acts["items"].as_array().unwrap().iter().rfind(|act| act["act"] == "group_cancelled").unwrap();
    assert_eq!(
        (&act["subject"], &act["detail"]),
        (&json!(id.to_string()), &json!("from 127.0.0.1; no_longer_wanted"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_with_a_group_is_refused_by_name() {
    let hall = TestServer::start().await;
    let open = create(&hall, &json!({"jobs": [once()]})).await["id"].clone();
    let empty = create(&hall, &json!({"closed": true})).await["id"].clone();
    until_ended(&hall, &empty).await;
    verb(&hall, &open, "retry").await.problem(409, "conflict");
    assert_eq!(
        verb(&hall, &empty, "retry").await.problem(409, "conflict"),
        format!("no member of group {empty} failed")
    );
    assert_eq!(
        verb(&hall, &empty, "cancel").await.problem(409, "conflict"),
        format!("group {empty} has ended")
    );
    for verb in ["close", "cancel", "retry"] {
        let reply = hall.post(&format!("{PATH}/999/{verb}"), "").await;
        assert_eq!(reply.problem(404, "not_found"), "there is no group 999");
    }
    let before = hall.get("/api/v1/jobs").await.json();
    let into = |id: &Value| json!({"type": "t", "group": id}).to_string();
    let closed = create(&hall, &json!({"jobs": [], "closed": true})).await["id"].clone();
    until_ended(&hall, &closed).await;
    hall.post("/api/v1/jobs", &into(&json!(999))).await.problem(404, "not_found");
    hall.post("/api/v1/jobs", &into(&closed)).await.problem(409, "group_closed");
    verb(&hall, &open, "close").await;
    let detail = hall.post("/api/v1/jobs", &into(&open)).await.problem(409, "group_closed");
    assert_eq!(detail, format!("group {open} is closed: it takes no more jobs"));
    for (body, detail) in [
        (json!({"name": ""}), "name: key is empty"),
        (json!({"tags": ["a,b"]}), "tag has the character ',' at byte 1, which is not allowed there"),
        (
            json!({"jobs": [{"type": "t", "group": 1}]}),
            "group: jobs that are made with a group are in that group",
        ),
        (json!({"jobs": [{"type": "t"}, {"type": ""}]}), "job 1: type is empty"),
    ] {
        assert_eq!(hall.post(PATH, &body.to_string()).await.problem(400, "bad_request"), detail);
    }
    hall.get(&format!("{PATH}?cursor=x")).await.problem(400, "bad_request");
    hall.get(&format!("{PATH}/x")).await.problem(400, "bad_request");
    assert_eq!(hall.get("/api/v1/jobs").await.json(), before, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_comes_after_is_checked_and_explained() {
    let hall = TestServer::start().await;
    let first = hall.submit(&once().to_string()).await;
    let behind = hall.submit(&json!({"type": "u", "after": [first]}).to_string()).await;
    let why = hall.get(&format!("/api/v1/jobs/{behind}/explain")).await.json();
    assert_eq!(why["reasons"][0]["code"], "dependencies");
    assert_eq!(
        why["reasons"][0]["text"],
        format!(
            "it depends on job {first} (queued), which must end first\n  job {first}: no worker is connected; it \
             needs one that runs type t in queue default"
        )
    );
    let blocked = hall.get("/api/v1/jobs?state=blocked").await.json();
    assert_eq!(blocked["items"][0]["id"], behind);
    end(&hall, "failed").await;
    hall.until(behind, "failed").await;
    let error = hall.get(&format!("/api/v1/jobs/{behind}")).await.json()["error"].clone();
    assert_eq!((&error["reason"], &error["data"]), (&json!("dependency_failed"), &json!({"job": first})));
    let before = hall.get("/api/v1/jobs").await.json();
    for (after, detail) in [
        (json!([999]), "after: there is no job 999".to_owned()),
        (
            json!([first]),
            format!("after: job {first} has ended without success (failed), and after_any is not set"),
        ),
    ] {
        let reply = hall.post("/api/v1/jobs", &json!({"type": "t", "after": after}).to_string()).await;
        assert_eq!(reply.problem(409, "dependency_unmet"), detail);
    }
    for (jobs, detail) in [
        (
            json!([{"type": "t", "after": ["#1"]}, {"type": "t", "after": ["#0"]}]),
            "after: jobs #0 → #1 → #0 of this submit wait for each other",
        ),
        (
            json!([{"type": "t", "after": ["#1"]}, {"type": "t"}]),
            "after: job #0 names #1, but a job can only depend on earlier ones of the same submit",
        ),
        (json!([{"type": "t", "after": [0]}]), "after: id 0 is outside 1 to 9007199254740991"),
        (json!([{"type": "t", "attached": true}]), "attached: the job is in no group"),
        (json!([{"type": "t", "copy_of": first}]), "copy_of: there is no such open job"),
    ] {
        let reply = hall.post("/api/v1/jobs", &jobs.to_string()).await;
        assert_eq!(reply.problem(400, "bad_request"), detail);
    }
    let reply = hall.post("/api/v1/jobs", r#"{"type":"t","after":["x"]}"#).await;
    assert!(reply.problem(400, "bad_request").contains("after"), "{reply:?}");
    assert_eq!(hall.get("/api/v1/jobs").await.json(), before, "nothing was written");
    let any = hall.submit(&json!({"type": "t", "after": [first], "after_any": true}).to_string()).await;
    assert_eq!(hall.state(any).await, "queued");
    let queued = hall.get("/api/v1/jobs?state=queued").await.json();
    assert_eq!(queued["items"][0]["id"], any);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_owner_and_tag() {
    let hall = TestServer::start().await;
    let mine = hall.submit(r#"{"type":"t","owner":"me","tags":["red"]}"#).await;
    let other = hall.submit(r#"{"type":"t","owner":"you","tags":["red","blue"]}"#).await;
    for (query, found) in [
        ("owner=me", vec![mine]),
        ("tag=red", vec![other, mine]),
        ("tag=blue", vec![other]),
        ("tag=blue&owner=me", vec![]),
    ] {
        let items = hall.get(&format!("/api/v1/jobs?{query}")).await.json()["items"].clone();
        let ids: Vec<_> = items.as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, found, "{query}");
    }
    let body = json!({"verb": "cancel", "filter": {"owner": "me"}}).to_string();
    assert_eq!(hall.post("/api/v1/operations", &body).await.status, 202);
    hall.until(mine, "cancelled").await;
    assert_eq!(hall.state(other).await, "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_reaches_some_queues_only_does_not_reach_groups() {
    let hall = TestServer::start().await;
    let id = create(&hall, &json!({"jobs": [{"type": "t", "queue": "ours"}]})).await["id"].clone();
    let scoped = hall.secret(r#"{"name":"s","role":"client","queues":["mine"]}"#).await;
    for (method, path) in [
        ("GET", PATH.to_owned()),
        ("POST", PATH.to_owned()),
        ("GET", format!("{PATH}/{id}")),
        ("POST", format!("{PATH}/{id}/cancel")),
    ] {
        hall.send(method, &path, &scoped, &[], b"{}").await.problem(403, "forbidden");
    }
    let body = json!({"type": "t", "queue": "mine", "group": id}).to_string();
    let reply = hall.send("POST", "/api/v1/jobs", &scoped, &[], body.as_bytes()).await;
    assert_eq!(reply.problem(404, "not_found"), format!("there is no group {id}"));
    let events = format!("/api/v1/events?group={id}");
    hall.send("GET", &events, &scoped, &[], b"").await.problem(404, "not_found");
    let job = hall.get("/api/v1/jobs").await.json()["items"][0]["id"].clone();
    let body = json!({"type": "t", "queue": "mine", "after": [job]}).to_string();
    let reply = hall.send("POST", "/api/v1/jobs", &scoped, &[], body.as_bytes()).await;
    assert_eq!(reply.problem(409, "dependency_unmet"), format!("after: there is no job {job}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_made_again_under_the_same_key_is_the_same() {
    let hall = TestServer::start().await;
    let key = [("Idempotency-Key", "k")];
    let body = json!({"jobs": [once(), once()], "closed": true}).to_string();
    let mut made = Vec::new();
    for _ in 0..2 {
        made.push(hall.send("POST", PATH, &hall.client, &key, body.as_bytes()).await.json());
    }
    assert_eq!(made[0], made[1]);
    assert_eq!(hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len(), 2);
    hall.send("POST", PATH, &hall.client, &key, b"{}").await.problem(409, "idempotency_key_reused");
    end(&hall, "failed").await;
    end(&hall, "succeeded").await;
    until_ended(&hall, &made[0]["id"]).await;
    let path = format!("{PATH}/{}/retry", made[0]["id"]);
    let key = [("Idempotency-Key", "r")];
    let mut made = Vec::new();
    for _ in 0..2 {
        made.push(hall.send("POST", &path, &hall.client, &key, b"").await.json()["id"].clone());
    }
    assert_eq!(made[0], made[1]);
    assert_eq!(hall.get(PATH).await.json()["items"].as_array().unwrap().len(), 2);
    let audit = hall.send("GET", "/api/v1/audit", &hall.admin, &[], b"").await.json();
    let acts: Vec<_> = audit["items"].as_array().unwrap().iter().map(|item| item["act"].clone()).collect();
    assert_eq!(acts, ["group_retried", "group_created"], "a repeated request is no act");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_3_a_group_is_stopped_as_failed_and_its_end_is_told_live() {
    let hall = TestServer::with(quick()).await;
    let group = create(&hall, &json!({"jobs": [once(), once()]})).await;
    let id = group["id"].clone();
    let other = create(&hall, &json!({"jobs": [once()], "closed": true})).await["id"].clone();
    let path = format!("/api/v1/events?group={id}");
    let mut stream = hall.open("GET", &path, &hall.viewer, &[], b"").await;
    read_until(&mut stream, "retry: 2000").await;
    let mut all = hall.open("GET", "/api/v1/events", &hall.viewer, &[], b"").await;
    read_until(&mut all, "retry: 2000").await;
    let body = r#"{"fails":true,"error":{"reason":"too_many_failures"}}"#;
    for _ in 0..2 {
        let stopped = hall.post(&format!("{PATH}/{id}/cancel"), body).await;
        assert_eq!((stopped.status, &stopped.json()["fails"]), (200, &json!(true)), "{stopped:?}");
    }
    let told = format!("event: group\ndata: {{\"id\":{id},\"state\":\"failed\"}}");
    let seen = read_until(&mut stream, &told).await;
    assert!(!seen.contains(&format!("\"id\":{other}")), "{seen}");
    read_until(&mut all, &told).await;
    let ended = until_ended(&hall, &id).await;
    assert_eq!((&ended["state"], counts(&ended)), (&json!("failed"), [2, 0, 0, 0, 0, 0, 2]));
    assert_eq!(hall.post(&format!("{PATH}/{id}/cancel"), body).await.status, 200, "it can be repeated");
    hall.post(&format!("{PATH}/{id}/cancel"), "{}").await.problem(409, "conflict");
    let mut late = hall.open("GET", &path, &hall.viewer, &[], b"").await;
    read_until(&mut late, &told).await;
    end(&hall, "succeeded").await;
    read_until(&mut all, &format!("event: group\ndata: {{\"id\":{other},\"state\":\"succeeded\"}}")).await;
    let job = hall.submit(r#"{"type":"t"}"#).await;
    hall.post(&format!("/api/v1/jobs/{job}/cancel"), r#"{"fails":true}"#).await.problem(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_13_groups_are_listed_by_tag_and_owner() {
    let hall = TestServer::with(quick()).await;
    let mut made = Vec::new();
    for (tags, owner) in [(json!(["main"]), "ci"), (json!(["main", "x"]), "ada"), (json!([]), "ci")] {
        made.push(create(&hall, &json!({"tags": tags, "owner": owner})).await["id"].clone());
    }
    let listed = async |query: &str| {
        let page = hall.get(&format!("{PATH}?{query}")).await.json();
        let ids = page["items"].as_array().unwrap().iter().map(|group| group["id"].clone());
        (ids.collect::<Vec<_>>(), page["next_cursor"].clone())
    };
    assert_eq!(listed("tag=main").await.0, [made[1].clone(), made[0].clone()]);
    assert_eq!(listed("owner=ci").await.0, [made[2].clone(), made[0].clone()]);
    assert_eq!(listed("owner=ci&tag=main").await, (vec![made[0].clone()], Value::Null));
    let (first, next) = listed("limit=2").await;
    assert_eq!(first, [made[2].clone(), made[1].clone()]);
    let next = next.as_str().unwrap().to_owned();
    assert_eq!(listed(&format!("limit=2&cursor={next}")).await, (vec![made[0].clone()], Value::Null));
    hall.get(&format!("{PATH}?tag=a%22b")).await.problem(400, "bad_request");
}
