//! Attacks by jobs: floods of them, of their types, results and outcomes.

use jobhall_tests::eventually;

use super::{Ground, OPEN_JOBS};
use crate::caller::Caller;
use crate::under_attack::UnderAttack;

/// Maximum number of types without configuration that a server remembers.
const TYPES: usize = 10_000;

impl Ground {
    /// Jobs of ever new types, and jobs with a retry policy.
    pub(super) fn types(&self, requests: usize) -> UnderAttack {
        for n in 0..requests {
            let job = |at: usize| format!(r#"{{"type":"t{n}-{at}","queue":"evil"}}"#);
            let jobs: Vec<_> = (0..TYPES).map(job).collect();
            self.submit(&format!("[{}]", jobs.join(",")));
        }
        assert!(requests > 1, "more types than the server remembers");
        assert_eq!(remembered_types(&self.admin), TYPES);
        let types = self.client.send("GET", "types", "", b"");
        assert_eq!(types.status, 403, "types belong to all queues");
        let client = self.client.clone();
        UnderAttack::repeating(2, move || {
            client.ask("POST", "jobs", "", r#"{"type":"r","queue":"evil","retry":{"delay":"1s"}}"#);
        })
    }

    /// Jobs until the queue has as many as one queue may have, and more.
    pub(super) fn submits(&self) -> UnderAttack {
        let job = r#"{"type":"flood","queue":"evil"}"#;
        let jobs = format!("[{}]", vec![job; 1_000].join(","));
        for _ in 0..OPEN_JOBS / 1_000 {
            self.submit(&jobs);
        }
        let client = self.client.clone();
        UnderAttack::repeating(4, move || {
            for jobs in [jobs.as_str(), job] {
                let answer = client.send("POST", "jobs", "", jobs.as_bytes());
                assert_eq!(answer.status, 503, "{answer:?}");
                assert!(answer.body.contains("evil") && answer.body.contains(&OPEN_JOBS.to_string()));
            }
        })
    }

    /// A job that waits for sub-jobs whose results have more than one frame together.
    pub(super) fn results(&self) -> UnderAttack {
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
            // The lease ends in a long attack: the attacker does not renew it.
            assert!([200, 409].contains(&waited.status) && waited.body.len() <= 1 << 20, "{}", waited.status);
            assert!(waited.status == 409 || waited.body.contains("left_out"));
        })
    }

    /// Outcomes of keys that no job has.
    pub(super) fn outcomes(&self) -> UnderAttack {
        let jobs = vec![r#"{"type":"x","queue":"evil"}"#; 10_000].join(",");
        self.submit(&format!("[{jobs}]"));
        let client = self.client.clone();
        UnderAttack::repeating(2, move || {
            let answer = client.send("PUT", "outcomes/x/none", "", br#"{"outcome":"succeeded"}"#);
            assert_eq!(answer.status, 404);
        })
    }

    /// Pages of jobs with large params that are not read.
    pub(super) fn lists(&self, count: usize) -> UnderAttack {
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
}

/// The number of all types in the list.
fn remembered_types(admin: &Caller) -> usize {
    let (mut count, mut path) = (0, "types?limit=500".to_owned());
    loop {
        let page = admin.ask("GET", &path, "", "");
        count += page["items"].as_array().unwrap().len();
        let Some(cursor) = page["next_cursor"].as_str() else { return count };
        path = format!("types?limit=500&cursor={cursor}");
    }
}
