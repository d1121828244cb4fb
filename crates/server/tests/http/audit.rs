use serde_json::Value;

use crate::server::{TestServer, wait_until};

async fn acts(hall: &TestServer, query: &str) -> Value {
    let reply = hall.send("GET", &format!("/api/v1/audit{query}"), &hall.admin, &[], b"").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

fn words(page: &Value) -> Vec<String> {
    let word = |act: &Value, field: &str| act[field].as_str().unwrap().to_owned();
    let items = page["items"].as_array().unwrap().iter();
    items.map(|act| format!("{} {} {}", word(act, "who"), word(act, "act"), word(act, "subject"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_what_is_told_newest_first_in_pages() {
    let hall = TestServer::start().await;
    let made = hall.token(r#"{"name":"ci","role":"client"}"#).await;
    let ci = made["secret"].as_str().unwrap();
    let id = hall.submit(r#"{"type":"t"}"#).await;
    hall.send("POST", &format!("/api/v1/jobs/{id}/cancel"), ci, &[], b"").await;
    hall.send("POST", &format!("/api/v1/jobs/{id}/retry"), ci, &[], b"").await;
    hall.send("PUT", "/api/v1/types/t", &hall.admin, &[], br#"{"keep_count":5}"#).await;
    let join = hall.secret(r#"{"name":"j","role":"worker","kind":"join"}"#).await;
    hall.send("POST", "/api/v1/join", &join, &[], br#"{"name":"gpu"}"#).await;
    let path = format!("/api/v1/tokens/{}", made["id"].as_str().unwrap());
    hall.send("DELETE", &path, &hall.admin, &[], b"").await;
    let expected = [
        "admin token_revoked ci".to_owned(),
        "j worker_joined gpu".to_owned(),
        "admin token_created j".to_owned(),
        "admin type_set t".to_owned(),
        format!("ci job_retried {id}"),
        format!("ci job_cancelled {id}"),
        "admin token_created ci".to_owned(),
    ];
    assert_eq!(words(&acts(&hall, "").await), expected);
    let mut all = Vec::new();
    let mut query = "?limit=3".to_owned();
    loop {
        let page = acts(&hall, &query).await;
        all.extend(words(&page));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        query = format!("?limit=3&cursor={cursor}");
    }
    assert_eq!(all, expected);
    for query in ["?limit=0", "?limit=501", "?cursor=x", "?who=me"] {
        let reply = hall.send("GET", &format!("/api/v1/audit{query}"), &hall.admin, &[], b"").await;
        reply.problem(400, "bad_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_written_down_once_a_minute_without_what_they_were() {
    let hall = TestServer::start().await;
    for _ in 0..5 {
        hall.send("GET", "/api/v1/jobs", "jh_wrong", &[], b"").await.problem(401, "unauthorized");
    }
    wait_until("an act", async || !words(&acts(&hall, "").await).is_empty()).await;
    let page = acts(&hall, "").await;
    assert_eq!(words(&page), ["127.0.0.1 wrong_token "]);
    assert!(!page.to_string().contains("jh_wrong"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_is_not_told_as_done() {
    let hall = TestServer::start().await;
    hall.post("/api/v1/jobs/99/cancel", "").await.problem(404, "not_found");
    hall.post("/api/v1/jobs/99/retry", "").await.problem(404, "not_found");
    let path = "/api/v1/tokens/0000000000000000";
    hall.send("DELETE", path, &hall.admin, &[], b"").await.problem(404, "not_found");
    assert_eq!(words(&acts(&hall, "").await), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_l9_an_entry_says_from_where_and_what_was_set() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"t","run_at":"2100-01-01T00:00:00Z"}"#).await;
    let put =
        |path: &'static str, body: &'static str| hall.send("PUT", path, &hall.admin, &[], body.as_bytes());
    put("/api/v1/types/t", r#"{"keep_count":5}"#).await;
    put("/api/v1/queues/q", r#"{"paused":true}"#).await;
    put("/api/v1/schedules/s", r#"{"every":"1h","job":{"type":"t","params":{"password":"hunter2"}}}"#).await;
    let path = format!("/api/v1/jobs/{id}");
    let edit = br#"{"priority":7,"params":{"password":"hunter2"}}"#;
    assert_eq!(hall.send("PATCH", &path, &hall.admin, &[], edit).await.status, 200);
    hall.post("/api/v1/operations", r#"{"verb":"cancel","filter":{"type":"t","queue":"q7"}}"#).await;
    let group = r#"{"name":"g","tags":["x"],"jobs":[{"type":"t","params":{"password":"hunter2"}}]}"#;
    assert_eq!(hall.post("/api/v1/groups", group).await.status, 201);
    hall.send("GET", &format!("/?code={}", hall.tokens.code()), "", &[], b"").await;
    hall.token(r#"{"name":"ci","role":"client","queues":["a","b"],"expires_in":"1h"}"#).await;
    let page = acts(&hall, "").await;
    let detail = |act: &str| {
        let found = page["items"].as_array().unwrap().iter().find(|item| item["act"] == act);
        found.unwrap_or_else(|| panic!("no {act} in {page}"))["detail"].as_str().unwrap().to_owned()
    };
    for (act, change) in [
        ("type_set", r#""keep_count":5"#),
        ("queue_paused", r#""paused":true"#),
        ("schedule_set", r#""every":"1h""#),
        ("job_edited", r#""priority":7"#),
        ("operation_started", r#""verb":"cancel""#),
        ("operation_started", r#""filter":{"queue":"q7","type":"t"}"#),
        ("group_created", r#""jobs":1,"name":"g","tags":["x"]"#),
        ("token_created", "queues a, b"),
    ] {
        let detail = detail(act);
        assert!(detail.starts_with("from 127.0.0.1; ") && detail.contains(change), "{act}: {detail}");
    }
    assert_eq!(detail("browser_entered"), "from 127.0.0.1");
    assert!(detail("token_created").contains("expires "), "{}", detail("token_created"));
    assert!(!page.to_string().contains("hunter2"), "params can be secret");
}
