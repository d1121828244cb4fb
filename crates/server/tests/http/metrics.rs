//! Compares each metric with what happened.

use std::collections::BTreeMap;

use crate::server::{TestServer, wait_for};

/// The samples of an exposition, by name with labels as written.
struct Samples(BTreeMap<String, f64>);

impl Samples {
    /// Reads until the server has closed the connections of earlier requests, which are already closed on this side.
    async fn read(hall: &TestServer) -> Samples {
        let alone = |samples: &Samples| samples.get("jobhall_connections") == 1.0;
        let settled = async || Some(Samples::read_once(hall).await).filter(alone);
        wait_for("earlier connections are gone", settled).await
    }

    async fn read_once(hall: &TestServer) -> Samples {
        let reply = hall.get("/metrics").await;
        assert_eq!(reply.status, 200);
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(reply.header("content-type"), Some(kind));
        Samples::parse(&reply.text())
    }

    /// Every line must be a comment of a known kind or a sample of a family described before, each once; the last
    /// line must be the end marker.
    fn parse(text: &str) -> Samples {
        let lines: Vec<_> = text.strip_suffix("# EOF\n").expect("a whole exposition").lines().collect();
        let mut kinds = BTreeMap::new();
        let mut samples = BTreeMap::new();
        for line in lines {
            if let Some(comment) = line.strip_prefix("# ") {
                let words: Vec<_> = comment.splitn(3, ' ').collect();
                assert!(["HELP", "TYPE"].contains(&words[0]), "{line}");
                if words[0] == "TYPE" {
                    assert_eq!(kinds.insert(words[1], words[2]), None, "{} twice", words[1]);
                }
                continue;
            }
            let (name, value) = line.rsplit_once(' ').expect("a value");
            let bare = name.split('{').next().unwrap();
            let described =
                |suffix: &str| bare.strip_suffix(suffix).is_some_and(|name| kinds.contains_key(name));
            let suffixes = ["", "_total", "_info", "_sum", "_count", "_bucket"];
            assert!(bare.starts_with("jobhall_") && suffixes.into_iter().any(described), "{line}");
            assert_eq!(samples.insert(name.to_owned(), value.parse().unwrap()), None, "{name} twice");
        }
        Samples(samples)
    }

