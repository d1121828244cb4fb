//! The primary of a synchronous pair is lost permanently: its standby is promoted, and no acknowledged job is lost.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jobhall_client::{Client, JobFilter};
use jobhall_protocol::SubmitJob;
use jobhall_tests::{Rig, eventually, jobhall};
use jobhall_throwaway::Cluster;

/// Number of jobs that must be acknowledged before the primary is lost, and after it.
const JOBS: usize = 20;

/// The URL of a database on either of two servers.
fn on_either(primary: &str, standby: &str) -> String {
    let (primary, name) = primary.rsplit_once('/').unwrap();
    let (_, host) = standby.rsplit_once('/').unwrap().0.rsplit_once('@').unwrap();
    format!("{primary},{host}/{name}")
}

/// Submits one job after the other, each until it is acknowledged, and records its id.
async fn submit(client: Client, acknowledged: &Mutex<Vec<u64>>, enough: &AtomicBool) {
    for number in 0.. {
        if enough.load(Ordering::SeqCst) {
            return;
        }
        let id = until_acknowledged(&client, &format!("job-{number}")).await;
        acknowledged.lock().unwrap().push(id);
    }
}

/// Submits a job again with the same idempotency key until it is acknowledged, for at most a minute.
async fn until_acknowledged(client: &Client, key: &str) -> u64 {
    let (job, end) = (SubmitJob::new("work"), Instant::now() + Duration::from_secs(60));
    loop {
        match client.submit_many(std::slice::from_ref(&job), Some(key)).await {
            Ok(answers) => return answers[0].id,
            Err(error) => assert!(error.is_transient() && Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// All jobs with their states.
async fn all(client: &Client) -> Vec<(u64, String)> {
    let mut jobs = client.all_jobs(JobFilter { limit: Some(200), ..JobFilter::default() });
    let mut found = Vec::new();
    while let Some(job) = jobs.next().await.unwrap() {
        found.push((job.id, job.state));
    }
    found
}

#[test]
fn h11_g7_a_promoted_standby_has_every_acknowledged_job_once_and_work_goes_on() {
    let primary = Cluster::start();
    let database = primary.database();
    let standby = primary.standby();
    let url = on_either(&database.url(), &standby.url(database.name()));
    let mut nodes = [Rig::new(), Rig::new()];
    nodes[0].start(&["server", "--log", "info", "--database", &url]);
    nodes[1].share_key(&nodes[0]);
    std::fs::copy(nodes[0].data().join("admin.token"), nodes[1].data().join("admin.token")).unwrap();
    nodes[1].start(&["server", "--log", "info", "--database", &url]);
    let (places, token) = (format!("{},{}", nodes[0].url(), nodes[1].url()), nodes[0].token());

    let file = nodes[0].folder().join("worker.toml");
    std::fs::write(&file, "slots = 2\n[types.work]\nrun = [\"true\"]\n").unwrap();
    let mut command = jobhall();
    command.args(["worker", "--name", "w", "--server", &places, "--config"]).arg(&file);
    command.env("JOBHALL_TOKEN", &token);
    let _worker = nodes[0].spawn(command, "w");

    let client = Client::new(&places, Some(&token)).unwrap();
    let (acknowledged, enough) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let count = || acknowledged.lock().unwrap().len();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::scope(|scope| {
        let submitting = client.clone();
        let (acknowledged, enough) = (&acknowledged, &enough);
        let submitter = scope.spawn(move || runtime().block_on(submit(submitting, acknowledged, enough)));
        let ended = || assert!(!submitter.is_finished(), "the submitter gave up");
        eventually("jobs before the loss", || {
            ended();
            count() >= JOBS
        });
        primary.stop_immediate();
        standby.promote();
        let before = count();
        eventually("jobs after the loss", || {
            ended();
            count() >= before + JOBS
        });
        enough.store(true, Ordering::SeqCst);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    let told: BTreeSet<u64> = acknowledged.iter().copied().collect();
    assert_eq!(told.len(), acknowledged.len(), "no id was given twice");
    let mut found = Vec::new();
    eventually("the end of all jobs", || {
        found = runtime().block_on(all(&client));
        found.iter().all(|(_, state)| state == "succeeded")
    });
    let stored: BTreeSet<u64> = found.iter().map(|(id, _)| *id).collect();
    assert_eq!(stored, told, "what was acknowledged is there, once, and nothing else is");
    let rows = standby.sql(database.name(), "SELECT count(*) FROM jobhall.jobs");
    assert_eq!(rows.trim(), told.len().to_string(), "and it is on the standby");
}
