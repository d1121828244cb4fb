use serde_json::json;

use crate::server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn l01_a_submit_answers_with_address_and_job() {
    let hall = TestServer::start().await;
    let reply = hall.post("/api/v1/jobs", r#"{"type":"mail"}"#).await;
    assert_eq!(reply.status, 201);
    let job = reply.json();
    assert_eq!(reply.header("location"), Some(format!("/api/v1/jobs/{}", job["id"]).as_str()));
    assert_eq!((&job["state"], &job["type"]), (&"queued".into(), &"mail".into()));
    assert_eq!(job["params"].to_string(), "{}");
    assert!(job["error"].is_null() && job["key"].is_null());
    let given =
        hall.post("/api/v1/jobs", r#"{"type":"mail","params":{"to":[1,2]},"priority":7,"queue":"q"}"#).await;
    let job = given.json();
    assert_eq!(job["params"].to_string(), r#"{"to":[1,2]}"#);
    assert_eq!((job["priority"].as_i64(), job["queue"].as_str()), (Some(7), Some("q")));
}

#[tokio::test(flavor = "multi_thread")]
async fn l02_a_type_is_required_and_checked() {
    let hall = TestServer::start().await;
    let detail = hall.post("/api/v1/jobs", "{}").await.problem(400, "bad_request");
    assert!(detail.contains("missing field `type`"), "{detail}");
    for (bad, word) in
        [(r#"{"type":""}"#, "type is empty"), (r#"{"type":"a b"}"#, "type has"), (r#"{"type":7}"#, "string")]
    {
        let detail = hall.post("/api/v1/jobs", bad).await.problem(400, "bad_request");
        assert!(detail.contains(word), "{bad}: {detail}");
    }
    assert_eq!(hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_taken_together_or_not_at_all() {
    let hall = TestServer::start().await;
    let reply =
        hall.post("/api/v1/jobs", r#" [{"type":"a"},{"type":"b","key":"k"},{"type":"b","key":"k"}]"#).await;
    assert_eq!(reply.status, 200);
    let answers = reply.json();
    let words: Vec<_> =
        answers.as_array().unwrap().iter().map(|one| one["disposition"].as_str().unwrap()).collect();
    assert_eq!(words, ["created", "created", "joined"]);
    assert_eq!(answers[1]["id"], answers[2]["id"]);
    let detail = hall.post("/api/v1/jobs", r#"[{"type":"a"},{"type":"a","needs":"=="}]"#).await;
    let detail = detail.problem(400, "bad_request");
    assert!(detail.starts_with("job 1: needs:"), "{detail}");
    assert_eq!(hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_and_wrong_json_are_refused_by_name_and_place() {
    let hall = TestServer::start().await;
    let detail =
        hall.post("/api/v1/jobs", r#"{"type":"a","colour":"red"}"#).await.problem(400, "bad_request");
    assert!(detail.contains("unknown field `colour`"), "{detail}");
    let detail = hall.post("/api/v1/jobs", "{\"type\":\n\"a\",}").await.problem(400, "bad_request");
    assert!(detail.contains("line 2 column 5"), "{detail}");
    let detail = hall.post("/api/v1/jobs", "").await.problem(400, "bad_request");
    assert!(detail.contains("line 1 column 0"), "{detail}");
    for bad in ["null", "7", "\"x\"", "{\"type\":\"a\"}{}", "\u{0}"] {
        hall.post("/api/v1/jobs", bad).await.problem(400, "bad_request");
    }
    let detail = hall.get("/api/v1/jobs?colour=red").await.problem(400, "bad_request");
    assert!(detail.contains("unknown field `colour`"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_join_are_refused_supersede_or_run_again() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a","key":"k"}"#).await;
    let joined = hall.post("/api/v1/jobs", r#"{"type":"a","key":"k"}"#).await;
    assert_eq!((joined.status, joined.json()["id"].as_u64()), (200, Some(id)));
    let rejected = hall.post("/api/v1/jobs", r#"{"type":"a","key":"k","on_duplicate":"reject"}"#).await;
    assert!(rejected.problem(409, "key_held").contains(&id.to_string()));
    let again = hall.post("/api/v1/jobs", r#"{"type":"a","key":"k","on_duplicate":"run_again"}"#).await;
    assert_eq!((again.status, again.json()["id"].as_u64()), (200, Some(id)));
    let next = hall.post("/api/v1/jobs", r#"{"type":"a","key":"k","on_duplicate":"supersede"}"#).await;
    assert_eq!(next.status, 200);
    assert_ne!(next.json()["id"].as_u64(), Some(id));
    assert_eq!(hall.state(id).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_with_other_params_says_so() {
    let hall = TestServer::start().await;
    let first = hall.post("/api/v1/jobs", r#"{"type":"a","key":"k","params":{"v":1,"w":2}}"#).await.json();
    assert_eq!((&first["disposition"], &first["params_differ"]), (&"created".into(), &json!(null)));
    let same = hall.post("/api/v1/jobs", r#"{"type":"a","key":"k","params":{"w":2.0,"v":1}}"#).await.json();
    assert_eq!((&same["disposition"], &same["params_differ"]), (&"joined".into(), &json!(null)));
    let other = hall.post("/api/v1/jobs", r#"{"type":"a","key":"k","params":{"v":2}}"#).await;
    assert_eq!(other.status, 200);
    let other = other.json();
    assert_eq!((&other["disposition"], &other["params_differ"]), (&"joined".into(), &json!(true)));
    assert_eq!((&other["id"], &other["params"]), (&first["id"], &json!({"v": 1, "w": 2})));
    let shown = hall.get(&format!("/api/v1/jobs/{}", first["id"])).await.json();
    assert!(shown["disposition"].is_null(), "only a submit has a disposition");
    let batch = r#"[{"type":"a","key":"k","params":{"v":1,"w":2}},{"type":"a"},{"type":"a","key":"k"}]"#;
    let differ = |answers: &serde_json::Value| {
        let answers = answers.as_array().unwrap().iter();
        answers.map(|one| one["params_differ"].as_bool().unwrap_or(false)).collect::<Vec<_>>()
    };
    assert_eq!(differ(&hall.post("/api/v1/jobs", batch).await.json()), [false, false, true]);
    let group = hall.post("/api/v1/groups", &format!(r#"{{"jobs":{batch}}}"#)).await.json();
    assert_eq!(differ(&group["jobs"]), [false, false, true], "{group}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_stands_for_one_body_of_one_token() {
    let hall = TestServer::start().await;
    let send = async |token: &str, body: &str| {
        hall.send("POST", "/api/v1/jobs", token, &[("Idempotency-Key", "once")], body.as_bytes()).await
    };
    let first = send(&hall.client, r#"{"type":"a"}"#).await;
    let second = send(&hall.client, r#"{"type":"a"}"#).await;
    assert_eq!(first.json()["id"], second.json()["id"]);
    send(&hall.client, r#"{"type":"a" }"#).await.problem(409, "idempotency_key_reused");
    let other = send(&hall.admin, r#"{"type":"a" }"#).await;
    assert_eq!(other.status, 201, "keys of another token are separate");
    assert_ne!(other.json()["id"], first.json()["id"]);
    let tab = [("Idempotency-Key", "a\tb")];
    let refused = hall.send("POST", "/api/v1/jobs", &hall.client, &tab, br#"{"type":"a"}"#).await;
    assert!(refused.problem(400, "bad_request").contains("idempotency-key must be printable text"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_given_in_part_takes_the_rest_from_the_type() {
    let hall = TestServer::start().await;
    let set = r#"{"retry":{"max_attempts":9},"keep_count":5}"#;
    let reply = hall.send("PUT", "/api/v1/types/a", &hall.admin, &[], set.as_bytes()).await;
    assert_eq!((reply.status, reply.json()["retry"]["max_attempts"].as_u64()), (201, Some(9)));
    let job = hall.post("/api/v1/jobs", r#"{"type":"a","retry":{"delay":"1s"}}"#).await.json();
    assert_eq!(job["max_attempts"].as_u64(), Some(9));
    let types = hall.get("/api/v1/types").await.json();
    assert_eq!(
        (types["items"][0]["name"].as_str(), types["items"][0]["keep_count"].as_u64()),
        (Some("a"), Some(5))
    );
    let bad = hall.send("PUT", "/api/v1/types/a", &hall.admin, &[], br#"{"retry":{"max_attempts":0}}"#).await;
    bad.problem(400, "bad_request");
}
