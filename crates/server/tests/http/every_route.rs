//! Sends common mistakes of clients to every route of the OpenAPI document. The response must be a problem that the
//! document lists, and nothing may be stored.

use serde_json::{Value, json};

use crate::server::{Reply, TestServer};

const DOCUMENT: &str = include_str!("../../../protocol/openapi.json");
const LEASE: (&str, &str) = ("Jobhall-Lease", "00000000000000000000000000000000");

/// One operation of the OpenAPI document.
struct Operation {
    method: String,
    path: String,
    described: Value,
}

impl Operation {
    fn all() -> Vec<Operation> {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let all = paths.iter().flat_map(|(path, methods)| {
            methods.as_object().unwrap().iter().map(|(method, described)| Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                described: described.clone(),
            })
        });
        all.collect()
    }

    fn is_open(&self) -> bool {
        self.described["security"].is_array()
    }

    fn takes_json(&self) -> bool {
        self.described["requestBody"]["content"].get("application/json").is_some()
    }

    fn parameters(&self, place: &str) -> Vec<&Value> {
        let all = self.described["parameters"].as_array().unwrap().iter();
        all.filter(|parameter| parameter["in"] == place).collect()
    }

    /// The path with these values for its parameters: for numbers, for attempts, for names.
    fn with(&self, number: &str, attempt: &str, name: &str) -> String {
        let mut path = self.path.clone();
        for parameter in self.parameters("path") {
            let word = match (parameter["schema"]["type"].as_str(), self.path.contains("/attempts/")) {
                (Some("integer"), _) => number,
                // A position, or `parent`.
                _ if parameter["name"] == "n" => number,
                (_, true) if parameter["name"] == "id" => attempt,
                _ => name,
            };
            path = path.replace(&format!("{{{}}}", parameter["name"].as_str().unwrap()), word);
        }
        path
    }

    /// The path with valid parameters that refer to nothing.
    fn nowhere(&self) -> String {
        self.with("999999", "999999-1", "nothing")
    }

    async fn send(&self, hall: &TestServer, path: &str, token: &str, body: &[u8]) -> Reply {
        let reply = hall.send(&self.method, path, token, &[LEASE], body).await;
        let listed = &self.described["responses"];
        assert!(
            listed.get(reply.status.to_string()).is_some(),
            "not in the document: {} {path}: {reply:?}",
            self.method
        );
        reply
    }

    /// A token that this operation accepts.
    async fn token(&self, hall: &TestServer) -> String {
        let admin = self.described["x-roles"].as_array().is_none_or(|roles| roles.contains(&"admin".into()));
        if admin { hall.admin.clone() } else { hall.secret(r#"{"role":"worker","kind":"join"}"#).await }
    }

    /// Sends an invalid request; the response must be this problem.
    async fn refused(&self, hall: &TestServer, path: &str, body: &[u8], status: u16, code: &str) -> String {
        let reply = self.send(hall, path, &self.token(hall).await, body).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(reply.status, status, "{} {path} {shown}: {}", self.method, reply.text());
        reply.problem(status, code)
    }
}

/// A server with one job, to check that nothing changes.
async fn hall() -> TestServer {
    let hall = TestServer::start().await;
    hall.submit(r#"{"type":"a","key":"k"}"#).await;
    hall
}

async fn everything(hall: &TestServer) -> Vec<Value> {
    let mut all = Vec::new();
    for noun in ["jobs", "types", "groups", "operations", "workers"] {
        all.push(hall.get(&format!("/api/v1/{noun}")).await.json());
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_asked_for_on_every_route_but_the_open_ones() {
    let hall = hall().await;
    let before = everything(&hall).await;
    let (mut seen, mut guessed) = (0, 0);
    for operation in Operation::all().iter().filter(|operation| !operation.is_open()) {
        let path = operation.nowhere();
        operation.send(&hall, &path, "", b"{}").await.problem(401, "unauthorized");
        for token in ["jh_0000000000000000_0000", "x"] {
            let reply = operation.send(&hall, &path, token, b"{}").await;
            // A client that sends too many invalid tokens has to wait.
            match guessed {
                0..10 => reply.problem(401, "unauthorized"),
                _ => reply.problem(429, "too_many_requests"),
            };
            guessed += 1;
        }
        let roles = operation.described["x-roles"].as_array().unwrap();
        for (role, token) in [("viewer", &hall.viewer), ("client", &hall.client), ("worker", &hall.worker)] {
            if !roles.contains(&role.into()) {
                operation.send(&hall, &path, token, b"{}").await.problem(403, "forbidden");
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
    assert_eq!(everything(&hall).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_wrong_is_refused_by_name_and_place() {
    let hall = hall().await;
    let before = everything(&hall).await;
    let mut seen = 0;
    for operation in Operation::all().iter().filter(|operation| operation.takes_json()) {
        let path = operation.with("1", "1-1", "a");
        for body in ["{", "{\"a\":}", "\u{1}", "nonsense", "7", "\"text\"", "true", "[7]", "{} {}"] {
            let detail = operation.refused(&hall, &path, body.as_bytes(), 400, "bad_request").await;
            assert!(detail.contains("line 1 column"), "{path} {body}: {detail}");
        }
        let detail = operation.refused(&hall, &path, br#"{"no_such_field":1}"#, 400, "bad_request").await;
        assert!(detail.contains("unknown field `no_such_field`"), "{path}: {detail}");
        operation.refused(&hall, &path, b"\xff\xfe{}", 400, "bad_request").await;
        let large = ((1 << 20) + 1).to_string();
        let headers = [LEASE, ("Content-Length", large.as_str())];
        let token = operation.token(&hall).await;
        let reply = hall.send(&operation.method, &path, &token, &headers, b"").await;
        assert!(reply.problem(413, "too_large").contains("1048576"), "{path}");
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        operation.refused(&hall, &path, &deep, 400, "bad_request").await;
        seen += 1;
    }
    assert!(seen >= 7, "{seen}");
    assert_eq!(everything(&hall).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_wrong_or_leads_nowhere_is_told_apart() {
    let hall = hall().await;
    let before = everything(&hall).await;
    let long = "9".repeat(5_000);
    let (mut wrong, mut nowhere) = (0, 0);
    // Any text without control characters is the key of a source, and any body is its data.
    let names =
        |operation: &&Operation| operation.path != "/api/v1/sources/{key}" || operation.method != "PUT";
    let all = Operation::all();
    let named = all.iter().filter(|operation| !operation.parameters("path").is_empty());
    for operation in named.filter(names) {
        for bad in ["x", "-1", "0x1", "1.5", "%00", "%ff", "%20", long.as_str()] {
            // Some of these are valid names.
            let name = if bad.starts_with('%') || bad.len() > 10 { bad } else { "a%20b" };
            let path = operation.with(bad, bad, name);
            let reply = operation.send(&hall, &path, &hall.admin, b"{}").await;
            assert!([400, 404].contains(&reply.status), "{} {path}: {reply:?}", operation.method);
            assert!(reply.body.len() < 2_000, "the answer to a long path is short: {}", operation.path);
            wrong += 1;
        }
        let known = operation.described["responses"].get("404").is_some();
        let required = operation.described["requestBody"]["required"] == true;
        if known && !required {
            operation.refused(&hall, &operation.nowhere(), b"", 404, "not_found").await;
            nowhere += 1;
        }
    }
    assert!(wrong > 60 && nowhere >= 8, "{wrong} {nowhere}");
    assert_eq!(everything(&hall).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_wrong_is_refused_by_name() {
    let hall = hall().await;
    let mut seen = 0;
    for operation in Operation::all().iter().filter(|operation| !operation.parameters("query").is_empty()) {
        let path = operation.with("1", "1-1", "a");
        let unknown = format!("{path}?no_such_parameter=1");
        let detail = operation.refused(&hall, &unknown, b"", 400, "bad_request").await;
        assert!(detail.contains("no_such_parameter"), "{path}: {detail}");
        for parameter in operation.parameters("query") {
            let name = parameter["name"].as_str().unwrap();
            // Where a list is sorted by name, any name is a valid cursor.
            let by_name = name == "cursor" && path.ends_with("/artifacts");
            // A wrong query text is refused with other codes; the tests of queries check them.
            let bad =
                if by_name || name == "query" { Vec::new() } else { bad_values(name, &parameter["schema"]) };
            for bad in bad {
                let query = format!("{path}?{name}={bad}");
                let detail = operation.refused(&hall, &query, b"", 400, "bad_request").await;
                assert!(detail.len() < 1_000, "{detail}");
                seen += 1;
            }
            let twice = format!("{path}?{name}=1&{name}=1");
            operation.refused(&hall, &twice, b"", 400, "bad_request").await;
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Values that are invalid for every parameter of this kind.
fn bad_values(name: &str, schema: &Value) -> Vec<String> {
    let integer = schema["type"] == "integer" || schema["type"][0] == "integer";
    let boolean = schema["type"] == "boolean";
    let words: &[&str] = match name {
        _ if integer => &["x", "-1", "1.5", "", "99999999999999999999", "+"],
        _ if boolean => &["x", "1", ""],
        "cursor" => &["", "x", "b", "o", "bzz", "b0x1", "b-1", "bffffffffffffffffff", "%00"],
        "state" => &["", "done", "queued,", ",", "QUEUED", "%00"],
        "type" | "queue" => &["", "a b", "a%2Fb", "%00", "-a"],
        "key" => &["", "%00", "a%0Ab"],
        "q" => &[""],
        "created_after" | "created_before" => &["", "yesterday", "2026", "99999-01-01T00:00:00Z"],
        "stream" => &["", "stdin"],
        "attempt" => &["", "x", "1-x", "1-0", "%00"],
        _ => &[],
    };
    let mut all: Vec<String> = words.iter().map(|word| word.replace(' ', "%20")).collect();
    if !integer && !boolean {
        all.push("x".repeat(8_000));
    }
    if name == "limit" {
        all.extend(["0".to_owned(), "1000001".to_owned()]);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_beyond_its_limit_is_refused_by_name_and_limit() {
    let hall = hall().await;
    let before = everything(&hall).await;
    let long = |count: usize| "x".repeat(count);
    let cases: Vec<(&str, &str, Value, &[&str])> = vec![
        ("POST", "jobs", json!({"type": long(129)}), &["type", "128"]),
        ("POST", "jobs", json!({"type": "a", "key": long(513)}), &["key", "512"]),
        ("POST", "jobs", json!({"type": "a", "queue": long(129)}), &["queue", "128"]),
        ("POST", "jobs", json!({"type": "a", "params": long(262_144)}), &["params", "262144"]),
        ("POST", "jobs", json!({"type": "a", "needs": long(100_000)}), &["needs"]),
        ("POST", "jobs", json!({"type": "a", "uses": long(100_000)}), &["uses"]),
        ("POST", "jobs", json!({"type": "a", "priority": 1u64 << 40}), &["priority"]),
        ("POST", "jobs", json!({"type": "a", "run_at": "soon"}), &["run_at", "moment"]),
        ("POST", "jobs", json!({"type": "a", "run_at": 7}), &["run_at"]),
        ("POST", "jobs", json!({"type": "a", "retry": {"max_attempts": 1_001}}), &["max_attempts", "1000"]),
        ("POST", "jobs", json!({"type": "a", "retry": {"delay": "366d"}}), &["backoff", "31536000000"]),
        ("POST", "jobs", json!({"type": "a", "retry": {"delay": 5}}), &["retry.delay"]),
        ("POST", "jobs", json!({"type": "a", "retry": {"on": ["never"]}}), &["retry.on", "never"]),
        ("POST", "jobs", json!({"type": "a", "reuse": {"max_age": "366d"}}), &["max_age", "31536000000"]),
        ("POST", "jobs", json!({"type": "a", "on_duplicate": "x"}), &["on_duplicate"]),
        ("POST", "jobs", json!([{"type": "a"}, {"type": "a", "priority": "x"}]), &["[1].priority"]),
        ("POST", "jobs", json!([["a"]]), &["[0]", "object"]),
        ("POST", "jobs", json!([]), &["jobs", "10000"]),
        ("POST", "jobs", Value::Array(vec![json!({"type": "a"}); 10_001]), &["jobs", "10000"]),
        ("POST", "jobs/1/cancel", json!({"error": {"reason": ""}}), &["reason"]),
        ("POST", "jobs/1/cancel", json!({"error": {"reason": long(257)}}), &["reason", "256"]),
        (
            "POST",
            "jobs/1/cancel",
            json!({"error": {"reason": "r", "explanation": long(16_385)}}),
            &["explanation", "16384"],
        ),
        (
            "POST",
            "jobs/1/cancel",
            json!({"error": {"reason": "r", "data": long(262_144)}}),
            &["data", "262144"],
        ),
        ("POST", "jobs/1/cancel", json!({"error": {"reason": "r", "more": 1}}), &["error", "more"]),
        ("POST", "vacancies", json!({"slots": 0}), &["slots", "10000"]),
        ("POST", "vacancies", json!({"slots": 10_001}), &["slots", "10000"]),
        ("POST", "vacancies", json!({"slots": 1, "wait_s": 61}), &["wait_s", "60"]),
        ("POST", "vacancies", json!({"slots": 1, "abilities": long(100_000)}), &["abilities"]),
        ("POST", "vacancies", json!({"slots": 1, "accepts": long(100_000)}), &["accepts"]),
        ("POST", "renewals", json!({"attempts": [{"id": "1-1", "lease": "x"}]}), &["lease", "32"]),
        ("POST", "renewals", json!({"attempts": [{"id": "1", "lease": "x"}]}), &["attempt id"]),
        (
            "POST",
            "attempts/1-1/progress",
            json!({"indicators": vec![json!({"step": 1}); 33]}),
            &["indicators", "32"],
        ),
        (
            "POST",
            "attempts/1-1/progress",
            json!({"indicators": [{"step": 1, "message": long(1_025)}]}),
            &["message", "1024"],
        ),
        (
            "POST",
            "attempts/1-1/outcome",
            json!({"outcome": "succeeded", "value": long(262_144)}),
            &["value", "262144"],
        ),
        (
            "POST",
            "attempts/1-1/outcome",
            json!({"outcome": "succeeded", "error": {"reason": "r"}}),
            &["error"],
        ),
        ("POST", "attempts/1-1/outcome", json!({"outcome": "failed", "value": 1}), &["value"]),
        (
            "POST",
            "attempts/1-1/outcome",
            json!({"outcome": "failed", "error": {"reason": "r", "x": 1}}),
            &["error", "`x`"],
        ),
        ("PUT", "types/a", json!({"keep_ms": 3_153_600_000_001u64}), &["keep_ms", "3153600000000"]),
        ("PUT", "types/a", json!({"keep_count": 1u64 << 60}), &["keep_count", "9007199254740991"]),
        ("PUT", "types/a", json!({"reuse_window_ms": 1u64 << 60}), &["reuse_window_ms", "3153600000000"]),
        ("PUT", "types/a", json!({"retry": {"max_attempts": 0}}), &["max_attempts", "1000"]),
        ("POST", "operations", json!({"verb": "cancel", "filter": {"q": long(257)}}), &["q", "256"]),
        ("POST", "operations", json!({"verb": "cancel", "filter": {"key": long(513)}}), &["key", "512"]),
    ];
    for (method, path, body, words) in &cases {
        let path = format!("/api/v1/{path}");
        let reply = hall.send(method, &path, &hall.admin, &[LEASE], body.to_string().as_bytes()).await;
        let shown: String = body.to_string().chars().take(80).collect();
        assert_eq!(reply.status, 400, "{method} {path} {shown}: {reply:?}");
        let detail = reply.problem(400, "bad_request");
        assert!(words.iter().all(|word| detail.contains(word)), "{method} {path} {shown}: {detail}");
        assert!(detail.len() < 1_000, "{detail}");
    }
    let long_key = long(257);
    let named = [("Idempotency-Key", long_key.as_str())];
    let reply = hall.send("POST", "/api/v1/jobs", &hall.client, &named, br#"{"type":"a"}"#).await;
    assert!(reply.problem(400, "bad_request").contains("256"));
    for lease in ["", "x", &"0".repeat(33)] {
        let reply = hall
            .send("POST", "/api/v1/attempts/1-1/accept", &hall.worker, &[("Jobhall-Lease", lease)], b"")
            .await;
        assert!(reply.problem(400, "bad_request").contains("32"));
    }
    assert_eq!(everything(&hall).await, before, "nothing was stored");
}
