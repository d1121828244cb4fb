use serde_json::Value;

use crate::hall::TestHall;

fn ids(page: &Value) -> Vec<u64> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn l03_a_job_is_read_by_id() {
    let hall = TestHall::start().await;
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
    let hall = TestHall::start().await;
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
    let hall = TestHall::start().await;
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
    assert_eq!(hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await.status, 200, "again is the same");
    let why = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    assert_eq!(why["reasons"][0]["code"].as_str(), Some("completed"));
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
    let hall = TestHall::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    let list = async |query: &str| ids(&hall.get(&format!("/api/v1/jobs?{query}")).await.json());
    assert_eq!((list("state=assigned").await, list("state=running").await), (vec![id], vec![]));
    hall.word(&attempt, "accept", b"").await;
    hall.word(&attempt, "progress", b"").await;
    assert_eq!((list("state=assigned").await, list("state=running").await), (vec![], vec![id]));
    assert_eq!(hall.get("/api/v1/jobs").await.json()["items"][0]["state"].as_str(), Some("running"));
}