    fn get(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no {name} in {:#?}", self.0.keys()))
    }

    fn check(&self, expected: &[(&str, f64)]) {
        for (name, value) in expected {
            assert_eq!(self.get(name), *value, "{name}");
        }
    }

    /// Checks a histogram: its buckets increase up to this count.
    fn histogram(&self, name: &str, count: f64) {
        let prefix = format!("{name}_bucket{{le=\"");
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for (sample, value) in self.0.iter().filter(|(sample, _)| sample.starts_with(&prefix)) {
            let bound = sample[prefix.len()..].trim_end_matches("\"}");
            buckets.push((bound.parse().unwrap(), *value));
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.len() > 5 && buckets.is_sorted_by(|a, b| a.1 <= b.1), "{name}: {buckets:?}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{name}");
        assert_eq!(self.get(&format!("{name}_count")), count);
        assert!(self.get(&format!("{name}_sum")) >= 0.0);
    }
}

fn jobs(queue: &str, state: &str) -> String {
    format!("jobhall_queue_jobs{{queue=\"{queue}\",state=\"{state}\"}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_what_happened_and_gauges_survive_a_restart() {
    let hall = TestServer::start().await;
    let before = Samples::read(&hall).await;
    before.check(&[("jobhall_jobs_enqueued_total", 0.0), ("jobhall_job_wait_seconds_count", 0.0)]);
    // In queue red: one job passes, one fails after two attempts, one is assigned, two wait, one is scheduled.
    let retry = r#"{"type":"b","queue":"red","retry":{"max_attempts":2,"delay":"1ms"},"priority":2}"#;
    hall.submit(r#"{"type":"a","queue":"red","priority":1}"#).await;
    let failing = hall.submit(retry).await;
    let passing = hall.take().await;
    hall.word(&passing, "accept", b"").await;
    hall.word(&passing, "log", b"12345").await;
    for _ in 0..2 {
        hall.word(&passing, "outcome", br#"{"outcome":"succeeded"}"#).await;
    }
    for _ in 0..2 {
        let attempt = hall.take().await;
        assert_eq!(attempt["job"]["id"], failing);
        hall.word(&attempt, "outcome", br#"{"outcome":"failed","error":{"reason":"no"}}"#).await;
    }
    hall.until(failing, "failed").await;
    for _ in 0..3 {
        hall.submit(r#"{"type":"a","queue":"red"}"#).await;
    }
    let held = hall.take().await;
    hall.word(&held, "accept", b"").await;
    hall.submit(r#"{"type":"a","queue":"red","run_at":"2999-01-01T00:00:00Z"}"#).await;
    // In queue blue: one job waits, one is cancelled.
    hall.submit(r#"{"type":"a","queue":"blue"}"#).await;
    let cancelled = hall.submit(r#"{"type":"a","queue":"blue"}"#).await;
    hall.post(&format!("/api/v1/jobs/{cancelled}/cancel"), "").await;
    hall.get("/api/v1/nothing").await;

    let samples = Samples::read(&hall).await;
    samples.check(&[
        ("jobhall_jobs_enqueued_total", 8.0),
        ("jobhall_attempts_assigned_total", 4.0),
        ("jobhall_jobs_finished_total{outcome=\"succeeded\"}", 1.0),
        ("jobhall_jobs_finished_total{outcome=\"failed\"}", 1.0),
        ("jobhall_jobs_finished_total{outcome=\"cancelled\"}", 1.0),
        ("jobhall_jobs_finished_total{outcome=\"crashed\"}", 0.0),
        ("jobhall_attempts_ended_total{outcome=\"succeeded\"}", 1.0),
        ("jobhall_attempts_ended_total{outcome=\"failed\"}", 2.0),
        ("jobhall_attempts_ended_total{outcome=\"cancelled\"}", 0.0),
        ("jobhall_log_bytes_total", 5.0),
        ("jobhall_vacancies_waiting", 0.0),
        ("jobhall_live_clients", 0.0),
        ("jobhall_connections", 1.0),
        ("jobhall_build_info{version=\"0.1.0\"}", 1.0),
        ("jobhall_http_requests_total{route=\"/api/v1/jobs\",status=\"201\"}", 8.0),
        ("jobhall_http_requests_total{route=\"none\",status=\"404\"}", 1.0),
    ]);
    samples.histogram("jobhall_job_wait_seconds", 4.0);
    samples.histogram("jobhall_job_run_seconds", 3.0);
    let commits = samples.get("jobhall_db_tx_seconds_count");
    assert!(commits >= 8.0, "{commits}");
    samples.histogram("jobhall_db_tx_seconds", commits);
    assert!(samples.get("jobhall_store_bytes") > 0.0 && samples.get("jobhall_disk_free_bytes") > 0.0);
    gauges(&samples);
    samples.check(&[
        ("jobhall_workers{state=\"busy\"}", 1.0),
        ("jobhall_workers{state=\"idle\"}", 0.0),
        ("jobhall_workers{state=\"awaited\"}", 0.0),
        ("jobhall_worker_slots{state=\"busy\"}", 1.0),
        ("jobhall_worker_slots{state=\"free\"}", 0.0),
    ]);

    let hall = hall.restart(jobhall_engine::Config::default()).await;
    let samples = Samples::read(&hall).await;
    gauges(&samples);
    samples.check(&[
        ("jobhall_jobs_enqueued_total", 0.0),
        ("jobhall_workers{state=\"awaited\"}", 1.0),
        ("jobhall_worker_slots{state=\"busy\"}", 1.0),
    ]);
}

/// Checks the open jobs after the steps above. Before a restart the attempt is known to be accepted; whether that is
/// stored depends on its age.
fn gauges(samples: &Samples) {
    let held = ["assigned", "accepted", "running"].map(|state| samples.get(&jobs("red", state)));
    assert_eq!(held.iter().sum::<f64>(), 1.0);
    let states = [("queued", 2.0), ("scheduled", 1.0), ("retrying", 0.0), ("blocked", 0.0)];
    for (state, n) in states {
        assert_eq!(samples.get(&jobs("red", state)), n, "{state}");
    }
    assert_eq!(samples.get(&jobs("blue", "queued")), 1.0);
    samples.check(&[
        ("jobhall_queue_ready_jobs{queue=\"red\"}", 2.0),
        ("jobhall_queue_ready_jobs{queue=\"blue\"}", 1.0),
    ]);
    let oldest = samples.get("jobhall_queue_oldest_ready_seconds{queue=\"red\"}");
    assert!((0.0..600.0).contains(&oldest), "{oldest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_bounded_and_the_rest_is_not_lost() {
    let hall = TestServer::start().await;
    let all: Vec<_> = (0..120).map(|n| format!(r#"{{"type":"t{n}","queue":"q{n}"}}"#)).collect();
    assert_eq!(hall.post("/api/v1/jobs", &format!("[{}]", all.join(","))).await.status, 200);
    let samples = Samples::read(&hall).await;
    let labelled = samples.0.keys().filter(|name| name.starts_with("jobhall_queue_ready_jobs")).count();
    assert_eq!(labelled, 101);
    samples.check(&[("jobhall_queue_ready_jobs{queue=\"(others)\"}", 20.0)]);
    assert_eq!(samples.get(&jobs("(others)", "queued")), 20.0);
    hall.post("/api/v1/jobs", r#"{"type":"a","queue":"(others)"}"#).await.problem(400, "bad_request");
}
