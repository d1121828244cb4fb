//! Types of applications are refused by every way in.

use jobhall_core::{NewJob, RetryPolicy, TypeName};
use jobhall_engine::{Config, Submit};
use jobhall_server::RESERVED;
use serde_json::json;

use crate::server::TestServer;

async fn hall() -> TestServer {
    TestServer::with(Config { reserved: RESERVED, ..Config::default() }).await
}

/// A job of an application that fails at once.
async fn failed(hall: &TestServer, job_type: &str) -> u64 {
    let job_type = TypeName::new(job_type).unwrap();
    let by = RESERVED.of(&job_type).map(|reserved| reserved.application);
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::named() });
    let jobs = vec![NewJob { retry, ..NewJob::new(job_type) }];
    let made = hall.engine.submit(Submit { jobs, by, ..Submit::default() }).await.unwrap();
    let given = hall.take().await;
    let outcome = br#"{"outcome":"failed","error":{"reason":"no","explanation":"no"}}"#;
    assert_eq!(hall.word(&given, "outcome", outcome).await.status, 200);
    made[0].id.get()
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_2_a_reserved_type_is_refused_by_every_way_in() {
    let hall = hall().await;
    hall.submit(r#"{"type":"p"}"#).await;
    let given = hall.take().await;
    for job_type in ["q.sum", "taskset.task", "build.step"] {
        let job = json!({"type": job_type});
        let sub_jobs = format!("/api/v1/attempts/{}/jobs", given["id"].as_str().unwrap());
        let asked = [
            ("POST", "/api/v1/jobs", job.clone()),
            ("POST", "/api/v1/jobs", json!([{"type": "mail"}, job])),
            ("POST", "/api/v1/groups", json!({"jobs": [job]})),
            ("PUT", "/api/v1/schedules/s", json!({"every": "1m", "job": job})),
            ("POST", &sub_jobs, json!({"call": "c", "job": job})),
            ("POST", &sub_jobs, json!([{"call": "c", "job": {"type": "mail"}}, {"call": "d", "job": job}])),
        ];
        let lease = [("Jobhall-Lease", given["lease"].as_str().unwrap())];
        for (method, path, body) in asked {
            let (token, headers) =
                if path == sub_jobs { (&hall.worker, &lease[..]) } else { (&hall.admin, &[][..]) };
            let reply = hall.send(method, path, token, headers, body.to_string().as_bytes()).await;
            let detail = reply.problem(403, "forbidden");
            assert!(detail.contains(&format!("type {job_type} is reserved")), "{path}: {detail}");
        }
    }
    let jobs = hall.get("/api/v1/jobs").await.json();
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "nothing was written: {jobs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_2_users_change_only_priority_hold_and_start_of_a_reserved_job() {
    let hall = hall().await;
    let job_type = TypeName::new("build.step").unwrap();
    let by = RESERVED.of(&job_type).map(|reserved| reserved.application);
    let jobs = vec![NewJob::new(job_type)];
    let made = hall.engine.submit(Submit { jobs, by, ..Submit::default() }).await.unwrap();
    let path = format!("/api/v1/jobs/{}", made[0].id);
    let edit = async |body: serde_json::Value| {
        hall.send("PATCH", &path, &hall.admin, &[], body.to_string().as_bytes()).await
    };
    let before = hall.get(&path).await.json();
    for (field, value) in [
        ("params", json!({"x": 1})),
        ("needs", json!("gpu>=1")),
        ("avoid", json!(true)),
        ("tags", json!(["mine"])),
        ("throttle_factor", json!(0)),
    ] {
        for body in [json!({field: value}), json!({"priority": 3, field: value})] {
            let detail = edit(body).await.problem(403, "forbidden");
            assert!(detail.contains("type build.step is reserved"), "{field}: {detail}");
        }
    }
    assert_eq!(hall.get(&path).await.json(), before, "nothing was written");
    let edited = edit(json!({"priority": 3, "run_at": "2100-01-01T00:00:00Z"})).await;
    assert_eq!((edited.status, &edited.json()["priority"]), (200, &json!(3)), "{edited:?}");
    for verb in ["run_now", "hold", "release", "cancel"] {
        assert_eq!(hall.post(&format!("{path}/{verb}"), "").await.status, 200, "{verb}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_2_a_bulk_retry_leaves_jobs_of_applications_out() {
    let hall = hall().await;
    let own = failed(&hall, "mail").await;
    let step = failed(&hall, "build.step").await;
    failed(&hall, "q.sum").await;
    let refused = hall.send("POST", &format!("/api/v1/jobs/{step}/retry"), &hall.client, &[], b"").await;
    let detail = refused.problem(403, "forbidden");
    assert!(detail.contains("use `jobhall build retry`"), "{detail}");
    let retried = hall.send("POST", &format!("/api/v1/jobs/{own}/retry"), &hall.client, &[], b"").await;
    assert_eq!(retried.status, 201, "{retried:?}");
    let body = json!({"verb": "retry", "filter": {"state": "failed"}});
    let begun = hall.send("POST", "/api/v1/operations", &hall.admin, &[], body.to_string().as_bytes()).await;
    let path = format!("/api/v1/operations/{}", begun.json()["id"]);
    let ended = crate::server::wait_for("the end of the operation", async || {
        let shown = hall.send("GET", &path, &hall.admin, &[], b"").await.json();
        (shown["state"] == "succeeded").then_some(shown)
    })
    .await;
    assert_eq!(
        (&ended["done"], &ended["skipped"], &ended["failed"]),
        (&json!(2), &json!(1), &json!(0)),
        "{ended}"
    );
}
