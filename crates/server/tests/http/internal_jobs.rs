//! Jobs that the leader runs itself, under a name and with an ability that nobody else can have.

use std::sync::Arc;

use jobhall_core::needs::{Needs, SERVER};
use jobhall_core::{Failure, Job, Json, NewJob, Report, RetryPolicy, State, StateName, TypeName};
use jobhall_engine::{Config, Submit};
use jobhall_server::{InternalJobs, Listen, RESERVED, Server};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::server::{TestServer, open_blobs};

fn of(job_type: &str) -> TypeName {
    TypeName::new(job_type).unwrap()
}

/// A hall whose server runs these internal jobs.
async fn hall(internal_jobs: InternalJobs) -> TestServer {
    let mut hall = TestServer::with(Config { reserved: RESERVED, ..Config::default() }).await;
    serve(&mut hall, internal_jobs).await;
    hall
}

/// Stops the server of a hall, and starts one that runs these internal jobs.
async fn serve(hall: &mut TestServer, internal_jobs: InternalJobs) {
    hall.running.take().unwrap().stop().await;
    let options = jobhall_server::Options { internal_jobs, ..hall.options(open_blobs(&hall.dir).await) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Server::serve(listener, Listen::default(), options).unwrap();
    hall.address = running.address.to_string();
    hall.running = Some(running);
}

async fn submit(hall: &TestServer, job_type: &str, params: &str) -> jobhall_core::JobId {
    let job_type = of(job_type);
    let by = RESERVED.of(&job_type).map(|reserved| reserved.application);
    let (needs, params) = (Needs::parse(SERVER).unwrap(), Json::params(params).unwrap());
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::named() });
    let jobs = vec![NewJob { needs, params, retry, ..NewJob::new(job_type) }];
    hall.engine.submit(Submit { jobs, by, ..Submit::default() }).await.unwrap()[0].id
}

/// Waits until the job has ended.
async fn ended(hall: &TestServer, id: jobhall_core::JobId) -> Job {
    let mut changes = hall.engine.changes_of(id);
    loop {
        let shown = hall.engine.show(id).await.unwrap();
        if shown.job.status.state.is_terminal() {
            return shown.job;
        }
        changes.next().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_17_the_leader_runs_internal_jobs_itself() {
    let jobs = InternalJobs::default()
        .with(of("build.report"), |given| async move { Report::Succeeded(given.spec.params.clone()) })
        .with(of("build.refused"), |_| async { Report::Failed(Failure::new("http_500", "no"), None) })
        .with(of("build.broken"), |_| async { panic!("a fault of an internal job") });
    let mut hall = hall(jobs).await;
    for n in 0..50 {
        let id = submit(&hall, "build.report", &format!("{{\"n\":{n}}}")).await;
        let job = ended(&hall, id).await;
        let State::Succeeded(success) = &job.status.state else { panic!("{job:?}") };
        assert_eq!(success.value.as_str(), format!("{{\"n\":{n}}}"));
        assert_eq!(success.last.worker.as_str(), SERVER);
    }
    let refused = submit(&hall, "build.refused", "{}").await;
    assert_eq!(ended(&hall, refused).await.status.state.error().unwrap().reason, "http_500");
    let broken = submit(&hall, "build.broken", "{}").await;
    let broken = ended(&hall, broken).await;
    assert_eq!(broken.status.state.name(), StateName::Crashed);
    assert_eq!(broken.status.state.error().unwrap().reason, "panicked");
    hall.running.take().unwrap().stop().await;
}

/// A job that never returns, and what tells that it has begun and that it was dropped.
fn endless() -> (InternalJobs, Arc<Notify>, Arc<Notify>) {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let told = (begun.clone(), dropped.clone());
    let jobs = InternalJobs::default().with(of("build.report"), move |_| {
        let (begun, dropped) = (begun.clone(), Dropped(dropped.clone()));
        async move {
            let _dropped = dropped;
            begun.notify_one();
            std::future::pending().await
        }
    });
    (jobs, told.0, told.1)
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_17_an_internal_job_is_stopped_by_a_cancel_and_by_the_end_of_the_leader() {
    let (jobs, begun, dropped) = endless();
    let mut hall = hall(jobs).await;
    let first = submit(&hall, "build.report", "{}").await;
    begun.notified().await;
    hall.engine.cancel(first, Failure::new("cancelled", "by a test")).await.unwrap();
    assert_eq!(ended(&hall, first).await.status.state.name(), StateName::Cancelled);
    dropped.notified().await;
    let second = submit(&hall, "build.report", "{}").await;
    begun.notified().await;
    hall.running.take().unwrap().stop().await;
    dropped.notified().await;
    let state = hall.engine.show(second).await.unwrap().job.status.state.name();
    assert!(!matches!(state, StateName::Assigned | StateName::Accepted | StateName::Running), "{state:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_17_the_next_leader_runs_what_the_one_before_did_not_finish() {
    let (endless, begun, dropped) = endless();
    let mut hall = hall(endless).await;
    let jobs = vec![NewJob { needs: Needs::parse(SERVER).unwrap(), ..NewJob::new(of("build.report")) }];
    let by = RESERVED.of(&of("build.report")).map(|reserved| reserved.application);
    let id = hall.engine.submit(Submit { jobs, by, ..Submit::default() }).await.unwrap()[0].id;
    begun.notified().await;
    let quick = InternalJobs::default().with(of("build.report"), |given| async move {
        Report::Succeeded(Json::value(&given.number.to_string()).unwrap())
    });
    serve(&mut hall, quick).await;
    dropped.notified().await;
    let job = ended(&hall, id).await;
    let State::Succeeded(success) = &job.status.state else { panic!("{job:?}") };
    assert_eq!((job.status.claim, success.last.worker.as_str()), (2, SERVER), "{job:?}");
    hall.running.take().unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ground_17_no_other_worker_has_the_name_or_the_ability_of_the_server() {
    let mut hall = hall(InternalJobs::default()).await;
    let id = submit(&hall, "build.report", "{}").await;
    let abilities = format!(r#"{{"abilities":"{SERVER}","slots":1,"wait_s":0}}"#);
    let reply = hall.send("POST", "/api/v1/vacancies", &hall.worker, &[], abilities.as_bytes()).await;
    let detail = reply.problem(400, "bad_request");
    assert!(detail.contains(&format!("ability \"{SERVER}\" is reserved")), "{detail}");
    let named = [("Jobhall-Worker", SERVER)];
    let reply =
        hall.send("POST", "/api/v1/vacancies", &hall.admin, &named, br#"{"slots":1,"wait_s":0}"#).await;
    assert!(reply.problem(403, "forbidden").contains("is reserved for the server"));
    let token = json!({"name": SERVER, "role": "worker"}).to_string();
    let reply = hall.send("POST", "/api/v1/tokens", &hall.admin, &[], token.as_bytes()).await;
    assert!(reply.problem(403, "forbidden").contains("is reserved for the server"));
    // A worker that takes every type does not get it.
    let reply = hall.send("POST", "/api/v1/vacancies", &hall.worker, &[], br#"{"slots":1,"wait_s":0}"#).await;
    assert_eq!(reply.status, 204, "{}", reply.text());
    assert_eq!(hall.engine.show(id).await.unwrap().job.status.state.name(), StateName::Queued);
    hall.running.take().unwrap().stop().await;
}
