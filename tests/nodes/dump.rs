//! A copy of the database gives no access: everything in a dump is tried as a token, as a key and as the secret of the
//! nodes, while a worker has a job.

use std::collections::BTreeSet;

use jobhall_core::{AttemptId, WorkerName};
use jobhall_server::{HallKeys, Tokens};
use jobhall_tests::{Answer, Rig};
use serde_json::Value;

use crate::crowd::Crowd;

/// The purposes of the keys that are derived from the key of a hall, as in the server.
const JOB_TOKENS: &str = "jobhall 2026 tokens of jobs";
const NODE_TOKENS: &str = "jobhall 2026 tokens of the workers of nodes";
const FORWARDING: &str = "jobhall 2026 requests that a node forwards";
/// The shortest text that is tried as a secret.
const SECRET: usize = 8;

type KeyBytes = [u8; 32];

/// A leased job.
struct Leased {
    attempt: AttemptId,
    lease: String,
    /// Its token, which is valid.
    token: String,
}

impl Leased {
    /// A job that a worker with this token holds.
    fn take(at: &Rig, worker: &str) -> Leased {
        let taken = send(at, worker, "POST", "vacancies", "", r#"{"slots":1,"wait_s":30}"#);
        let taken: Value = serde_json::from_str(&taken.body).unwrap();
        let text = |name: &str| taken["attempts"][0][name].as_str().unwrap().to_owned();
        let (id, lease) = (text("id"), text("lease"));
        let headers = format!("Jobhall-Lease: {lease}\r\n");
        let accepted = send(at, worker, "POST", &format!("attempts/{id}/accept"), &headers, "{}");
        assert!(accepted.status < 300, "{accepted:?}");
        Leased { attempt: id.parse().unwrap(), lease, token: text("token") }
    }

    /// The path of the job, which its token can read.
    fn path(&self) -> String {
        format!("jobs/{}", self.attempt.job)
    }

    /// The token of the job, made with this key for tokens of jobs.
    fn forged(&self, key: &KeyBytes) -> String {
        let (job, claim) = (self.attempt.job.get().to_be_bytes(), self.attempt.claim.to_be_bytes());
        let lease = u128::from_str_radix(&self.lease, 16).unwrap().to_be_bytes();
        let keyed = |parts: [&[u8]; 4]| {
            let mut hasher = blake3::Hasher::new_keyed(key);
            parts.iter().for_each(|part| {
                hasher.update(part);
            });
            hasher.finalize().to_hex()
        };
        let mac = keyed([b"mac", &job, &claim, &lease]);
        let seal = keyed([b"seal", &job, &claim, mac.as_bytes()]);
        format!("jh_job_{}_{mac}{}", self.attempt, &seal[..32])
    }
}

fn send(at: &Rig, token: &str, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let request = format!(
        "{method} /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    at.raw().say(request).answer()
}

/// Whether a token is accepted. After too many invalid tokens, others are refused with 429, and valid ones are not.
fn is_accepted(at: &Rig, token: &str, path: &str) -> bool {
    let status = send(at, token, "GET", path, "", "").status;
    assert_ne!(status, 0, "no answer");
    ![401, 429].contains(&status)
}

/// Whether the text is the secret of the nodes: with it, a node does not check the host again.
fn is_trusted(at: &Rig, secret: &str) -> bool {
    let request = format!(
        "GET /api/v1/queues HTTP/1.1\r\nHost: foreign.example\r\nJobhall-Node: {secret}\r\n\
         Jobhall-Peer: http 10.9.8.7\r\nConnection: close\r\n\r\n"
    );
    let status = at.raw().say(request).answer().status;
    assert_ne!(status, 0, "no answer");
    status != 421
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that hex digits mean.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok());
    if text.len().is_multiple_of(2) { digits.collect() } else { None }
}

/// The values of all rows, without the schema.
fn values(dump: &str) -> impl Iterator<Item = &str> {
    let mut is_data = false;
    let rows = dump.lines().filter(move |line| {
        let was_data = is_data && *line != "\\.";
        is_data = was_data || line.starts_with("COPY ");
        was_data
    });
    rows.flat_map(|row| row.split('\t'))
}

/// The words of a text that may be secrets.
fn words(text: &str) -> impl Iterator<Item = String> {
    let all = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-+/=.".contains(c)));
    all.filter(|word| word.len() >= SECRET).map(str::to_owned)
}

/// What may be a secret in a dump.
#[derive(Default)]
struct Candidates {
    words: BTreeSet<String>,
    keys: BTreeSet<KeyBytes>,
}

impl Candidates {
    fn of(dump: &str) -> Candidates {
        let mut found = Candidates::default();
        for value in values(dump) {
            let digits = value.strip_prefix("\\\\x");
            found.add(digits.unwrap_or(value));
            // A column of bytes may have text in it.
            let bytes = digits.and_then(bytes_of).unwrap_or_default();
            found.add(&String::from_utf8_lossy(&bytes));
        }
        found
    }

