use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Reply, TestServer};

const PATH: &str = "/api/v1/schedules/nightly";
const DAILY: &str = r#"{"cron":"0 3 * * *","zone":"Europe/Berlin","job":{"type":"report","params":{"n":1}}}"#;

async fn put(hall: &TestServer, headers: &[(&str, &str)], body: &str) -> Reply {
    hall.send("PUT", PATH, &hall.client, headers, body.as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_made_read_changed_and_removed() {
    let hall = TestServer::start().await;
    hall.get(PATH).await.problem(404, "not_found");
    let made = put(&hall, &[], DAILY).await;
    assert_eq!((made.status, made.header("location")), (201, Some(PATH)));
    let told = made.json();
    assert_eq!(told["name"], "nightly");
    assert_eq!((&told["cron"], &told["zone"]), (&json!("0 3 * * *"), &json!("Europe/Berlin")));
    assert_eq!(
        (&told["catch_up"], &told["overlap"], &told["jitter"]),
        (&json!("one"), &json!("skip"), &json!("0s"))
    );
    assert_eq!((&told["job"]["type"], &told["job"]["params"]), (&json!("report"), &json!({"n": 1})));
    assert!(told["next_tick"].is_string() && told["last_job"].is_null());
    let read = hall.get(PATH).await;
    assert_eq!((read.status, read.header("etag")), (200, made.header("etag")));
    let paused = put(&hall, &[], r#"{"paused":true,"job":{"type":"report","windows":"22:00-6:00"}}"#).await;
    assert_eq!(paused.status, 200);
    let told = paused.json();
    assert_eq!(
        (&told["paused"], &told["cron"]),
        (&json!(true), &json!("0 3 * * *")),
        "missing fields are unchanged"
    );
    assert_eq!(told["job"]["windows"], "22:00-06:00 UTC");
    assert!(told["next_tick"].is_null());
    assert_eq!(hall.get("/api/v1/schedules").await.json()["items"].as_array().unwrap().len(), 1);
    let removed = hall.send("DELETE", PATH, &hall.client, &[], b"").await;
    assert_eq!((removed.status, removed.body.len()), (204, 0));
    hall.get(PATH).await.problem(404, "not_found");
    hall.send("DELETE", PATH, &hall.client, &[], b"").await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_version_that_was_meant_is_changed() {
    let hall = TestServer::start().await;
    let tag = put(&hall, &[("If-None-Match", "*")], DAILY).await.header("etag").unwrap().to_owned();
    put(&hall, &[("If-None-Match", "*")], DAILY).await.problem(412, "precondition_failed");
    let second = put(&hall, &[("If-Match", &tag)], r#"{"jitter":"5m"}"#).await;
    assert_eq!(second.status, 200);
    let detail =
        put(&hall, &[("If-Match", &tag)], r#"{"jitter":"6m"}"#).await.problem(412, "precondition_failed");
    assert!(detail.contains(second.header("etag").unwrap()), "{detail}");
    hall.send("DELETE", PATH, &hall.client, &[("If-Match", &tag)], b"")
        .await
        .problem(412, "precondition_failed");
    let known = second.header("etag").unwrap();
    let same = hall.send("GET", PATH, &hall.viewer, &[("If-None-Match", known)], b"").await;
    assert_eq!((same.status, same.body.len()), (304, 0));
    assert_eq!(hall.get(PATH).await.json()["jitter"], "5m", "the refused ones changed nothing");
    let none =
        hall.send("PUT", "/api/v1/schedules/x", &hall.client, &[("If-Match", "*")], DAILY.as_bytes()).await;
    none.problem(412, "precondition_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_refused_with_its_place_and_nothing_is_made() {
    let hall = TestServer::start().await;
    for (body, said) in [
        ("{}", "a new schedule needs cron or every"),
        (r#"{"cron":"@daily"}"#, "a new schedule requires job"),
        (r#"{"cron":"0 25 * * *","job":{"type":"t"}}"#, "cron: \"25\" is not a valid hour at column 3"),
        (r#"{"cron":"0 0 30 2 *","job":{"type":"t"}}"#, "cron: no date matches this cron expression"),
        (r#"{"cron":"@daily","zone":"Berlin","job":{"type":"t"}}"#, "did you mean Europe/Berlin?"),
        (r#"{"every":"1ms","job":{"type":"t"}}"#, "every 1 ms is outside 1000 to"),
        (
            r#"{"every":"1h","jitter":"9999d","job":{"type":"t"}}"#,
            "jitter of 863913600000 ms is outside 0 to",
        ),
        (
            r#"{"every":"1h","job":{"type":"t","windows":"25:00-26:00"}}"#,
            "windows: \"25:00\" is not a time of day at column 1",
        ),
        (
            r#"{"every":"1h","job":{"type":"t","run_at":"2026-01-01T00:00:00Z"}}"#,
            "the job of a schedule cannot have run_at",
        ),
        (r#"{"every":"1h","job":{"type":"t"},"crn":1}"#, "unknown field `crn`"),
        (r#"{"every":"1h","job":{"type":"a b"}}"#, "type has the character ' ' at byte 1"),
    ] {
        let detail = put(&hall, &[], body).await.problem(400, "bad_request");
        assert!(detail.contains(said), "{body}: {detail}");
    }
    hall.send("PUT", "/api/v1/schedules/a%20b", &hall.client, &[], DAILY.as_bytes())
        .await
        .problem(400, "bad_request");
    assert_eq!(hall.get("/api/v1/schedules").await.json()["items"], json!([]));
    let detail = hall
        .post("/api/v1/jobs", r#"{"type":"t","windows":"mo 9:00-17:00"}"#)
        .await
        .problem(400, "bad_request");
    assert!(detail.contains("windows: \"mo\" is not a day at column 1"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ticks_are_told_before_they_come() {
    let hall = TestServer::start().await;
    let body = r#"{"cron":"30 2 * * *","zone":"Europe/Berlin","jitter":"1h","job":{"type":"t","windows":"06:00-07:00 Europe/Berlin"}}"#;
    put(&hall, &[], body).await;
    let told = hall.get(&format!("{PATH}/ticks")).await.json();
    let ticks = told["items"].as_array().unwrap();
    assert_eq!(ticks.len(), 5);
    for tick in ticks {
        let (tick, run_at) = (tick["tick"].as_str().unwrap(), tick["run_at"].as_str().unwrap());
        assert!(tick.ends_with("00:30:00.000Z") || tick.ends_with("01:30:00.000Z"), "{tick}");
        assert!(
            run_at.ends_with("04:00:00.000Z") || run_at.ends_with("05:00:00.000Z"),
            "in its window: {run_at}"
        );
    }
    assert_eq!(ticks[0]["tick"], hall.get(PATH).await.json()["next_tick"]);
    let many = hall.get(&format!("{PATH}/ticks?n=100")).await.json();
    assert_eq!(many["items"].as_array().unwrap().len(), 100);
    for wrong in ["n=0", "n=101", "n=x", "m=1"] {
        hall.get(&format!("{PATH}/ticks?{wrong}")).await.problem(400, "bad_request");
    }
    hall.get("/api/v1/schedules/other/ticks").await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_of_a_schedule_is_told_as_it_was_given() {
    let hall = TestServer::start().await;
    let job = json!({
        "type": "report", "key": "k", "queue": "night", "params": {"n": 1}, "needs": "gpu>=1", "uses": "gpu=1",
        "avoid": true, "windows": "22:00-06:00 Europe/Berlin", "priority": 7, "on_duplicate": "reject",
        "retry": {"max_attempts": 3, "backoff": "constant", "delay": "5s", "on": ["failed"]},
        "reuse": {"max_age": "1h"}, "throttle_factor": 3, "owner": "anna", "tags": ["nightly"],
    });
    let made = put(&hall, &[], &json!({"cron": "@daily", "job": job}).to_string()).await;
    assert_eq!((made.status, &made.json()["job"]), (201, &job), "{}", made.text());
    let hall = hall.restart(jobhall_engine::Config::default()).await;
    assert_eq!(schedule(&hall).await["job"], job);
}

async fn schedule(hall: &TestServer) -> Value {
    hall.get(PATH).await.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn ticks_make_jobs_and_a_restart_repeats_none() {
    let hall = TestServer::start().await;
    put(&hall, &[], r#"{"every":"1s","overlap":"allow","catch_up":"all","job":{"type":"t","queue":"q"}}"#)
        .await;
    let tag = hall.get(PATH).await.header("etag").unwrap().to_owned();
    until_jobs(&hall, 2).await;
    let told = schedule(&hall).await;
    let last = told["last_job"].as_u64().unwrap();
    let job = hall.get(&format!("/api/v1/jobs/{last}")).await.json();
    assert_eq!((&job["schedule"], &job["queue"]), (&json!("nightly"), &json!("q")));
    let paused = put(&hall, &[("If-Match", &tag)], r#"{"paused":true}"#).await;
    assert_eq!(paused.status, 200, "ticks make no new version: {}", paused.text());
    let before = jobs(&hall).await;
    let hall = hall.restart(jobhall_engine::Config::default()).await;
    put(&hall, &[], r#"{"paused":false}"#).await;
    until_jobs(&hall, before.len() + 2).await;
    let mut starts: Vec<_> = jobs(&hall).await.iter().map(|job| job["run_at"].to_string()).collect();
    let all = starts.len();
    starts.sort();
    starts.dedup();
    assert_eq!(starts.len(), all, "one job for each tick");
}

async fn jobs(hall: &TestServer) -> Vec<Value> {
    hall.get("/api/v1/jobs?queue=q&limit=100").await.json()["items"].as_array().unwrap().clone()
}

async fn until_jobs(hall: &TestServer, n: usize) {
    for _ in 0..600 {
        if jobs(hall).await.len() >= n {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("less than {n} jobs within 30 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_by_hand_makes_a_job_now() {
    let hall = TestServer::start().await;
    hall.post(&format!("{PATH}/run"), "").await.problem(404, "not_found");
    put(&hall, &[], DAILY).await;
    let made = hall.post(&format!("{PATH}/run"), "").await.json();
    assert_eq!(made["disposition"], "created");
    let job = hall.get(&format!("/api/v1/jobs/{}", made["id"])).await.json();
    assert_eq!((&job["type"], &job["schedule"]), (&json!("report"), &json!("nightly")));
    assert!(schedule(&hall).await["last_job"].is_null(), "it was not a tick");
    let keyed =
        async |path: &str| hall.send("POST", path, &hall.client, &[("Idempotency-Key", "once")], b"").await;
    let (first, second) = (keyed(&format!("{PATH}/run")).await, keyed(&format!("{PATH}/run")).await);
    assert_eq!((first.status, first.json()["id"].clone()), (200, second.json()["id"].clone()));
    assert_ne!(first.json()["id"], made["id"]);
    let retry = format!("/api/v1/jobs/{}/retry", made["id"]);
    hall.post(&format!("/api/v1/jobs/{}/cancel", made["id"]), "").await;
    keyed(&retry).await.problem(409, "idempotency_key_reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_tells_its_windows_and_why_it_waits_for_them() {
    let hall = TestServer::start().await;
    // A window of one minute, half a day from now: closed at the moment.
    let minute = (minute_of_day(&hall).await + 720) % 1_440;
    let (hour, minute) = (minute / 60, minute % 60);
    let end = (hour * 60 + minute + 1) % 1_440;
    let windows = format!("{hour:02}:{minute:02}-{:02}:{:02} UTC", end / 60, end % 60);
    let id = hall.submit(&format!(r#"{{"type":"t","windows":"{windows}"}}"#)).await;
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&job["windows"], &job["state"]), (&json!(windows), &json!("scheduled")));
    let reason = hall.get(&format!("/api/v1/jobs/{id}/explain")).await.json()["reasons"][0].clone();
    assert_eq!(reason["code"], "window");
    let text = reason["text"].as_str().unwrap();
    let said = format!("its windows are closed until {}: {windows}", job["run_at"].as_str().unwrap());
    assert_eq!(text, said);
}

/// The minute of the day on the server's clock.
async fn minute_of_day(hall: &TestServer) -> u64 {
    let id = hall.submit(r#"{"type":"clock"}"#).await;
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    let created = job["created_at"].as_str().unwrap().to_owned();
    created[11..13].parse::<u64>().unwrap() * 60 + created[14..16].parse::<u64>().unwrap()
}
