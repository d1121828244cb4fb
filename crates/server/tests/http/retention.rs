use crate::server::{Reply, TestServer};

const PATH: &str = "/api/v1/retention";

async fn put(hall: &TestServer, headers: &[(&str, &str)], body: &str) -> Reply {
    hall.send("PUT", PATH, &hall.admin, headers, body.as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rule_for_completed_jobs_is_read_and_changed_by_version() {
    let hall = TestServer::start().await;
    let unset = hall.get(PATH).await;
    assert_eq!(unset.json(), serde_json::json!({"keep_ms": null, "keep_count": null, "is_set": false}));
    let set = put(&hall, &[], r#"{"keep_ms":1000,"keep_count":5}"#).await;
    assert_eq!(set.status, 200);
    assert_eq!(set.json(), serde_json::json!({"keep_ms": 1000, "keep_count": 5, "is_set": true}));
    let version = set.header("etag").unwrap().to_owned();
    assert_eq!(hall.get(PATH).await.header("etag"), Some(version.as_str()));
    let changed = put(&hall, &[("if-match", &version)], r#"{"keep_ms":null}"#).await;
    assert_eq!(changed.json(), serde_json::json!({"keep_ms": null, "keep_count": 5, "is_set": true}));
    put(&hall, &[("if-match", &version)], r#"{"keep_ms":7}"#).await.problem(412, "precondition_failed");
    put(&hall, &[], r#"{"keep":7}"#).await.problem(400, "bad_request");
    let refused = put(&hall, &[], r#"{"keep_ms":3153600000001}"#).await;
    let told = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(told.contains("keep_ms") && told.contains("3153600000000"), "{told}");
    let audit = hall.send("GET", "/api/v1/audit", &hall.admin, &[], b"").await.json().to_string();
    assert!(audit.contains("retention_set"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_has_a_rule_for_completed_jobs() {
    let hall = TestServer::start().await;
    let path = "/api/v1/queues/mail";
    let set = hall.send("PUT", path, &hall.admin, &[], br#"{"keep_ms":1000,"keep_count":5}"#).await;
    assert_eq!((set.status, set.json()["keep_ms"].as_u64()), (201, Some(1000)));
    let reset = hall.send("PUT", path, &hall.admin, &[], br#"{"keep_ms":null}"#).await.json();
    assert!(reset["keep_ms"].is_null() && reset["keep_count"].as_u64() == Some(5), "{reset}");
    let shown = hall.get(path).await.json();
    assert_eq!(shown["keep_count"].as_u64(), Some(5), "{shown}");
    let refused = hall.send("PUT", path, &hall.admin, &[], br#"{"keep_count":9007199254740992}"#).await;
    let told = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(told.contains("keep_count") && told.contains("9007199254740991"), "{told}");
}
