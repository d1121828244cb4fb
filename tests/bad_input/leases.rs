//! Messages about attempts of another worker, or about attempts that are lost.

use jobhall_tests::{Answer, Rig, eventually};

use super::guarded::Guarded;

const VACANCY: &str = r#"{"slots":1,"wait_s":30,"accepts":"type=own"}"#;
const PASSED: &str = r#"{"outcome":"succeeded","value":1}"#;

/// An attempt as assigned to a worker.
struct Given {
    id: String,
    lease: String,
}

/// A worker, identified by its token.
struct Worker<'a> {
    rig: &'a Rig,
    token: String,
}

impl Worker<'_> {
    fn post(&self, path: &str, lease: &str, body: &str) -> Answer {
        let (token, length) = (&self.token, body.len());
        let lease = if lease.is_empty() { String::new() } else { format!("Jobhall-Lease: {lease}\r\n") };
        let head = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{lease}"
        );
        self.rig
            .raw()
            .say(format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"))
            .answer()
    }

    fn take(&self) -> Given {
        let answer = self.post("vacancies", "", VACANCY);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let given: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let text = |name: &str| given["attempts"][0][name].as_str().unwrap().to_owned();
        Given { id: text("id"), lease: text("lease") }
    }

    fn of(&self, given: &Given, verb: &str, body: &str) -> Answer {
        self.post(&format!("attempts/{}/{verb}", given.id), &given.lease, body)
    }

    #[track_caller]
    fn is_refused(&self, given: &Given, what: &str) {
        for (verb, body) in [("accept", ""), ("progress", "{}"), ("log", "stale"), ("outcome", PASSED)] {
            let answer = self.of(given, verb, body);
            assert_eq!((answer.status, answer.code().as_str()), (409, "lease_lost"), "{what}: {verb}");
        }
        let held = format!(r#"{{"attempts":[{{"id":"{}","lease":"{}"}}]}}"#, given.id, given.lease);
        let renewed: serde_json::Value =
            serde_json::from_str(&self.post("renewals", "", &held).body).unwrap();
        assert_eq!(renewed["lost"][0].as_str(), Some(given.id.as_str()), "{what}: {renewed}");
    }
}

fn job(rig: &Rig, id: u64) -> serde_json::Value {
    rig.json(&["job", "show", &id.to_string(), "--json"])
}

fn submit(rig: &Rig) -> u64 {
    let words = ["job", "submit", "own", "--max-attempts", "3", "--params", "{}", "--json"];
    rig.json(&words)["id"].as_u64().unwrap()
}

/// The token of another worker: a second identity besides the administrator's.
fn token_of_another(rig: &Rig) -> String {
    let made = rig.json(&["token", "create", "another", "--role", "worker", "--json"]);
    made["secret"].as_str().unwrap().to_owned()
}

#[test]
fn g2_l9_the_lease_of_another_worker_is_none() {
    let hall = Guarded::up();
    let local = token_of_another(&hall);
    let (one, other) = (Worker { rig: &hall, token: hall.token() }, Worker { rig: &hall, token: local });
    let id = submit(&hall);
    let given = one.take();
    assert_eq!(one.of(&given, "accept", "").status, 200);
    other.is_refused(&given, "another worker with the right lease");
    let forged = Given { id: given.id.clone(), lease: "0".repeat(31) + "1" };
    one.is_refused(&forged, "the right worker with another lease");
    let future = Given { id: format!("{id}-9"), lease: given.lease.clone() };
    one.is_refused(&future, "a claim that never was");
    for (lease, word) in [("", "lease"), ("zz", "lease"), (&"f".repeat(33), "lease")] {
        let answer = one.post(&format!("attempts/{}/outcome", given.id), lease, PASSED);
        assert_eq!(answer.status, 400, "{lease:?}: {}", answer.body);
        assert!(answer.body.to_lowercase().contains(word), "{}", answer.body);
    }
    let answer = one.post(&format!("attempts/{}/outcome", given.id), &given.lease, r#"{"outcome":"great"}"#);
    assert_eq!((answer.status, answer.code().as_str()), (400, "bad_request"), "{}", answer.body);
    let unknown = Given { id: "999999-1".to_owned(), lease: given.lease.clone() };
    let answer = one.of(&unknown, "outcome", PASSED);
    assert!(matches!(answer.code().as_str(), "not_found" | "lease_lost"), "{}", answer.body);
    assert_eq!(job(&hall, id)["state"], "accepted", "none of this changed the job");
    assert_eq!(one.of(&given, "outcome", PASSED).status, 200, "its own worker can");
    assert_eq!(one.of(&given, "outcome", PASSED).status, 200, "and may repeat it");
    let other_word = one.of(&given, "outcome", r#"{"outcome":"failed"}"#);
    assert_eq!(other_word.code(), "lease_lost", "but not with another outcome");
    assert_eq!(job(&hall, id)["state"], "succeeded");
    hall.is_well();
}

#[test]
fn g2_g8_a_lease_outlives_a_kill_but_not_its_term() {
    let short = ["server", "--lease", "3s"];
    let mut rig = Rig::server(&short[1..]);
    let (kept, stale) = (submit(&rig), submit(&rig));
    let worker = Worker { rig: &rig, token: rig.token() };
    let (first, second) = (worker.take(), worker.take());
    assert_eq!(first.id, format!("{kept}-1"));
    for given in [&first, &second] {
        assert_eq!(worker.of(given, "accept", "").status, 200);
        assert_eq!(worker.of(given, "log", "before\n").status, 200);
    }
    rig.hall().kill();
    rig.start(&short);
    let worker = Worker { rig: &rig, token: rig.token() };
    assert_eq!(worker.of(&first, "outcome", PASSED).status, 200, "the lease is still valid");
    // The accept was recent when the server was killed and may be lost: then the job was never accepted.
    eventually("the end of the other lease", || {
        ["retrying", "queued"].contains(&job(&rig, stale)["state"].as_str().unwrap())
    });
    worker.is_refused(&second, "a lease that ended");
    let third = worker.take();
    assert_eq!(third.id, format!("{stale}-2"));
    worker.is_refused(&second, "a lease that was followed by another");
    assert_eq!(worker.of(&third, "log", "after\n").status, 200);
    assert_eq!(worker.of(&third, "outcome", PASSED).status, 200);
    assert_eq!(job(&rig, stale)["state"], "succeeded");
    let log = |attempt: &str| rig.run(&["job", "log", attempt]).stdout;
    assert_eq!(log(&kept.to_string()), b"before\n", "output from before the kill is kept");
    assert_eq!(log(&stale.to_string()), b"after\n", "and a stale chunk is in no log");
}
