use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::server::{Reply, TestServer, read_until};

#[tokio::test(flavor = "multi_thread")]
async fn l04_a_job_is_followed_with_one_event_per_change_until_it_ends() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let path = format!("/api/v1/jobs/{id}/events");
    let mut stream = hall.open("GET", &path, &hall.viewer, &[], b"").await;
    let head = read_until(&mut stream, "queued").await;
    assert!(head.contains("text/event-stream") && head.contains("retry: 2000"), "{head}");
    hall.submit(r#"{"type":"other"}"#).await;
    let reply = hall.work("/api/v1/vacancies", r#"{"slots":1,"accepts":"type=a"}"#).await;
    let attempt = reply.json()["attempts"][0].clone();
    for (verb, body, state) in [
        ("accept", "", "accepted"),
        ("progress", "", "running"),
        ("outcome", r#"{"outcome":"succeeded"}"#, "succeeded"),
    ] {
        hall.word(&attempt, verb, body.as_bytes()).await;
        let seen = read_until(&mut stream, state).await;
        assert!(seen.matches("event: job").count() <= 2, "{seen}");
    }
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest));
    end.await.expect("the stream ends with the job").unwrap();
    let over = hall.get(&path).await.text();
    assert_eq!(over.matches("event: job").count(), 1, "{over}");
    assert!(over.contains(&format!(r#"data: {{"id":{id},"state":"succeeded"}}"#)), "{over}");
    hall.get("/api/v1/jobs/999999/events").await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_all_replays_from_a_position_and_goes_on_live() {
    let hall = TestServer::start().await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(hall.submit(r#"{"type":"a"}"#).await);
    }
    let all = [("Last-Event-ID", "0")];
    let mut stream = hall.open("GET", "/api/v1/events", &hall.viewer, &all, b"").await;
    let last = format!(r#""id":{}"#, jobs[4]);
    let seen = read_until(&mut stream, &last).await;
    let positions: Vec<u64> =
        seen.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
    assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "{positions:?}");
    let live = hall.submit(r#"{"type":"a"}"#).await;
    read_until(&mut stream, &format!(r#""id":{live}"#)).await;
    let path = format!("/api/v1/events?after={}", positions[2]);
    let mut resumed = hall.open("GET", &path, &hall.viewer, &[], b"").await;
    let seen = read_until(&mut resumed, &format!(r#""id":{live}"#)).await;
    assert!(!seen.contains(&format!("id: {}\nevent", positions[2])), "{seen}");
    assert!(seen.contains(&format!("id: {}\n", positions[3])), "{seen}");
    let bad = hall.send("GET", "/api/v1/events", &hall.viewer, &[("Last-Event-ID", "x")], b"").await;
    bad.problem(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_position_the_stream_begins_now() {
    let hall = TestServer::start().await;
    let mut old = Vec::new();
    for _ in 0..9 {
        old.push(hall.submit(r#"{"type":"a"}"#).await);
    }
    let mut stream = hall.open("GET", "/api/v1/events", &hall.viewer, &[], b"").await;
    read_until(&mut stream, "retry: 2000").await;
    let new = hall.submit(r#"{"type":"a"}"#).await;
    let seen = read_until(&mut stream, &format!(r#""id":{new}"#)).await;
    assert_eq!(seen.matches("event: job").count(), 1, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hall_that_stops_ends_what_waits_and_finishes_what_is_under_way() {
    let mut hall = TestServer::start().await;
    let body = br#"{"slots":1,"wait_s":60}"#;
    let mut poll = hall.open("POST", "/api/v1/vacancies", &hall.worker, &[], body).await;
    let mut events = hall.open("GET", "/api/v1/events", &hall.viewer, &[], b"").await;
    read_until(&mut events, "retry: 2000").await;
    hall.until_offered("w", 1).await;
    let stop = hall.running.take().unwrap().stop();
    tokio::time::timeout(Duration::from_secs(5), stop).await.expect("it stops soon");
    let mut bytes = Vec::new();
    poll.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(Reply::parse(&bytes).status, 204);
    let mut last = String::new();
    events.read_to_string(&mut last).await.unwrap();
    assert!(last.contains("event: closing\ndata: {}\n\n"), "the last event: {last}");
    assert!(tokio::net::TcpStream::connect(&hall.address).await.is_err(), "the port is closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_was_pruned_is_answered_with_a_reset() {
    let hall = TestServer::start().await;
    for _ in 0..3 {
        hall.submit(r#"{"type":"a"}"#).await;
    }
    let feed_before = jobhall_core::Time::from_ms(jobhall_core::bounds::TIME_MS).ok();
    hall.store.prune(jobhall_store::Prune { feed_before, ..Default::default() }).await.unwrap();
    let mut stream = hall.open("GET", "/api/v1/events?after=1", &hall.viewer, &[], b"").await;
    let seen = read_until(&mut stream, "event: reset").await;
    assert!(seen.contains("id: "), "{seen}");
    let new = hall.submit(r#"{"type":"a"}"#).await;
    let seen = read_until(&mut stream, &format!(r#""id":{new}"#)).await;
    assert_eq!(seen.matches("event: job").count(), 1, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hall_that_drains_takes_no_work_but_lets_everyone_finish() {
    let hall = TestServer::start().await;
    let held = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    let queued = hall.submit(r#"{"type":"b"}"#).await;
    let body = br#"{"slots":1,"wait_s":60,"accepts":"type=c"}"#;
    let mut poll = hall.open("POST", "/api/v1/vacancies", &hall.worker, &[], body).await;
    let mut events = hall.open("GET", "/api/v1/events", &hall.viewer, &[], b"").await;
    read_until(&mut events, "retry: 2000").await;
    hall.until_offered("w", 1).await;
    assert_eq!(hall.get("/readyz").await.status, 200);
    hall.running.as_ref().unwrap().drain();
    let mut bytes = Vec::new();
    poll.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(Reply::parse(&bytes).status, 204, "a waiting poll returns no job");
    let retry = format!("/api/v1/jobs/{queued}/retry");
    let operation = r#"{"verb":"cancel","all":true}"#;
    for refused in [
        hall.get("/readyz").await,
        hall.post("/api/v1/jobs", r#"{"type":"a"}"#).await,
        hall.post(&retry, "").await,
        hall.post("/api/v1/operations", operation).await,
        hall.work("/api/v1/vacancies", r#"{"slots":1}"#).await,
    ] {
        refused.problem(503, "unavailable");
        assert_eq!(refused.header("retry-after"), Some("2"));
    }
    assert_eq!(hall.get("/livez").await.status, 200);
    let outcome = hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await;
    assert_eq!(outcome.status, 200, "a worker with jobs finishes them");
    read_until(&mut events, &format!(r#"{{"id":{held},"state":"succeeded"}}"#)).await;
    assert_eq!(hall.post(&format!("/api/v1/jobs/{queued}/cancel"), "").await.status, 200);
    assert_eq!(hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_says_where_it_stands_before_anything_happens() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let mut stream = hall.open("GET", "/api/v1/events", &hall.viewer, &[], b"").await;
    let head = read_until(&mut stream, "id: 1\n\n").await;
    assert!(head.contains("retry: 2000\nid: 1\n\n"), "{head}");
    drop(stream);
    hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await;
    let from = [("Last-Event-ID", "1")];
    let mut stream = hall.open("GET", "/api/v1/events", &hall.viewer, &from, b"").await;
    read_until(&mut stream, "cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_never_was_is_answered_with_a_reset() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    for path in ["/api/v1/events".to_owned(), format!("/api/v1/jobs/{id}/events")] {
        let from = [("Last-Event-ID", "999")];
        let mut stream = hall.open("GET", &path, &hall.viewer, &from, b"").await;
        let seen = read_until(&mut stream, "event: reset").await;
        assert!(seen.contains("id: 1\n") && !seen.contains("999"), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_job_ends_although_its_end_was_pruned() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let path = format!("/api/v1/jobs/{id}/events");
    hall.post(&format!("/api/v1/jobs/{id}/cancel"), "").await;
    let feed_before = jobhall_core::Time::from_ms(jobhall_core::bounds::TIME_MS).ok();
    hall.store.prune(jobhall_store::Prune { feed_before, ..Default::default() }).await.unwrap();
    let reply = hall.send("GET", &path, &hall.viewer, &[("Last-Event-ID", "1")], b"").await;
    assert!(reply.text().contains(r#""state":"cancelled""#), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_14_progress_is_told_to_whoever_watches_the_job() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let mut of_job = hall.open("GET", &format!("/api/v1/jobs/{id}/events"), &hall.viewer, &[], b"").await;
    let mut of_all = hall.open("GET", "/api/v1/events", &hall.viewer, &[], b"").await;
    read_until(&mut of_job, "queued").await;
    read_until(&mut of_all, "retry: 2000").await;
    let attempt = hall.take().await;
    for step in 1..=50 {
        let body = format!(r#"{{"indicators":[{{"name":"rows","step":{step},"total":50,"message":""}}]}}"#);
        let reply = hall.word(&attempt, "progress", body.as_bytes()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    for stream in [&mut of_job, &mut of_all] {
        let last = read_until(stream, r#""step":50"#).await;
        assert!(last.contains(&format!("event: progress\ndata: {{\"id\":{id},\"progress\":[")), "{last}");
    }
}
