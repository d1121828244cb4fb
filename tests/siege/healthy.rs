//! Healthy clients: each submits jobs, takes them as a worker, uploads an artifact, reports the outcome and reads the
//! job. Every request must be answered with success.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use jobhall_tests::Rig;

use crate::caller::Caller;

const CLIENTS: usize = 2;

pub struct Healthy(Vec<(Caller, Caller)>);

/// How long each request took.
pub struct Figures(Vec<Duration>);

impl Figures {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn p99(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted[(sorted.len() * 99 / 100).min(sorted.len() - 1)]
    }
}

impl Healthy {
    pub fn new(rig: &Rig) -> Healthy {
        let pair = |n: usize| {
            let queue = format!("healthy-{n}");
            let client = Caller::new(rig, &format!("client-{n}"), "client", &queue);
            (client, Caller::new(rig, &format!("worker-{n}"), "worker", &queue))
        };
        Healthy((0..CLIENTS).map(pair).collect())
    }

    /// Works until each client has done this many jobs.
    pub fn work(&self, lives: usize) -> Figures {
        self.run(|done, _| done < lives)
    }

    pub fn work_for(&self, time: Duration) -> Figures {
        self.run(|_, begun| begun.elapsed() < time)
    }

    fn run(&self, goes_on: impl Fn(usize, Instant) -> bool + Sync) -> Figures {
        let (all, begun) = (Mutex::new(Vec::new()), Instant::now());
        std::thread::scope(|scope| {
            for (n, (client, worker)) in self.0.iter().enumerate() {
                let (all, goes_on) = (&all, &goes_on);
                scope.spawn(move || {
                    let mut times = Vec::new();
                    let mut done = 0;
                    while goes_on(done, begun) {
                        life(client, worker, n, &mut times);
                        done += 1;
                    }
                    all.lock().unwrap().extend(times);
                });
            }
        });
        Figures(all.into_inner().unwrap())
    }
}

fn life(client: &Caller, worker: &Caller, n: usize, times: &mut Vec<Duration>) {
    let mut ask = |who: &Caller, method: &str, path: &str, lease: &str, body: &str| {
        let begun = Instant::now();
        let answer = who.ask(method, path, lease, body);
        times.push(begun.elapsed());
        answer
    };
    let job = format!(r#"{{"type":"good","queue":"healthy-{n}","retry":{{"max_attempts":2}}}}"#);
    let id = ask(client, "POST", "jobs", "", &job)["id"].as_u64().unwrap();
    let taken = ask(worker, "POST", "vacancies", "", r#"{"slots":1,"wait_s":30}"#);
    let given = &taken["attempts"][0];
    let (attempt, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
    ask(worker, "PUT", &format!("attempts/{attempt}/artifacts/file"), lease, "content");
    ask(worker, "POST", &format!("attempts/{attempt}/outcome"), lease, r#"{"outcome":"succeeded"}"#);
    let job = ask(client, "GET", &format!("jobs/{id}"), "", "");
    assert_eq!(job["state"].as_str(), Some("succeeded"), "{job}");
    ask(client, "GET", "jobs?limit=10", "", "");
}