    fn add(&mut self, text: &str) {
        for word in words(text) {
            self.keys.extend(bytes_of(&word).and_then(|bytes| KeyBytes::try_from(bytes).ok()));
            self.keys.extend(KeyBytes::try_from(word.as_bytes()));
            self.words.insert(word);
        }
    }
}

#[test]
fn audit_h3_a_copy_of_the_database_gives_no_access() {
    let crowd = Crowd::of(2, &["--lease", "1h"]);
    let node = &crowd.nodes[0];
    let worker = crowd.json(0, &["token", "create", "w", "--role", "worker"])["secret"].clone();
    let worker = worker.as_str().unwrap();
    crowd.submit(0, "true", &[]);
    let leased = Leased::take(node, worker);
    let dump = crowd.database.dump();
    assert!(dump.contains("hall_key") && dump.contains(&leased.lease), "the dump has the lease of the job");
    assert!(is_accepted(node, &leased.token, &leased.path()), "the token of the job is valid");

    let file = std::fs::read_to_string(node.data().join("hall.key")).unwrap();
    let own: KeyBytes = bytes_of(file.trim()).unwrap().try_into().unwrap();
    let own_keys = [JOB_TOKENS, NODE_TOKENS, FORWARDING].map(|purpose| blake3::derive_key(purpose, &own));
    let mut secrets: Vec<_> = own_keys.iter().chain([&own]).map(|key| hex(key)).collect();
    secrets.extend(
        [&crowd.token, worker, &leased.token].map(|token| token.rsplit_once('_').unwrap().1.to_owned()),
    );
    for secret in &secrets {
        assert!(!dump.contains(secret) && !dump.contains(&hex(secret.as_bytes())), "a secret is in the dump");
    }

    let name = WorkerName::new("ghost").unwrap();
    let admin_id = crowd.token.split('_').nth(1).unwrap();
    let by_key = |key: &KeyBytes| {
        let jobs = blake3::derive_key(JOB_TOKENS, key);
        let node_mac = blake3::keyed_hash(key, name.as_str().as_bytes()).to_hex();
        let nodes = [Tokens::of_node(&HallKeys::fixed(key), &name), format!("jh_node_ghost_{node_mac}")];
        let jobs = [leased.forged(&jobs), leased.forged(key)];
        let forwarding = hex(&blake3::derive_key(FORWARDING, key));
        nodes.iter().any(|token| is_accepted(node, token, "queues"))
            || jobs.iter().any(|token| is_accepted(node, token, &leased.path()))
            || is_trusted(node, &forwarding)
    };
    let by_word = |word: &String| {
        let tokens =
            [word.clone(), format!("jh_{admin_id}_{word}"), format!("jh_job_{}_{word}", leased.attempt)];
        tokens.iter().any(|token| is_accepted(node, token, &leased.path())) || is_trusted(node, word)
    };
    let found = Candidates::of(&dump);
    assert!(found.keys.len() >= 2, "the hashes of two tokens are in the dump: {}", found.keys.len());
    assert!(found.words.contains(&leased.lease), "the values of the dump are tried");
    assert!(found.words.len() < 2_000, "{} words", found.words.len());
    for key in &found.keys {
        assert!(!by_key(key), "{} gives access", hex(key));
    }
    for word in &found.words {
        assert!(!by_word(word), "{word} gives access");
    }

    // The same tries succeed with the secrets, after all the invalid ones.
    assert!(by_key(&own));
    assert_eq!(leased.forged(&own_keys[0]), leased.token);
    assert!(is_accepted(node, &leased.token, &leased.path()), "the token of the job is still valid");
    assert!(is_trusted(node, &hex(&own_keys[2])));
    assert!(by_word(&crowd.token) && by_word(&crowd.token.rsplit_once('_').unwrap().1.to_owned()));
}
