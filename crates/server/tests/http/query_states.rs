//! What is shown of a query in each of its states.

use jobhall_core::StateName;
use serde_json::{Value, json};

use crate::queries::hall;
use crate::server::{Reply, TestServer};

/// Takes a job of a command.
async fn take(hall: &TestServer, command: &str) -> Value {
    let offer = json!({"slots": 1, "wait_s": 10, "abilities": "commands=[a@1,b@1]",
        "accepts": format!("type=q.{command}")});
    let reply = hall.work("/api/v1/vacancies", &offer.to_string()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["attempts"][0].clone()
}

async fn end(hall: &TestServer, given: &Value, outcome: Value) {
    let ended = hall.word(given, "outcome", outcome.to_string().as_bytes()).await;
    assert_eq!(ended.status, 200, "{ended:?}");
}

fn value(text: &str) -> Value {
    json!({"outcome": "succeeded", "value": {"media_type": "text/plain", "size": text.len(), "text": text}})
}

/// Asks in the background, and returns the number of the promise.
async fn ask(hall: &TestServer, query: &str) -> u64 {
    let asked = hall.post("/api/v1/queries", &json!({"query": query}).to_string()).await;
    assert!([200, 202].contains(&asked.status), "{asked:?}");
    asked.json()["id"].as_u64().unwrap()
}

async fn metadata(hall: &TestServer, query: &str) -> Value {
    let known = hall.get(&format!("/api/v1/queries?query={query}")).await;
    assert_eq!(known.status, 200, "{known:?}");
    known.json()
}

/// Every document about a query.
async fn shown(hall: &TestServer, query: &str, id: u64) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [
        format!("/api/v1/queries/{id}"),
        format!("/api/v1/queries/{id}/steps"),
        format!("/api/v1/queries?query={query}"),
        format!("/api/v1/queries/plan?query={query}"),
        format!("/api/v1/jobs/{id}"),
    ] {
        all.push(hall.get(&path).await.json());
    }
    all
}

