//! The attacks. Each goes on until it is dropped. Most assert what the attacker is refused or how it is bounded; those
//! whose limits are too high to reach here (slow readers, streams, types) only load the server, and their limits are
//! tested in the crate of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use jobhall_tests::{Raw, Rig, eventually};
use serde_json::Value;

use crate::caller::Caller;

#[derive(Clone, Copy, Debug)]
pub enum Attack {
    SlowReaders,
    Lists,
    Types,
    Uploads,
    Results,
    Outcomes,
    Streams,
}

/// The attacker: a client and a worker of one queue.
pub struct Ground {
    address: std::net::SocketAddr,
    client: Caller,
    worker: Caller,
}

/// An attack in progress, which ends when it is dropped.
#[derive(Default)]
pub struct UnderAttack {
    connections: Vec<Raw>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl UnderAttack {
    fn holding(connections: Vec<Raw>) -> UnderAttack {
        let mut attack = UnderAttack::default();
        attack.connections = connections;
        attack
    }

    /// Repeats this in so many threads.
    fn repeating(threads: usize, act: impl Fn() + Clone + Send + 'static) -> UnderAttack {
        let mut attack = UnderAttack::default();
        for _ in 0..threads {
            let (stop, act) = (attack.stop.clone(), act.clone());
            attack.threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    act();
                }
            }));
        }
        attack
    }
}

impl Drop for UnderAttack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.connections.clear();
        let ended = self.threads.drain(..).map(JoinHandle::join).all(|ended| ended.is_ok());
        assert!(ended || std::thread::panicking(), "an attacker got an answer that it must not get");
    }
}

impl Ground {
    pub fn new(rig: &Rig) -> Ground {
        let client = Caller::new(rig, "evil-client", "client", "evil");
        Ground { address: rig.address(), client, worker: Caller::new(rig, "evil-worker", "worker", "evil") }
    }

    /// Begins an attack; a large one in the long version.
    pub fn attack(&self, attack: Attack, large: bool) -> UnderAttack {
        let scale = if large { 4 } else { 1 };
        match attack {
            Attack::SlowReaders => self.slow_readers(100 * scale),
            Attack::Lists => self.lists(200),
            Attack::Types => self.types(2 * scale),
            Attack::Uploads => self.uploads(),
            Attack::Results => self.results(),
            Attack::Outcomes => self.outcomes(),
            Attack::Streams => self.streams(100 * scale),
        }
    }

    /// Requests without a token whose responses are never read.
    fn slow_readers(&self, count: usize) -> UnderAttack {
        let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).repeat(100);
        let connections = (0..count).map(|_| {
            let mut raw = Raw::open(self.address);
            raw.say(&request);
            raw
        });
        UnderAttack::holding(connections.collect())
    }

    fn submit(&self, job: &str) -> Value {
        self.client.ask("POST", "jobs", "", job)
    }

    /// Pages of jobs with large params that are not read.
    fn lists(&self, count: usize) -> UnderAttack {
        let params = "x".repeat(255_000);
        let job = format!(r#"{{"type":"large","queue":"evil","params":"{params}"}}"#);
        let jobs = format!("[{}]", [job.as_str(); 4].join(","));
        for _ in 0..25 {
            self.submit(&jobs);
        }
        let page = self.client.send("GET", "jobs?limit=500", "", b"");
        assert!(page.status == 200 && page.body.len() < 5 << 20, "a page has {} bytes", page.body.len());
        let unread = (0..count).map(|_| self.client.begin("GET", "jobs?limit=500", "", 0, b"")).collect();
        let unread = UnderAttack::holding(unread);
        eventually("the refusal of a large page", || {
            self.client.send("GET", "jobs?limit=500", "", b"").status == 429
        });
        unread
    }

    /// Jobs of ever new types, and jobs with a retry policy.
    fn types(&self, requests: usize) -> UnderAttack {
        for n in 0..requests {
            let job = |at: usize| format!(r#"{{"type":"t{n}-{at}","queue":"evil"}}"#);
            let jobs: Vec<_> = (0..10_000).map(job).collect();
            self.submit(&format!("[{}]", jobs.join(",")));
        }
        let types = self.client.send("GET", "types", "", b"");
        assert_eq!(types.status, 403, "types belong to all queues");
        let client = self.client.clone();
        UnderAttack::repeating(2, move || {
            client.ask("POST", "jobs", "", r#"{"type":"r","queue":"evil","retry":{"delay":"1s"}}"#);
        })
    }

    /// Uploads of one attempt that send one byte and no more.
    fn uploads(&self) -> UnderAttack {
        self.submit(r#"{"type":"up","queue":"evil"}"#);
        let given = self.worker.take();
        let (attempt, lease) = (given["id"].as_str().unwrap(), given["lease"].as_str().unwrap());
        let begin = |n: usize| {
            let path = format!("attempts/{attempt}/artifacts/f{n}");
            self.worker.begin("PUT", &path, lease, 1_000_000, b"x")
        };
        let connections: Vec<_> = (0..128).map(begin).collect();
        let path = format!("attempts/{attempt}/artifacts/more");
        eventually("the refusal of an upload", || {
            let answer = self.worker.send("PUT", &path, lease, b"x");
            answer.status == 503 && answer.body.contains("8 uploads of attempt")
        });
        UnderAttack::holding(connections)
    }

    /// A job that waits for sub-jobs whose results have more than one frame together.
    fn results(&self) -> UnderAttack {
        self.submit(r#"{"type":"parent","queue":"evil"}"#);
        let parent = self.worker.take();
        let (attempt, lease) = (parent["id"].as_str().unwrap(), parent["lease"].as_str().unwrap());
        let value = format!(r#"{{"outcome":"succeeded","value":"{}"}}"#, "x".repeat(250_000));
        for n in 0..6 {
            let sub_job = format!(r#"{{"call":"c{n}","job":{{"type":"part"}}}}"#);
            self.worker.ask("POST", &format!("attempts/{attempt}/jobs"), lease, &sub_job);
            let part = self.worker.take();
            let (part, of) = (part["id"].as_str().unwrap(), part["lease"].as_str().unwrap());
            self.worker.ask("POST", &format!("attempts/{part}/outcome"), of, &value);
        }
        let (worker, attempt, lease) = (self.worker.clone(), attempt.to_owned(), lease.to_owned());
        UnderAttack::repeating(2, move || {
            let waited = worker.send("POST", &format!("attempts/{attempt}/wait"), &lease, b"{}");
            assert!(waited.status == 200 && waited.body.len() <= 1 << 20, "{}", waited.status);
            assert!(waited.body.contains("left_out"));
        })
    }

    /// Outcomes of keys that no job has.
    fn outcomes(&self) -> UnderAttack {
        let jobs = vec![r#"{"type":"x","queue":"evil"}"#; 10_000].join(",");
        self.submit(&format!("[{jobs}]"));
        let client = self.client.clone();
        UnderAttack::repeating(2, move || {
            let answer = client.send("PUT", "outcomes/x/none", "", br#"{"outcome":"succeeded"}"#);
            assert_eq!(answer.status, 404);
        })
    }

    /// Event streams and long polls.
    fn streams(&self, count: usize) -> UnderAttack {
        let poll = br#"{"slots":1,"wait_s":60}"#;
        let streams = (0..count).map(|_| self.client.begin("GET", "events", "", 0, b""));
        let polls = (0..count).map(|_| self.worker.begin("POST", "vacancies", "", poll.len(), poll));
        UnderAttack::holding(streams.chain(polls).collect())
    }
}
