//! Clients and workers can use any node.

use std::io::Read as _;

use jobhall_protocol::{SubmitJob, Vacancy};
use jobhall_tests::{Signal, eventually, text};

use crate::crowd::Crowd;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn a_job_submitted_at_one_node_wakes_a_vacancy_parked_at_another() {
    let crowd = Crowd::of(3, &[]);
    let holder = crowd.holder(0).unwrap();
    let followers: Vec<usize> = (0..3).filter(|at| *at != holder).collect();
    for (worker, submitter) in [(followers[0], followers[1]), (holder, followers[0]), (followers[1], holder)]
    {
        let (parked, asking) = (crowd.client(worker), crowd.client(submitter));
        block_on(async {
            let vacancy = Vacancy { wait_s: 60, ..Vacancy::default() };
            let waiting = parked.vacancies(&vacancy);
            let submitting = async {
                while asking.workers().await.unwrap().iter().all(|worker| worker.slots == 0) {
                    tokio::task::yield_now().await;
                }
                asking.submit(&SubmitJob::new("t"), None).await.unwrap().id
            };
            let (given, id) = tokio::join!(waiting, submitting);
            assert_eq!(given.unwrap().attempts[0].job.id, id, "{worker} {submitter}");
        });
    }
}

#[test]
fn a_job_for_a_gpu_reaches_the_worker_that_has_one_wherever_it_is() {
    let crowd = Crowd::of(3, &[]);
    let file = crowd.file("gpu.toml");
    std::fs::write(&file, "name = \"gpu\"\nslots = 1\nallow = [\"exec\"]\n[abilities]\ngpu = 1\n").unwrap();
    let _plain = crowd.worker("plain", &crowd.nodes[1].url(), &["--slots", "4"]);
    let _gpu = crowd.worker("gpu", &crowd.nodes[2].url(), &["--config", file.to_str().unwrap()]);
    for at in 0..3 {
        let id = crowd.submit(at, "true", &["--needs", "gpu>=1"]);
        crowd.until((at + 1) % 3, &id, "succeeded");
        assert_eq!(crowd.job(at, &id)["worker"], "gpu");
    }
}

#[test]
fn any_node_answers_for_any_job_with_its_log_as_it_grows() {
    let crowd = Crowd::of(3, &[]);
    let _worker = crowd.worker("w", &crowd.nodes[1].url(), &["--slots", "2"]);
    let gate = crowd.file("go");
    let script = format!("echo begun; while [ ! -e {} ]; do sleep 0.05; done; echo ended", gate.display());
    let id = crowd.submit(2, &script, &[]);
    let mut followers: Vec<_> = (0..3)
        .map(|at| {
            let mut command = jobhall_tests::jobhall();
            command.args(["job", "log", "--follow", &id]).env("JOBHALL_SERVER", crowd.nodes[at].url());
            command.env("JOBHALL_TOKEN", &crowd.token).stdout(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for follower in &mut followers {
        let mut line = [0; 6];
        follower.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(&line, b"begun\n", "while the job runs");
    }
    assert!((0..3).all(|at| crowd.job(at, &id)["state"] == "running"));
    std::fs::write(&gate, "").unwrap();
    for mut follower in followers {
        let mut rest = String::new();
        follower.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "ended\n");
        assert!(follower.wait().unwrap().success());
    }
    for at in 0..3 {
        assert_eq!(text(&crowd.run(at, &["job", "log", &id]).stdout), "begun\nended\n");
    }
}

#[test]
fn what_is_paused_at_one_node_is_paused_at_all() {
    let crowd = Crowd::of(3, &[]);
    let _workers =
        [0, 1, 2].map(|at| crowd.worker(&format!("w{at}"), &crowd.nodes[at].url(), &["--slots", "2"]));
    crowd.run(0, &["queue", "pause", "default"]);
    let ids: Vec<_> = (0..3).map(|at| crowd.submit(at, "true", &[])).collect();
    let other = crowd.submit(1, "true", &["--queue", "other"]);
    crowd.until(2, &other, "succeeded");
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(crowd.json(at, &["queue", "show", "default"])["paused"], true);
        assert_eq!(crowd.job((at + 1) % 3, id)["state"], "queued");
    }
    crowd.run(2, &["queue", "resume", "default"]);
    ids.iter().for_each(|id| crowd.until(0, id, "succeeded"));
}

#[test]
fn the_nodes_are_listed_and_one_that_stops_is_gone() {
    let mut crowd = Crowd::of(3, &[]);
    let listed = |crowd: &Crowd, at: usize| crowd.json(at, &["nodes"]).as_array().unwrap().clone();
    for at in 0..3 {
        let nodes = listed(&crowd, at);
        assert_eq!(nodes.len(), 3, "{nodes:?}");
        assert_eq!(nodes.iter().filter(|node| node["role"] == "leader").count(), 1);
        assert!(nodes.iter().all(|node| node["version"].as_str().is_some_and(|version| !version.is_empty())));
    }
    let holder = crowd.holder(0).unwrap();
    let follower = (0..3).find(|at| *at != holder).unwrap();
    crowd.nodes[follower].hall().signal(Signal::TERM);
    assert_eq!(crowd.nodes[follower].hall().wait().code(), Some(0), "{}", crowd.nodes[follower].said("hall"));
    eventually("a shorter list", || listed(&crowd, holder).len() == 2);
}
