use serde_json::Value;

use crate::server::TestServer;

fn ids(page: &Value) -> Vec<u64> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn l03_a_job_is_read_by_id() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let reply = hall.get(&format!("/api/v1/jobs/{id}")).await;
    assert_eq!((reply.status, reply.json()["id"].as_u64()), (200, Some(id)));
    for bad in ["0", "x", "-1", "1.5", "99999999999999999999", "%00", "%ff"] {
        hall.get(&format!("/api/v1/jobs/{bad}")).await.problem(400, "bad_request");
    }
    let detail = hall.get("/api/v1/jobs/999999").await.problem(404, "not_found");
    assert!(detail.contains("999999"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_paged_newest_first() {
    let hall = TestServer::start().await;
    let mut all = Vec::new();
    for n in 0..7 {
        all.push(hall.submit(&format!(r#"{{"type":"t{}","queue":"q","key":"k{n}"}}"#, n % 2)).await);
    }
    let late = hall.submit(r#"{"type":"t0","run_at":"2999-01-01T00:00:00Z"}"#).await;
    all.reverse();
    let (mut seen, mut path) = (Vec::new(), "/api/v1/jobs?limit=3&queue=q".to_owned());
    loop {
        let page = hall.get(&path).await.json();
        seen.extend(ids(&page));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/api/v1/jobs?limit=3&queue=q&cursor={cursor}");
    }
    assert_eq!(seen, all);
    let list = async |query: &str| ids(&hall.get(&format!("/api/v1/jobs?{query}")).await.json());
    assert_eq!(list("type=t1&queue=q").await.len(), 3);
    assert_eq!(list("key=k2").await, [all[4]]);
    assert_eq!(list("state=scheduled").await, [late]);
    assert_eq!(list("state=queued&type=t0").await.len(), 4);
    assert_eq!(list("state=queued,scheduled").await.len(), 8);
    assert!(list("state=failed").await.is_empty());
    for bad in ["limit=0", "limit=501", "limit=x", "cursor=zz", "state=done", "type=a+b"] {
        hall.get(&format!("/api/v1/jobs?{bad}")).await.problem(400, "bad_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_is_cancelled_explained_and_retried_as_a_new_one() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a","params":{"n":1}}"#).await;
    let why = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(
        (why["state"].as_str(), why["reasons"][0]["code"].as_str()),
        (Some("queued"), Some("no_workers"))
    );
    hall.post(&format!("/api/v1/jobs/{id}/retry"), "").await.problem(409, "conflict");
    let body = r#"{"error":{"reason":"changed my mind"}}"#;
    let cancelled = hall.post(&format!("/api/v1/jobs/{id}/cancel"), body).await.json();
    assert_eq!(
        (&cancelled["state"], &cancelled["error"]["reason"]),
        (&"cancelled".into(), &"changed my mind".into())
    );
    assert_eq!(
        hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await.status,
        200,
        "a repetition returns the same"
    );
    let why = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(why["reasons"][0]["code"].as_str(), Some("cancelled"));
    assert_eq!(why["reasons"][0]["text"].as_str(), Some("it was cancelled: changed my mind"));
    let retried = hall.post(&format!("/api/v1/jobs/{id}/retry"), "").await;
    assert_eq!(retried.status, 201);
    let job = retried.json();
    assert_eq!(retried.header("location"), Some(format!("/api/v1/jobs/{}", job["id"]).as_str()));
    assert_eq!((job["retry_of"].as_u64(), job["params"].to_string()), (Some(id), r#"{"n":1}"#.to_owned()));
    for verb in ["cancel", "retry"] {
        hall.post(&format!("/api/v1/jobs/999999/{verb}"), "").await.problem(404, "not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_tell_how_far_live_attempts_are() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    let list = async |query: &str| ids(&hall.get(&format!("/api/v1/jobs?{query}")).await.json());
    assert_eq!((list("state=assigned").await, list("state=running").await), (vec![id], vec![]));
    hall.word(&attempt, "accept", b"").await;
    hall.word(&attempt, "progress", b"").await;
    assert_eq!((list("state=assigned").await, list("state=running").await), (vec![], vec![id]));
    assert_eq!(hall.get("/api/v1/jobs").await.json()["items"][0]["state"].as_str(), Some("running"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_where_the_next_one_is() {
    let hall = TestServer::start().await;
    for _ in 0..5 {
        hall.submit(r#"{"type":"a"}"#).await;
    }
    let (mut path, mut seen, mut pages) = ("/api/v1/jobs?limit=2&type=a".to_owned(), Vec::new(), 0);
    loop {
        let reply = hall.get(&path).await;
        seen.extend(ids(&reply.json()));
        pages += 1;
        let Some(link) = reply.header("link") else { break };
        let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(r#">; rel="next""#));
        path = next.expect("a link to the next page").to_owned();
        let cursor = reply.json()["next_cursor"].as_str().unwrap().to_owned();
        assert_eq!(path, format!("/api/v1/jobs?limit=2&type=a&cursor={cursor}"));
    }
    assert_eq!((seen.len(), pages), (5, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_a_text_in_type_key_params_or_error() {
    let hall = TestServer::start().await;
    let by_type = hall.submit(r#"{"type":"Needle"}"#).await;
    let by_key = hall.submit(r#"{"type":"a","key":"the NEEDLE here"}"#).await;
    let by_params = hall.submit(r#"{"type":"a","params":{"in":["hay","needle"]}}"#).await;
    let by_error = hall.submit(r#"{"type":"a"}"#).await;
    let why = r#"{"error":{"reason":"r","explanation":"a Needle in it"}}"#;
    hall.post(&format!("/api/v1/jobs/{by_error}/cancel"), why).await;
    hall.submit(r#"{"type":"a","queue":"needle","params":"other"}"#).await;
    let list = async |query: &str| ids(&hall.get(&format!("/api/v1/jobs?{query}")).await.json());
    assert_eq!(list("q=needle").await, [by_error, by_params, by_key, by_type]);
    assert_eq!(list("q=NEEDLE&type=a&state=queued").await, [by_params, by_key]);
    assert_eq!(list("q=%22hay%22").await, [by_params]);
    assert!(list("q=nothing").await.is_empty());
    let first = hall.get("/api/v1/jobs?q=needle&limit=1").await.json();
    assert_eq!(ids(&first), [by_error]);
    let rest = format!("q=needle&cursor={}", first["next_cursor"].as_str().unwrap());
    assert_eq!(list(&rest).await, [by_params, by_key, by_type]);
    let long = "x".repeat(257);
    for bad in ["", long.as_str()] {
        let detail = hall.get(&format!("/api/v1/jobs?q={bad}")).await.problem(400, "bad_request");
        assert!(detail.contains("q has") && detail.contains("256"), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_goes_on_beyond_what_one_request_looks_at() {
    let hall = TestServer::start().await;
    let wanted = hall.submit(r#"{"type":"wanted"}"#).await;
    let batch = format!("[{}]", vec![r#"{"type":"a"}"#; 2_100].join(","));
    assert_eq!(hall.post("/api/v1/jobs", &batch).await.status, 200);
    let first = hall.get("/api/v1/jobs?q=wanted").await.json();
    assert!(ids(&first).is_empty(), "one request looks at 2,000 jobs");
    let cursor = first["next_cursor"].as_str().expect("and says that there are more");
    let second = hall.get(&format!("/api/v1/jobs?q=wanted&cursor={cursor}")).await.json();
    assert_eq!((ids(&second), second["next_cursor"].is_null()), (vec![wanted], true));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_when_they_were_submitted() {
    let hall = TestServer::start().await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let id = hall.submit(r#"{"type":"a"}"#).await;
        let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
        jobs.push((id, job["created_at"].as_str().unwrap().to_owned()));
        // Waits until the clock shows another millisecond.
        let clock = std::time::SystemTime::now();
        while clock.elapsed().is_ok_and(|passed| passed.as_millis() < 2) {}
    }
    let list = async |query: &str| ids(&hall.get(&format!("/api/v1/jobs?{query}")).await.json());
    assert_eq!(list(&format!("created_after={}", jobs[1].1)).await, [jobs[2].0, jobs[1].0]);
    assert_eq!(list(&format!("created_before={}", jobs[1].1)).await, [jobs[0].0]);
    let both = format!("created_after={}&created_before={}", jobs[1].1, jobs[2].1);
    assert_eq!(list(&both).await, [jobs[1].0]);
    hall.get("/api/v1/jobs?created_after=yesterday").await.problem(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_is_repeated_with_its_idempotency_key_makes_one_job() {
    let hall = TestServer::start().await;
    let ids: Vec<u64> =
        [hall.submit(r#"{"type":"a","key":"k"}"#).await, hall.submit(r#"{"type":"a"}"#).await].to_vec();
    for id in &ids {
        hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await;
    }
    let retry = async |id: u64, key: &str| {
        let path = format!("/api/v1/jobs/{id}/retry");
        hall.send("POST", &path, &hall.client, &[("Idempotency-Key", key)], b"").await
    };
    let (first, second) = (retry(ids[0], "once").await, retry(ids[0], "once").await);
    assert_eq!((first.status, second.status), (201, 201), "{}", second.text());
    assert_eq!(first.json()["id"], second.json()["id"], "although its key is held now");
    retry(ids[0], "other").await.problem(409, "key_held");
    retry(ids[1], "once").await.problem(409, "idempotency_key_reused");
    retry(ids[1], "a\tb").await.problem(400, "bad_request");
    assert_eq!(hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len(), 3);
}
