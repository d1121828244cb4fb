use std::time::{Duration, Instant};

use jobhall_server::Role;
use serde_json::Value;

use crate::server::{TestServer, quick};

fn given(reply: &crate::server::Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["attempts"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn l15_a_new_job_wakes_a_waiting_vacancy_and_a_waiting_job_is_handed_over() {
    let hall = TestServer::start().await;
    let (taken, id) = tokio::join!(hall.take(), async {
        hall.until_offered("w", 1).await;
        hall.submit(r#"{"type":"a"}"#).await
    });
    assert_eq!(taken["job"]["id"].as_u64(), Some(id));
    let second = hall.submit(r#"{"type":"a"}"#).await;
    let started = Instant::now();
    assert_eq!(hall.take().await["job"]["id"].as_u64(), Some(second));
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn l06_a_whole_life_in_nothing_but_requests() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a","key":"k","params":{"n":1}}"#).await;
    let attempt = hall.take().await;
    assert_eq!(attempt["id"].as_str(), Some(format!("{id}-1").as_str()));
    assert_eq!(attempt["lease"].as_str().unwrap().len(), 32);
    assert_eq!((attempt["lease_ms"].as_u64(), attempt["job"]["attempt"].as_u64()), (Some(30_000), Some(1)));
    assert_eq!(attempt["job"]["params"].to_string(), r#"{"n":1}"#);
    assert_eq!((&attempt["job"]["type"], &attempt["job"]["key"]), (&"a".into(), &"k".into()));
    let accepted = hall.word(&attempt, "accept", b"").await;
    assert_eq!((accepted.status, accepted.json()["state"].as_str()), (200, Some("accepted")));
    let progress = br#"{"indicators":[{"name":"files","step":3,"total":9,"message":"half"}]}"#;
    assert_eq!(hall.word(&attempt, "progress", progress).await.json()["state"].as_str(), Some("running"));
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&job["worker"], &job["progress"][0]["step"]), (&"w".into(), &3.into()));
    assert_eq!(hall.word(&attempt, "log", b"hello\n").await.json()["len"].as_u64(), Some(6));
    hall.get(&format!("/api/v1/jobs/{id}/result")).await.problem(409, "conflict");
    let ended = hall.word(&attempt, "outcome", br#"{"outcome":"succeeded","value":{"sum":42}}"#).await;
    assert_eq!((ended.status, ended.json()["state"].as_str()), (200, Some("succeeded")));
    let again = hall.word(&attempt, "outcome", br#"{"outcome":"succeeded","value":{"sum":42}}"#).await;
    assert_eq!(again.json()["state"].as_str(), Some("succeeded"), "a repeated outcome has the same response");
    let result = hall.get(&format!("/api/v1/jobs/{id}/result")).await;
    assert_eq!((result.status, result.text()), (200, r#"{"sum":42}"#.to_owned()));
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "hello\n");
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(
        (&job["attempts"][0]["outcome"], &job["attempts"][0]["worker"]),
        (&"succeeded".into(), &"w".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn l08_l18_failures_have_words_and_successes_any_value() {
    let hall = TestServer::start().await;
    for value in ["null", "false", "0", "\"\"", "[1,{}]"] {
        let id = hall.submit(r#"{"type":"a"}"#).await;
        let body = format!(r#"{{"outcome":"succeeded","value":{value}}}"#);
        let attempt = hall.take().await;
        assert_eq!(hall.word(&attempt, "outcome", body.as_bytes()).await.status, 200);
        assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/result")).await.text(), value);
    }
    let id = hall.submit(r#"{"type":"a","retry":{"max_attempts":1}}"#).await;
    let attempt = hall.take().await;
    let body =
        br#"{"outcome":"failed","error":{"reason":"boom","explanation":"it broke","data":{"line":7}}}"#;
    assert_eq!(hall.word(&attempt, "outcome", body).await.json()["state"].as_str(), Some("failed"));
    let error = hall.get(&format!("/api/v1/jobs/{id}")).await.json()["error"].clone();
    assert_eq!((&error["reason"], &error["explanation"]), (&"boom".into(), &"it broke".into()));
    assert_eq!(error["data"].to_string(), r#"{"line":7}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_retried_when_the_worker_says_so() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    hall.word(&attempt, "accept", b"").await;
    let body = br#"{"outcome":"failed","retry":"now","params":{"n":2}}"#;
    assert_eq!(hall.word(&attempt, "outcome", body).await.json()["state"].as_str(), Some("retrying"));
    let second = hall.take().await;
    assert_eq!((&second["job"]["id"], &second["job"]["attempt"]), (&id.into(), &2.into()));
    assert_eq!(second["job"]["params"].to_string(), r#"{"n":2}"#);
    for bad in [
        r#"{"outcome":"succeeded","error":{"reason":"x"}}"#,
        r#"{"outcome":"failed","value":1}"#,
        r#"{"outcome":"failed","params":{}}"#,
        r#"{"outcome":"done"}"#,
        "{}",
    ] {
        hall.word(&second, "outcome", bad.as_bytes()).await.problem(400, "bad_request");
    }
    assert_eq!(hall.state(id).await, "assigned", "a wrong outcome changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn l09_a_word_counts_only_with_the_current_lease_of_its_own_worker() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    let (path, lease) = (format!("/api/v1/attempts/{id}-1/outcome"), attempt["lease"].as_str().unwrap());
    let passed = br#"{"outcome":"succeeded"}"#;
    let thief = hall.tokens.mint("thief", Role::Worker);
    let send = async |token: &str, path: &str, lease: &str| {
        hall.send("POST", path, token, &[("Jobhall-Lease", lease)], passed).await
    };
    send(&thief, &path, lease).await.problem(409, "lease_lost");
    send(&hall.worker, &path, &"0".repeat(32)).await.problem(409, "lease_lost");
    send(&hall.worker, &path.replace("-1/", "-2/"), lease).await.problem(409, "lease_lost");
    send(&hall.worker, "/api/v1/attempts/999999-1/outcome", lease).await.problem(404, "not_found");
    send(&hall.worker, "/api/v1/attempts/x/outcome", lease).await.problem(400, "bad_request");
    send(&hall.worker, &path, "short").await.problem(400, "bad_request");
    let without = hall.send("POST", &path, &hall.worker, &[], passed).await;
    assert!(without.problem(400, "bad_request").contains("jobhall-lease"));
    for verb in ["accept", "progress", "log"] {
        let path = format!("/api/v1/attempts/{id}-1/{verb}");
        let reply = hall.send("POST", &path, &thief, &[("Jobhall-Lease", lease)], b"").await;
        reply.problem(409, "lease_lost");
    }
    assert_eq!(hall.state(id).await, "assigned", "nothing of it changed anything");
    assert_eq!(send(&hall.worker, &path, lease).await.status, 200);
    let other = hall.word(&attempt, "outcome", br#"{"outcome":"failed"}"#).await;
    other.problem(409, "lease_lost");
    hall.word(&attempt, "log", b"late").await.problem(409, "lease_lost");
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "", "a stale worker stores nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn l05_l17_a_vacancy_that_gets_nothing_ends_after_its_time() {
    let hall = TestServer::start().await;
    let reply = hall.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":0}"#).await;
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    let started = Instant::now();
    assert_eq!(hall.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":1}"#).await.status, 204);
    assert!(started.elapsed() >= Duration::from_millis(950), "{:?}", started.elapsed());
    let id = hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.state(id).await, "queued", "an ended poll gets no job");
    let reply = hall.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":0}"#).await;
    assert_eq!(
        given(&reply)[0]["job"]["id"].as_u64(),
        Some(id),
        "even a poll that does not wait gets an available job"
    );
    for bad in [
        r#"{"slots":0}"#,
        r#"{"slots":10001}"#,
        r#"{"slots":1,"wait_s":61}"#,
        r#"{"slots":1,"abilities":"=="}"#,
        r#"{"slots":1,"accepts":"colour=red"}"#,
        r#"{"slots":1,"worker":"other"}"#,
    ] {
        hall.work("/api/v1/vacancies", bad).await.problem(400, "bad_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l14_of_two_racing_vacancies_one_wins_and_the_other_waits_on() {
    let hall = TestServer::start().await;
    let started = Instant::now();
    let poll = || hall.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":2}"#);
    let (one, two, id) = tokio::join!(poll(), poll(), async {
        hall.until_offered("w", 2).await;
        hall.submit(r#"{"type":"a"}"#).await
    });
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 204]);
    assert!(started.elapsed() >= Duration::from_millis(1_950), "the other one waits until its timeout");
    let winner = if one.status == 200 { one } else { two };
    assert_eq!(given(&winner)[0]["job"]["id"].as_u64(), Some(id));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_slots_get_several_jobs_and_what_is_left_of_them_gets_nothing_more() {
    let hall = TestServer::start().await;
    for _ in 0..3 {
        hall.submit(r#"{"type":"a"}"#).await;
    }
    let reply = hall.work("/api/v1/vacancies", r#"{"slots":5,"wait_s":10}"#).await;
    let mut got = given(&reply).as_array().unwrap().len();
    let id = hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.state(id).await, "queued", "the poll is over");
    while got < 4 {
        let reply = hall.work("/api/v1/vacancies", r#"{"slots":5,"wait_s":10}"#).await;
        got += given(&reply).as_array().unwrap().len();
    }
    assert_eq!(hall.get("/api/v1/workers").await.json()["items"][0]["attempts"].as_array().unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn l17_nothing_is_assigned_to_a_worker_that_has_hung_up() {
    let hall = TestServer::start().await;
    let body = br#"{"slots":1,"wait_s":30,"abilities":"os=linux"}"#;
    let stream = hall.open("POST", "/api/v1/vacancies", &hall.worker, &[], body).await;
    hall.until_offered("w", 1).await;
    assert_eq!(hall.workers().await[0]["abilities"].as_str(), Some("os=linux"));
    drop(stream);
    hall.until_no_worker().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.state(id).await, "queued");
    let attempt = hall.take().await;
    assert_eq!((&attempt["job"]["id"], &attempt["job"]["attempt"]), (&id.into(), &1.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assignment_that_nobody_accepts_comes_back_uncounted() {
    let hall = TestServer::with(quick()).await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let first = hall.take().await;
    hall.until(id, "queued").await;
    let second = hall.take().await;
    assert_eq!((&second["job"]["attempt"], second["id"] == first["id"]), (&1.into(), false));
    hall.word(&first, "accept", b"").await.problem(409, "lease_lost");
    assert_eq!(hall.word(&second, "accept", b"").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_progress_is_acknowledged_and_goes_on_after_a_break() {
    let hall = TestServer::start().await;
    let id = hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    hall.word(&attempt, "accept", b"").await;
    assert_eq!(hall.state(id).await, "accepted");
    let half = br#"{"indicators":[{"name":"all","step":50,"total":100}]}"#;
    assert_eq!(hall.word(&attempt, "progress", half).await.json()["state"].as_str(), Some("running"));
    assert_eq!(hall.word(&attempt, "log?offset=0", b"one ").await.json()["len"].as_u64(), Some(4));
    // The connection broke before the worker read the response, so the worker sends the chunk again.
    assert_eq!(hall.word(&attempt, "log?offset=0", b"one ").await.json()["len"].as_u64(), Some(4));
    assert_eq!(hall.word(&attempt, "log?offset=4", b"two").await.json()["len"].as_u64(), Some(7));
    let rest = br#"{"indicators":[{"name":"all","step":90,"total":100},{"name":"files","step":1}]}"#;
    assert_eq!(hall.word(&attempt, "progress", rest).await.status, 200);
    let job = hall.get(&format!("/api/v1/jobs/{id}")).await.json();
    let steps: Vec<_> =
        job["progress"].as_array().unwrap().iter().map(|one| one["step"].as_u64().unwrap()).collect();
    assert_eq!((steps, job["started_at"].is_string()), (vec![90, 1], true));
    assert_eq!(hall.get(&format!("/api/v1/jobs/{id}/log")).await.text(), "one two");
    let many = format!(r#"{{"indicators":[{}]}}"#, vec![r#"{"step":1}"#; 33].join(","));
    hall.word(&attempt, "progress", many.as_bytes()).await.problem(400, "bad_request");
}

/// When a worker hangs up on a vacancy, counted from the request for it.
#[derive(Clone, Copy)]
enum HangUp {
    /// With the job under way, before the server need have read the request.
    BeforeParked,
    /// With the job under way to a vacancy that waits.
    Parked,
    /// When the submit is answered; the assignment may be on its way.
    Submitted,
    /// When the assignment has arrived, without reading it.
    Assigned,
}

/// Opens a vacancy, submits a job and hangs up at this moment.
async fn cross(hall: &TestServer, moment: HangUp) -> u64 {
    let body = br#"{"slots":1,"wait_s":30}"#;
    let stream = hall.open("POST", "/api/v1/vacancies", &hall.worker, &[], body).await;
    let submit = hall.submit(r#"{"type":"a"}"#);
    let hang_up = async |stream| drop(stream);
    match moment {
        HangUp::BeforeParked => tokio::join!(submit, hang_up(stream)).0,
        HangUp::Parked => {
            // A job that came back may end the vacancy at once.
            let parked = hall.until_offered("w", 1);
            tokio::select! { () = parked => {}, answered = stream.readable() => answered.unwrap() }
            tokio::join!(submit, hang_up(stream)).0
        }
        HangUp::Submitted => submit.await,
        HangUp::Assigned => {
            let id = submit.await;
            let assigned = tokio::time::timeout(Duration::from_secs(30), stream.readable());
            assigned.await.expect("an assignment").unwrap();
            id
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_cross_with_a_breaking_connection_come_back_uncounted() {
    let hall = TestServer::with(quick()).await;
    let mut jobs = std::collections::BTreeSet::new();
    for _ in 0..5 {
        for moment in [HangUp::BeforeParked, HangUp::Parked, HangUp::Submitted, HangUp::Assigned] {
            jobs.insert(cross(&hall, moment).await);
        }
    }
    let mut done = std::collections::BTreeSet::new();
    while done.len() < jobs.len() {
        let attempt = hall.take().await;
        assert_eq!(attempt["job"]["attempt"].as_u64(), Some(1), "{attempt}");
        assert_eq!(hall.word(&attempt, "outcome", br#"{"outcome":"succeeded"}"#).await.status, 200);
        assert!(done.insert(attempt["job"]["id"].as_u64().unwrap()), "each job is done once");
    }
    assert_eq!(done, jobs);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_workers_share_many_jobs_and_none_is_done_twice() {
    let hall = TestServer::start().await;
    let jobs = format!("[{}]", vec![r#"{"type":"a"}"#; 60].join(","));
    assert_eq!(hall.post("/api/v1/jobs", &jobs).await.status, 200);
    let work = async || {
        let mut done = Vec::new();
        loop {
            let reply = hall.work("/api/v1/vacancies", r#"{"slots":3,"wait_s":0}"#).await;
            if reply.status == 204 {
                return done;
            }
            for attempt in given(&reply).as_array().unwrap() {
                assert_eq!(hall.word(attempt, "outcome", br#"{"outcome":"succeeded"}"#).await.status, 200);
                done.push(attempt["job"]["id"].as_u64().unwrap());
            }
        }
    };
    let (mut one, two, three) = tokio::join!(work(), work(), work());
    one.extend(two.into_iter().chain(three));
    one.sort_unstable();
    one.dedup();
    assert_eq!(one.len(), 60);
    assert_eq!(
        hall.get("/api/v1/workers").await.json()["items"].as_array().unwrap().len(),
        0,
        "no worker is listed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_8_a_long_poll_has_a_lease_of_its_own_and_can_begin_anew() {
    let hall = TestServer::start().await;
    let poll = async |more: &str| {
        let body = format!(r#"{{"slots":1,"wait_s":10,"abilities":"gpu=1"{more}}}"#);
        hall.work("/api/v1/vacancies", &body).await
    };
    let refused = poll(r#","lease_ms":30001"#).await.problem(400, "bad_request");
    assert!(refused.contains("lease_ms of 30001 is outside 3000 to 30000"), "{refused}");
    let named = hall.work("/api/v1/vacancies", r#"{"slots":1,"abilities":"worker=w"}"#).await;
    assert!(
        named.problem(400, "bad_request").contains("abilities: ability \"worker\" is reserved"),
        "{named:?}"
    );
    let id = hall.submit(r#"{"type":"a","uses":"gpu=1"}"#).await;
    let first = given(&poll(r#","lease_ms":5000"#).await)[0].clone();
    assert_eq!(first["lease_ms"], 5_000);
    assert_eq!(hall.word(&first, "accept", b"").await.status, 200);
    let again = given(&poll(r#","fresh":true"#).await)[0].clone();
    assert_eq!(
        (again["job"]["id"].as_u64(), again["id"] == first["id"]),
        (Some(id), false),
        "it was lost at once"
    );
}
