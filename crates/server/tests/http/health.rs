use crate::hall::TestHall;

#[tokio::test(flavor = "multi_thread")]
async fn l22_health_asks_for_no_token() {
    let hall = TestHall::start().await;
    for path in ["/livez", "/readyz"] {
        let reply = hall.send("GET", path, "", &[], b"").await;
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok\n"), "{path}");
    }
    let page = hall.send("GET", "/", "", &[], b"").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("<h1>Jobhall") && !page.text().contains("<script"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hall_whose_engine_has_stopped_refuses_work_and_says_so() {
    let hall = TestHall::start().await;
    hall.engine.stop().await;
    hall.post("/api/v1/jobs", r#"{"type":"a"}"#).await.problem(503, "unavailable");
    assert_eq!(hall.send("GET", "/livez", "", &[], b"").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_happened() {
    let hall = TestHall::start().await;
    hall.submit(r#"{"type":"a"}"#).await;
    hall.submit(r#"{"type":"a"}"#).await;
    let attempt = hall.take().await;
    hall.word(&attempt, "log", b"12345").await;
    hall.word(&attempt, "outcome", br#"{"outcome":"passed"}"#).await;
    hall.take().await;
    hall.get("/api/v1/nothing").await;
    let text = hall.get("/metrics").await.text();
    for line in [
        "jobhall_jobs_enqueued_total 2",
        "jobhall_attempts_assigned_total 2",
        "jobhall_attempts_reported_total{outcome=\"passed\"} 1",
        "jobhall_attempts_held 1",
        "jobhall_log_bytes_total 5",
        "jobhall_workers 1",
        "jobhall_vacancies_waiting 0",
        "jobhall_build_info{version=\"0.1.0\"} 1",
        "jobhall_http_requests_total{route=\"/api/v1/jobs\",status=\"201\"} 2",
        "jobhall_http_requests_total{route=\"none\",status=\"404\"} 1",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
