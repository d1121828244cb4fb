use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jobhall_store_sqlite::{Fault, Hook, Options as StoreOptions, Point};

use crate::server::{TestServer, quick};

#[tokio::test(flavor = "multi_thread")]
async fn l22_health_asks_for_no_token() {
    let hall = TestServer::start().await;
    for path in ["/livez", "/readyz"] {
        let reply = hall.send("GET", path, "", &[], b"").await;
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok\n"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hall_whose_engine_has_stopped_refuses_work_and_says_so() {
    let hall = TestServer::start().await;
    hall.engine.stop().await;
    hall.post("/api/v1/jobs", r#"{"type":"a"}"#).await.problem(503, "unavailable");
    assert_eq!(hall.send("GET", "/livez", "", &[], b"").await.status, 200);
    let detail = hall.send("GET", "/readyz", "", &[], b"").await.problem(503, "unavailable");
    assert!(detail.contains("store reads: ok; store writes: failed"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_tells_each_check_and_no_more() {
    let hall = TestServer::start().await;
    let reply = hall.send("GET", "/readyz?verbose", "", &[], b"").await;
    let lines = "not draining: ok\nstore reads: ok\nstore writes: ok\ndisk room: ok\n";
    assert_eq!((reply.status, reply.text().as_str()), (200, lines));
    hall.send("GET", "/readyz?verbos", "", &[], b"").await.problem(400, "bad_request");
    std::fs::rename(hall.dir.path(), hall.dir.path().with_extension("moved")).unwrap();
    let reply = hall.send("GET", "/readyz", "", &[], b"").await;
    std::fs::rename(hall.dir.path().with_extension("moved"), hall.dir.path()).unwrap();
    let detail = reply.problem(503, "unavailable");
    assert!(detail.ends_with("disk room: failed"), "{detail}");
    assert!(!detail.contains("No such file"), "the reason is only logged: {detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hall_whose_last_write_failed_is_not_ready_until_one_succeeds() {
    let full = Arc::new(AtomicBool::new(false));
    let hook = full.clone();
    let hook: Hook = Arc::new(move |point| {
        (point == Point::Commit && hook.load(Ordering::Relaxed)).then_some(Fault::Full)
    });
    let options = StoreOptions { hook: Some(hook), ..StoreOptions::default() };
    let hall = TestServer::on_store(tempfile::tempdir().unwrap(), quick(), options).await;
    hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.send("GET", "/readyz", "", &[], b"").await.status, 200);
    full.store(true, Ordering::Relaxed);
    hall.post("/api/v1/jobs", r#"{"type":"a"}"#).await.problem(507, "storage_full");
    let detail = hall.send("GET", "/readyz", "", &[], b"").await.problem(503, "unavailable");
    assert!(detail.contains("store reads: ok; store writes: failed; disk room: ok"), "{detail}");
    full.store(false, Ordering::Relaxed);
    hall.submit(r#"{"type":"a"}"#).await;
    assert_eq!(hall.send("GET", "/readyz", "", &[], b"").await.status, 200);
}
