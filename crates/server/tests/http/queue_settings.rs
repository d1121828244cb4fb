//! Limits and pauses of queues and types, through the API.

use crate::server::{Reply, TestServer};

const PATH: &str = "/api/v1/queues/mail";

async fn put(hall: &TestServer, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    hall.send("PUT", path, &hall.admin, headers, body.as_bytes()).await
}

async fn explained(hall: &TestServer, id: u64) -> (String, String) {
    let told = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json();
    let reason = &told["reasons"][0];
    (reason["code"].as_str().unwrap().to_owned(), reason["text"].as_str().unwrap().to_owned())
}

async fn poll(hall: &TestServer) -> Reply {
    hall.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":0}"#).await
}

#[tokio::test(flavor = "multi_thread")]
async fn h19_a_queue_has_settings_of_its_own() {
    let hall = TestServer::start().await;
    hall.get(PATH).await.problem(404, "not_found");
    let made = put(&hall, PATH, &[], r#"{"limits":[{"concurrency":2,"by":"owner"}]}"#).await;
    assert_eq!((made.status, made.header("location")), (201, Some(PATH)));
    let tag = made.header("etag").unwrap().to_owned();
    let changed = put(&hall, PATH, &[("If-Match", &tag)], r#"{"paused":true}"#).await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.json()["limits"][0]["by"].as_str(), Some("owner"), "missing fields are unchanged");
    let detail = put(&hall, PATH, &[("If-Match", &tag)], "{}").await.problem(412, "precondition_failed");
    assert!(detail.contains(changed.header("etag").unwrap()), "{detail}");
    hall.submit(r#"{"type":"a","queue":"web"}"#).await;
    let mail = hall.get(PATH).await;
    assert_eq!(mail.header("etag"), changed.header("etag"));
    assert_eq!((mail.json()["paused"].as_bool(), mail.json()["ready"].as_u64()), (Some(true), Some(0)));
    let list = hall.get("/api/v1/queues").await.json();
    let told: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|queue| queue["paused"].clone()).collect();
    assert_eq!(told, [true, false], "a queue that is configured is known without jobs");
    assert_eq!(hall.send("DELETE", PATH, &hall.admin, &[], b"").await.status, 204);
    hall.get(PATH).await.problem(404, "not_found");
    hall.send("DELETE", PATH, &hall.admin, &[], b"").await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_and_says_so() {
    let hall = TestServer::start().await;
    put(&hall, PATH, &[], r#"{"limits":[{"by":"params.c","concurrency":1}]}"#).await;
    let first = hall.submit(r#"{"type":"a","queue":"mail","params":{"c":"acme"}}"#).await;
    let second = hall.submit(r#"{"type":"a","queue":"mail","params":{"c":"acme"}}"#).await;
    let critical = hall
        .submit(r#"{"type":"a","queue":"mail","params":{"c":"acme"},"throttle_factor":0,"priority":200}"#)
        .await;
    let held = hall.take().await;
    assert_eq!(held["job"]["id"].as_u64(), Some(first));
    let other = hall.take().await;
    assert_eq!(other["job"]["id"].as_u64(), Some(critical), "exempt");
    assert_eq!(poll(&hall).await.status, 204);
    let (code, text) = explained(&hall, second).await;
    assert_eq!(code, "limited");
    assert!(
        text.starts_with("a limit of queue mail for params.c = \"acme\" allows 1 at once: 1 taken by job"),
        "{text}"
    );
    hall.word(&held, "outcome", br#"{"outcome":"succeeded"}"#).await;
    assert_eq!(hall.take().await["job"]["id"].as_u64(), Some(second));
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_and_types_pause_and_go_on() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a","queue":"mail"}"#).await;
    put(&hall, PATH, &[], r#"{"paused":true}"#).await;
    assert_eq!(poll(&hall).await.status, 204);
    assert_eq!(
        explained(&hall, id).await,
        ("paused".to_owned(), "queue mail is paused; resume it".to_owned())
    );
    put(&hall, PATH, &[], r#"{"paused":false}"#).await;
    let path = "/api/v1/types/a";
    let told = put(&hall, path, &[], r#"{"paused":true,"limits":[{"concurrency":9}]}"#).await.json();
    assert_eq!((told["paused"].as_bool(), told["limits"][0]["concurrency"].as_u64()), (Some(true), Some(9)));
    assert_eq!(explained(&hall, id).await, ("paused".to_owned(), "type a is paused; resume it".to_owned()));
    put(&hall, path, &[], r#"{"paused":false}"#).await;
    assert_eq!(hall.take().await["job"]["id"].as_u64(), Some(id));
    let acts = hall.send("GET", "/api/v1/audit", &hall.admin, &[], b"").await.json();
    let acts: Vec<_> =
        acts["items"].as_array().unwrap().iter().map(|act| act["act"].as_str().unwrap().to_owned()).collect();
    assert!(
        acts.contains(&"queue_paused".to_owned()) && acts.contains(&"queue_resumed".to_owned()),
        "{acts:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_limits_are_refused_with_place_and_suggestion_and_change_nothing() {
    let hall = TestServer::start().await;
    for path in [PATH, "/api/v1/types/a"] {
        for (body, said) in [
            (
                r#"{"limits":[{"concurrency":1},{"by":"ownr","concurrency":1}]}"#,
                "by of limit 2: unknown name \"ownr\" at column 1; did you mean \"owner\"?",
            ),
            (
                r#"{"limits":[{"concurrency":0}]}"#,
                "concurrency of 0 in limit 1 is outside 1 to 1000000; pause it instead",
            ),
            (
                r#"{"limits":[{"rate":{"count":1,"per_ms":0}}]}"#,
                "rate per_ms of 0 in limit 1 is outside 1 to 31536000000",
            ),
            (r#"{"limits":[{"by":"key"}]}"#, "limit 1 has neither concurrency nor rate"),
            (r#"{"limits":[{"concurrency":1,"weight":1}]}"#, "unknown field `weight`"),
            (r#"{"pause":true}"#, "unknown field `pause`"),
        ] {
            let detail = put(&hall, path, &[], body).await.problem(400, "bad_request");
            assert!(detail.contains(said), "{detail}");
        }
        let many = format!(r#"{{"limits":[{}]}}"#, vec![r#"{"concurrency":1}"#; 17].join(","));
        let detail = put(&hall, path, &[], &many).await.problem(400, "bad_request");
        assert!(detail.contains("limits has 17 entries, the limit is 16"), "{detail}");
        hall.get(path).await.problem(404, "not_found");
    }
    let heavy = r#"{"type":"a","throttle_factor":1000001}"#;
    let detail = hall.post("/api/v1/jobs", heavy).await.problem(400, "bad_request");
    assert!(detail.contains("throttle_factor of 1000001 is outside 0 to 1000000"), "{detail}");
}