/// The words of the members with this name, at any depth.
fn words(document: &Value, name: &str, found: &mut Vec<String>) {
    match document {
        Value::Object(members) => {
            for (key, value) in members {
                assert!(key != "done" && key != "finished", "{document}");
                if key == name && value.is_string() {
                    found.push(value.as_str().unwrap_or_default().to_owned());
                }
                words(value, name, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| words(item, name, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn q03_the_states_of_a_query_are_those_of_its_job_and_are_pending_or_completed() {
    let hall = hall().await;
    let names: Vec<String> = StateName::ALL.iter().map(ToString::to_string).collect();
    assert!(!names.iter().any(|name| ["done", "finished"].contains(&name.as_str())));
    let mut seen = Vec::new();
    let mut look = async |query: &str, id: u64, expected: &str| {
        let mut states = Vec::new();
        for document in shown(&hall, query, id).await {
            words(&document, "state", &mut states);
        }
        assert!(states.iter().all(|state| names.contains(state)), "{query}: {states:?}");
        let promise = hall.get(&format!("/api/v1/queries/{id}")).await.json();
        assert_eq!((&promise["state"], &hall.state(id).await), (&json!(expected), &expected.to_owned()));
        // Pending: the promise is the answer. Completed: the value or the failure is.
        let is_pending =
            StateName::ALL.iter().any(|name| name.to_string() == expected && !name.is_terminal());
        let value = hall.get(&format!("/api/v1/queries/{id}/value?wait=0")).await.status;
        assert_eq!(value == 202, is_pending, "{query} is {expected}: {value}");
        seen.push(expected.to_owned());
    };
    let first = ask(&hall, "a").await;
    look("a", first, "queued").await;
    let second = ask(&hall, "a/b").await;
    look("a/b", second, "blocked").await;
    let given = take(&hall, "a").await;
    look("a", first, "assigned").await;
    hall.word(&given, "accept", b"").await;
    look("a", first, "accepted").await;
    hall.word(&given, "progress", br#"{"indicators":[{"step":1}]}"#).await;
    look("a", first, "running").await;
    end(&hall, &given, value("one")).await;
    look("a", first, "succeeded").await;
    for (query, outcome) in [("a-1", "failed"), ("a-2", "crashed")] {
        let id = ask(&hall, query).await;
        let given = take(&hall, "a").await;
        end(&hall, &given, json!({"outcome": outcome, "error": {"reason": "r", "explanation": "e"}})).await;
        look(query, id, outcome).await;
    }
    hall.post(&format!("/api/v1/jobs/{second}/cancel"), "{}").await;
    look("a/b", second, "cancelled").await;
    assert_eq!(seen.len(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn q04_failed_crashed_and_cancelled_are_no_success_and_stay_distinct_with_message_log_and_place() {
    let hall = hall().await;
    for (query, state, status, code) in [
        ("a-1/b/a", "failed", 422, "step_failed"),
        ("a-2/b/a", "crashed", 422, "step_crashed"),
        ("a-3/b/a", "cancelled", 409, "step_cancelled"),
    ] {
        let id = ask(&hall, query).await;
        let given = take(&hall, "a").await;
        end(&hall, &given, value("input")).await;
        let given = take(&hall, "b").await;
        let failing = given["job"]["id"].as_u64().unwrap();
        hall.word(&given, "accept", b"").await;
        let traceback = b"Traceback (most recent call last):\n  File \"b.py\", line 3\nKeyError: 'region'\n";
        assert_eq!(hall.word(&given, "log", traceback).await.status, 200);
        if state == "cancelled" {
            let why = r#"{"error":{"reason":"cancelled","explanation":"by ann"}}"#;
            assert_eq!(hall.post(&format!("/api/v1/jobs/{failing}/cancel"), why).await.status, 200);
        }
        let error = json!({"reason": "no_region", "explanation": "there is no column region"});
        let outcome = match state {
            "cancelled" => json!({"outcome": state}),
            _ => json!({"outcome": state, "error": error}),
        };
        end(&hall, &given, outcome).await;
        hall.until(failing, state).await;
        // The dependents have no success either.
        let answer = hall.get(&format!("/api/v1/queries/{id}/value")).await;
        let place = answer.json()["query"].clone();
        let detail = answer.problem(status, code);
        let text = &query[..query.len() - 2];
        assert!(detail.starts_with(&format!("{text} (job {failing}): ")), "{detail}");
        let said = if state == "cancelled" { "by ann" } else { "no_region: there is no column region" };
        assert!(detail.contains(said), "{detail}");
        assert_eq!(
            (&place["query"], &place["marks"], &place["job"]),
            (&json!(query), &json!("    ^"), &json!(failing))
        );
        assert_eq!(place["column"], 5);
        let last = hall.state(id).await;
        assert!(["failed", "cancelled"].contains(&last.as_str()), "{last}");
        // What failed keeps its own state, and its traceback is in its log and in the metadata.
        let known = metadata(&hall, text).await;
        assert_eq!((&known["state"], &known["job"]), (&json!(state), &json!(failing)));
        assert!(known["log"].as_str().unwrap().ends_with("KeyError: 'region'\n"), "{known}");
        let steps = hall.get(&format!("/api/v1/queries/{id}/steps")).await.json();
        let step = steps["items"].as_array().unwrap().iter().find(|step| step["job"] == failing).unwrap();
        assert_eq!((&step["cache"], &step["state"]), (&json!(state), &json!(state)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn q21_the_metadata_of_a_query_is_read_without_evaluating_it() {
    let hall = hall().await;
    let none = metadata(&hall, "a-x/b").await;
    assert_eq!(
        (&none["cache"], &none["state"], &none["log"]),
        (&json!("missing"), &Value::Null, &Value::Null)
    );
    assert_eq!(none["commands"], json!(["a@1", "b@1"]));
    let jobs = hall.get("/api/v1/jobs").await.json();
    assert!(jobs["items"].as_array().unwrap().is_empty(), "nothing is evaluated: {jobs}");

    ask(&hall, "a-x/b").await;
    let given = take(&hall, "a").await;
    end(&hall, &given, value("input")).await;
    let given = take(&hall, "b").await;
    hall.word(&given, "accept", b"").await;
    let pending = metadata(&hall, "a-x/b").await;
    assert_eq!((&pending["state"], &pending["preview"]), (&json!("accepted"), &Value::Null));
    hall.word(&given, "log", b"reading\n").await;
    let text = format!("{}\u{20ac}", "x".repeat(1_023));
    end(&hall, &given, value(&text)).await;

    let known = metadata(&hall, "a-x/b").await;
    assert_eq!((&known["cache"], &known["state"]), (&json!("hit"), &json!("succeeded")));
    assert_eq!((&known["media_type"], &known["size"]), (&json!("text/plain"), &json!(text.len())));
    for time in ["created_at", "started_at", "ended_at", "duration_ms"] {
        assert!(!known[time].is_null(), "{time}: {known}");
    }
    assert_eq!((&known["worker"], &known["log"]), (&json!("w"), &json!("reading\n")));
    let first = metadata(&hall, "a-x").await;
    assert_eq!(
        known["dependencies"],
        json!([{"query": "a-x", "identity": first["identity"], "command": "a@1"}])
    );
    // A character that does not fit is left out as a whole.
    let preview = json!({"media_type": "text/plain", "text": "x".repeat(1_023), "url": null});
    assert_eq!(known["preview"], preview);
    let jobs = hall.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len();
    assert_eq!(jobs, 2, "nothing more was evaluated");
    // Another version is another dependency.
    let other =
        r#"{"commands":{"a":{"version":"2","command":{"run":["a"],"args":[{"name":"x","default":"z"}]}}}}"#;
    hall.send("PUT", "/api/v1/commands", &hall.worker, &[], other.as_bytes()).await;
    let changed = metadata(&hall, "a-x/b").await;
    assert_eq!(
        (&changed["cache"], &changed["dependencies"][0]["command"]),
        (&json!("missing"), &json!("a@2"))
    );
    assert_ne!(changed["identity"], known["identity"]);
}

/// Stores an artifact of an attempt.
async fn put(hall: &TestServer, given: &Value, name: &str, media_type: &str, bytes: &[u8]) -> Reply {
    let path = format!("/api/v1/attempts/{}/artifacts/{name}", given["id"].as_str().unwrap());
    let headers = [("Jobhall-Lease", given["lease"].as_str().unwrap()), ("Content-Type", media_type)];
    hall.send("PUT", &path, &hall.worker, &headers, bytes).await
}

#[tokio::test(flavor = "multi_thread")]
async fn q28_a_preview_is_there_while_it_runs_and_half_a_value_never_is() {
    let hall = hall().await;
    let id = ask(&hall, "a").await;
    let given = take(&hall, "a").await;
    hall.word(&given, "accept", b"").await;
    assert_eq!(put(&hall, &given, "preview", "text/html", b"<b>10 of 90</b>").await.status, 200);
    // A large value is an artifact, which is there before the outcome: it does not count yet.
    assert_eq!(put(&hall, &given, "result", "text/plain", b"half").await.status, 200);
    let known = metadata(&hall, "a").await;
    assert_eq!((&known["cache"], &known["state"]), (&json!("missing"), &json!("running")));
    let url = known["preview"]["url"].as_str().unwrap().to_owned();
    assert_eq!(known["preview"]["media_type"], "text/html");
    assert_eq!(hall.get(&url).await.text(), "<b>10 of 90</b>");
    assert_eq!(hall.get(&format!("/api/v1/queries/{id}/value?wait=0")).await.status, 202);
    assert_eq!(hall.get("/q/a").await.status, 409, "a viewer gets what is stored, and that is nothing");
    // The attempt ends without a value: what it has left is none, and the next request computes.
    end(&hall, &given, json!({"outcome": "crashed", "error": {"reason": "oom", "explanation": ""}})).await;
    assert_eq!(metadata(&hall, "a").await["cache"], "missing");
    let again = ask(&hall, "a").await;
    assert_ne!(again, id);
    let given = take(&hall, "a").await;
    let wrong = json!({"outcome": "succeeded",
        "value": {"media_type": "text/plain", "size": 90, "text": "only half of"}});
    hall.word(&given, "outcome", wrong.to_string().as_bytes()).await;
    assert_eq!(metadata(&hall, "a").await["cache"], "missing", "a value with another size is damaged");
}

#[tokio::test(flavor = "multi_thread")]
async fn q22_indicators_of_all_steps_reach_the_promise_and_complete_ones_go_away() {
    let hall = hall().await;
    ask(&hall, "a/b").await;
    let given = take(&hall, "a").await;
    hall.word(&given, "accept", b"").await;
    let last = ask(&hall, "a/b").await;
    let first = given["job"]["id"].as_u64().unwrap();
    let report = async |indicators: Value| {
        let body = json!({ "indicators": indicators }).to_string();
        assert_eq!(hall.word(&given, "progress", body.as_bytes()).await.status, 200);
    };
    report(json!([{"name": "files", "step": 1, "total": 2}, {"name": "rows", "step": 70}])).await;
    let files = json!({"name": "files", "step": 1, "total": 2, "message": ""});
    let rows = json!({"name": "rows", "step": 70, "message": ""});
    let promise = hall.get(&format!("/api/v1/queries/{last}")).await.json();
    assert_eq!(promise["state"], "blocked");
    assert_eq!(promise["progress"], json!([{"job": first, "query": "a", "progress": [files, rows]}]));
    let steps = hall.get(&format!("/api/v1/queries/{last}/steps")).await.json();
    assert_eq!(steps["items"][0]["progress"], json!([files, rows]));
    // A later report of one leaves the other.
    report(json!([{"name": "files", "step": 2, "total": 2}])).await;
    let promise = hall.get(&format!("/api/v1/queries/{last}")).await.json();
    assert_eq!(promise["progress"], json!([{"job": first, "query": "a", "progress": [rows]}]));
    end(&hall, &given, value("one")).await;
    let promise = hall.get(&format!("/api/v1/queries/{last}")).await.json();
    assert_eq!(promise.get("progress"), None, "a step that has ended has none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_is_asked_for_by_command_or_for_all_steps() {
    let hall = hall().await;
    let refresh = async |query: &str, refresh: &str| {
        hall.post("/api/v1/queries", &json!({"query": query, "refresh": refresh}).to_string()).await
    };
    let id = ask(&hall, "a").await;
    let given = take(&hall, "a").await;
    end(&hall, &given, value("one")).await;
    assert_eq!(ask(&hall, "a").await, id, "it is cached");
    let anew = refresh("a", "*").await;
    assert_eq!((anew.status, &anew.json()["cache"]), (202, &json!("computed")));
    assert_ne!(anew.json()["id"], id);
    assert_eq!(hall.get("/q/a").await.text(), "one", "the stored value answers until there is another");
    assert_eq!(refresh("a", "a").await.json()["cache"], "joined");
    for (wrong, detail) in [("b", "refresh: the query has no step of the command b"), ("B", "refresh: ")] {
        let refused = refresh("a", wrong).await.problem(400, "bad_request");
        assert!(refused.starts_with(detail), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn q10_a_value_that_cannot_leave_its_worker_is_not_acceptable_from_outside() {
    let hall = hall().await;
    let object = r#"{"commands":{"object":{"version":"1","command":{"run":["o"],"serialisable":false}}}}"#;
    let declared = hall.send("PUT", "/api/v1/commands", &hall.worker, &[], object.as_bytes()).await;
    assert_eq!(declared.status, 200, "{declared:?}");
    let body = r#"{"query":"a/object"}"#;
    hall.send("GET", "/q/a/object", &hall.client, &[], b"").await.problem(406, "not_serialisable");
    hall.post("/api/v1/queries", body).await.problem(406, "not_serialisable");
    let jobs = hall.get("/api/v1/jobs").await.json();
    assert!(jobs["items"].as_array().unwrap().is_empty(), "nothing is queued: {jobs}");
    // With a step that makes bytes of it, it is carried into the job of that step.
    ask(&hall, "object/b").await;
    let jobs = hall.get("/api/v1/jobs").await.json();
    let [job] = &jobs["items"].as_array().unwrap()[..] else { panic!("{jobs}") };
    assert_eq!((&job["type"], &job["needs"]), (&json!("q.b"), &json!("commands=b@1, commands=object@1")));
}
