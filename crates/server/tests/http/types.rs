use crate::server::{Reply, TestServer};

const PATH: &str = "/api/v1/types/mail";

async fn put(hall: &TestServer, headers: &[(&str, &str)], body: &str) -> Reply {
    hall.send("PUT", PATH, &hall.admin, headers, body.as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_is_made_read_changed_and_reset() {
    let hall = TestServer::start().await;
    hall.get(PATH).await.problem(404, "not_found");
    let made = put(&hall, &[], r#"{"keep_ms":1000,"keep_count":5}"#).await;
    assert_eq!((made.status, made.header("location")), (201, Some(PATH)));
    let read = hall.get(PATH).await;
    assert_eq!((read.status, read.header("etag")), (200, made.header("etag")));
    assert_eq!(read.json(), made.json());
    let changed = put(&hall, &[], r#"{"keep_ms":null,"retry":{"max_attempts":9}}"#).await;
    assert_eq!(changed.status, 200);
    let told = changed.json();
    assert!(told["keep_ms"].is_null(), "null resets: {told}");
    assert_eq!(told["keep_count"].as_u64(), Some(5), "missing fields are unchanged");
    assert_eq!(told["retry"]["max_attempts"].as_u64(), Some(9));
    assert_ne!(changed.header("etag"), made.header("etag"));
    let id = hall.submit(r#"{"type":"mail"}"#).await;
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(job["max_attempts"].as_u64(), Some(9));
    let reset = hall.send("DELETE", PATH, &hall.admin, &[], b"").await;
    assert_eq!((reset.status, reset.body.len()), (204, 0));
    hall.get(PATH).await.problem(404, "not_found");
    hall.send("DELETE", PATH, &hall.admin, &[], b"").await.problem(404, "not_found");
    let id = hall.submit(r#"{"type":"mail"}"#).await;
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(job["max_attempts"].as_u64(), Some(5), "the defaults apply");
    assert_eq!(hall.get(PATH).await.status, 200, "a submit makes it known");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_version_that_was_meant_is_changed() {
    let hall = TestServer::start().await;
    let new = [("If-None-Match", "*")];
    let first = put(&hall, &new, r#"{"keep_count":1}"#).await;
    let tag = first.header("etag").unwrap().to_owned();
    put(&hall, &new, r#"{"keep_count":2}"#).await.problem(412, "precondition_failed");
    let second = put(&hall, &[("If-Match", &tag)], r#"{"keep_count":3}"#).await;
    assert_eq!(second.status, 200);
    let detail =
        put(&hall, &[("If-Match", &tag)], r#"{"keep_count":4}"#).await.problem(412, "precondition_failed");
    assert!(detail.contains(second.header("etag").unwrap()), "{detail}");
    hall.send("DELETE", PATH, &hall.admin, &[("If-Match", &tag)], b"")
        .await
        .problem(412, "precondition_failed");
    let several = format!("\"x\", {}", second.header("etag").unwrap());
    assert_eq!(put(&hall, &[("If-Match", &several)], r#"{"keep_count":5}"#).await.status, 200);
    assert_eq!(put(&hall, &[("If-Match", "*")], r#"{"keep_count":6}"#).await.status, 200);
    let none = hall.send("PUT", "/api/v1/types/other", &hall.admin, &[("If-Match", "*")], b"{}").await;
    none.problem(412, "precondition_failed");
    for bad in ["x", "\"x", "\"x\",", ""] {
        put(&hall, &[("If-Match", bad)], "{}").await.problem(400, "bad_request");
    }
    assert_eq!(
        hall.get(PATH).await.json()["keep_count"].as_u64(),
        Some(6),
        "the refused ones changed nothing"
    );
    assert_eq!(hall.get("/api/v1/types").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_the_version_is_not_sent_it_again() {
    let hall = TestServer::start().await;
    let tag = put(&hall, &[], "{}").await.header("etag").unwrap().to_owned();
    for known in [tag.as_str(), "*", &format!("W/{tag}")] {
        let reply = hall.send("GET", PATH, &hall.viewer, &[("If-None-Match", known)], b"").await;
        assert_eq!((reply.status, reply.body.len(), reply.header("etag")), (304, 0, Some(tag.as_str())));
    }
    put(&hall, &[], r#"{"keep_count":1}"#).await;
    let reply = hall.send("GET", PATH, &hall.viewer, &[("If-None-Match", &tag)], b"").await;
    assert_eq!(reply.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_does_not_come_back_after_a_reset() {
    let hall = TestServer::start().await;
    let tag = put(&hall, &[], r#"{"keep_count":1}"#).await.header("etag").unwrap().to_owned();
    hall.send("DELETE", PATH, &hall.admin, &[], b"").await;
    put(&hall, &[], r#"{"keep_count":2}"#).await;
    put(&hall, &[("If-Match", &tag)], r#"{"keep_count":3}"#).await.problem(412, "precondition_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_different_fields_at_once_are_all_kept() {
    let hall = TestServer::start().await;
    let (one, two, three) = tokio::join!(
        put(&hall, &[], r#"{"keep_ms":1000}"#),
        put(&hall, &[], r#"{"keep_count":7}"#),
        put(&hall, &[], r#"{"reuse_window_ms":9}"#),
    );
    assert!([one, two, three].iter().all(|reply| reply.status < 300));
    let told = hall.get(PATH).await.json();
    let numbers = ["keep_ms", "keep_count", "reuse_window_ms"].map(|field| told[field].as_u64());
    assert_eq!(numbers, [Some(1000), Some(7), Some(9)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_m5_types_are_listed_in_pages_and_a_retry_reads_its_own() {
    let hall = TestServer::start().await;
    put(&hall, &[], r#"{"retry":{"max_attempts":9,"delay":"7s"}}"#).await;
    let jobs: Vec<_> = (0..600).map(|n| format!(r#"{{"type":"t{n:03}"}}"#)).collect();
    let jobs = format!("[{}]", jobs.join(","));
    assert_eq!(hall.send("POST", "/api/v1/jobs", &hall.admin, &[], jobs.as_bytes()).await.status, 200);
    let first = hall.get("/api/v1/types").await.json();
    assert_eq!(first["items"].as_array().unwrap().len(), 500);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = hall.get(&format!("/api/v1/types?cursor={cursor}")).await.json();
    assert_eq!((second["items"].as_array().unwrap().len(), second["next_cursor"].is_null()), (101, true));
    hall.get("/api/v1/types?limit=501").await.problem(400, "bad_request");
    hall.get("/api/v1/types?cursor=b7").await.problem(400, "bad_request");
    let id = hall.submit(r#"{"type":"mail","retry":{"delay":"3s"}}"#).await;
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(job["max_attempts"].as_u64(), Some(9), "the rest of the policy is the type's");
    assert!(hall.store.settings(None).await.unwrap().iter().all(|setting| !setting.name.starts_with('t')));
}
