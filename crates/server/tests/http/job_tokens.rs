use jobhall_engine::Config;

use crate::server::{Reply, TestServer};

async fn ask(hall: &TestServer, token: &str, method: &str, path: &str) -> Reply {
    hall.send(method, path, token, &[], br#"{"indicators":[{"name":"n","step":3,"total":7,"message":"m"}]}"#)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_own_token_sees_its_job_and_tells_how_far_it_is_and_nothing_else() {
    let hall = TestServer::start().await;
    let (id, other) = (hall.submit(r#"{"type":"t"}"#).await, hall.submit(r#"{"type":"t"}"#).await);
    let given = hall.take().await;
    assert_eq!(given["job"]["id"].as_u64(), Some(id));
    let (token, attempt) = (given["token"].as_str().unwrap(), given["id"].as_str().unwrap());
    assert_eq!(ask(&hall, token, "GET", &format!("/api/v1/jobs/{id}")).await.status, 200);
    assert_eq!(ask(&hall, token, "GET", &format!("/api/v1/jobs/{id}/log")).await.status, 200);
    let told = ask(&hall, token, "POST", &format!("/api/v1/attempts/{attempt}/progress")).await;
    assert_eq!(told.status, 200, "without a lease: {told:?}");
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((job["progress"][0]["step"].as_u64(), job["state"].as_str()), (Some(3), Some("running")));
    for path in [format!("/api/v1/jobs/{other}"), format!("/api/v1/jobs/{other}/log")] {
        ask(&hall, token, "GET", &path).await.problem(404, "not_found");
    }
    let elsewhere = ask(&hall, token, "POST", &format!("/api/v1/attempts/{other}-1/progress")).await;
    elsewhere.problem(404, "not_found");
    ask(&hall, token, "POST", &format!("/api/v1/jobs/{id}/cancel")).await.problem(403, "forbidden");
    ask(&hall, token, "POST", &format!("/api/v1/attempts/{attempt}/outcome")).await.problem(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_own_token_dies_with_the_attempt() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"t","retry":{"max_attempts":2,"delay":"0s"}}"#).await;
    let path = format!("/api/v1/jobs/{id}");
    let first = hall.take().await;
    let token = first["token"].as_str().unwrap();
    assert_eq!(ask(&hall, token, "GET", &path).await.status, 200);
    assert_eq!(hall.word(&first, "outcome", br#"{"outcome":"failed","retry":"now"}"#).await.status, 200);
    ask(&hall, token, "GET", &path).await.problem(401, "unauthorized");
    let second = hall.take().await;
    assert_ne!(second["token"], first["token"]);
    ask(&hall, token, "GET", &path).await.problem(401, "unauthorized");
    let token = second["token"].as_str().unwrap();
    assert_eq!(ask(&hall, token, "GET", &path).await.status, 200);
    assert_eq!(hall.word(&second, "outcome", br#"{"outcome":"succeeded"}"#).await.status, 200);
    ask(&hall, token, "GET", &path).await.problem(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_own_token_outlives_a_restart_of_the_hall_and_cannot_be_made_up() {
    let config = Config { lease_ms: 600_000, ..Config::default() };
    let hall = TestServer::with(config).await;
    let id = hall.submit(r#"{"type":"t"}"#).await;
    let given = hall.take().await;
    hall.word(&given, "accept", b"").await;
    let hall = hall.restart(config).await;
    let token = given["token"].as_str().unwrap();
    assert_eq!(ask(&hall, token, "GET", &format!("/api/v1/jobs/{id}")).await.status, 200);
    let (head, mac) = token.rsplit_once('_').unwrap();
    let mut wrong = mac.to_owned();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    for bad in [format!("{head}_{wrong}"), format!("jh_job_{id}-2_{mac}"), format!("jh_job_999-1_{mac}")] {
        ask(&hall, &bad, "GET", &format!("/api/v1/jobs/{id}")).await.problem(401, "unauthorized");
    }
}
