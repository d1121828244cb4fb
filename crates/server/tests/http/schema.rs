//! Validates real responses against the schemas of the OpenAPI document.

use serde_json::{Value, json};

use crate::server::{Reply, TestServer};

/// The subset of JSON Schema that the document uses. The check fails on an unknown keyword.
struct Document(Value);

/// Keywords that describe and do not restrict.
const TALK: [&str; 8] =
    ["description", "default", "format", "examples", "title", "pattern", "x-minimum-ms", "x-maximum-ms"];

impl Document {
    fn read() -> Document {
        Document(serde_json::from_str(include_str!("../../../protocol/openapi.json")).unwrap())
    }

    /// All violations of the schema by a value.
    fn faults(&self, value: &Value, schema: &Value, at: &str) -> Vec<String> {
        let Some(words) = schema.as_object() else { return Vec::new() };
        words.iter().flat_map(|(word, rule)| self.fault(value, word, rule, schema, at)).collect()
    }

    fn fault(&self, value: &Value, word: &str, rule: &Value, schema: &Value, at: &str) -> Vec<String> {
        let any = |rules: &Value| {
            let rules = rules.as_array().unwrap();
            rules.iter().any(|rule| self.faults(value, rule, at).is_empty())
        };
        let wrong = |wrong: bool| {
            if wrong { vec![format!("{at}: {value} is not {word} {rule}")] } else { Vec::new() }
        };
        match word {
            "$ref" => {
                let target = self.0.pointer(&rule.as_str().unwrap()[1..]).expect("the reference exists");
                self.faults(value, target, at)
            }
            "type" => wrong(!types(rule).contains(&kind(value))),
            "enum" => wrong(!rule.as_array().unwrap().contains(value)),
            "const" => wrong(value != rule),
            "minimum" => wrong(value.as_f64().is_some_and(|given| given < rule.as_f64().unwrap())),
            "maximum" => wrong(value.as_f64().is_some_and(|given| given > rule.as_f64().unwrap())),
            "minLength" => {
                wrong(value.as_str().is_some_and(|text| (text.chars().count() as u64) < number(rule)))
            }
            "maxLength" => {
                wrong(value.as_str().is_some_and(|text| text.chars().count() as u64 > number(rule)))
            }
            "maxItems" => wrong(value.as_array().is_some_and(|items| items.len() as u64 > number(rule))),
            "minItems" => wrong(value.as_array().is_some_and(|items| (items.len() as u64) < number(rule))),
            "not" => wrong(self.faults(value, rule, at).is_empty()),
            "allOf" => {
                rule.as_array().unwrap().iter().flat_map(|rule| self.faults(value, rule, at)).collect()
            }
            "anyOf" | "oneOf" => wrong(!any(rule)),
            "required" => {
                let fields = rule.as_array().unwrap().iter().map(|field| field.as_str().unwrap());
                let missing = fields.filter(|field| value.is_object() && value.get(field).is_none());
                missing.map(|field| format!("{at}: {field} is missing")).collect()
            }
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                let known = fields.filter_map(|(name, field)| Some((name, field, rule.get(name)?)));
                known
                    .flat_map(|(name, field, rule)| self.faults(field, rule, &format!("{at}/{name}")))
                    .collect()
            }
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                items.flat_map(|(n, item)| self.faults(item, rule, &format!("{at}/{n}"))).collect()
            }
            "additionalProperties" => {
                let fields = value.as_object().into_iter().flatten();
                let strange =
                    fields.filter(|(name, _)| *rule == false && schema["properties"].get(name).is_none());
                strange.map(|(name, _)| format!("{at}: {name} is not in the schema")).collect()
            }
            talk if TALK.contains(&talk) => Vec::new(),
            other => vec![format!("{at}: this check does not know the word {other}")],
        }
    }

    /// Checks that the document lists the response for this route.
    fn check(&self, method: &str, route: &str, reply: &Reply) {
        let described = &self.0["paths"][route][method.to_lowercase()];
        let response = &described["responses"][reply.status.to_string()];
        let media = reply.header("content-type").unwrap().split(';').next().unwrap();
        let schema = &response["content"][media]["schema"];
        assert!(!schema.is_null(), "{method} {route}: {} {media} is not in the document", reply.status);
        let faults = self.faults(&reply.json(), schema, "");
        assert!(faults.is_empty(), "{method} {route}: {}", faults.join("\n"));
    }
}

fn number(rule: &Value) -> u64 {
    rule.as_u64().unwrap()
}

fn types(rule: &Value) -> Vec<&str> {
    match rule {
        Value::String(one) => vec![one],
        many => many.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let document = Document::read();
    let schema = json!({"$ref": "#/components/schemas/Submitted"});
    let faults = |value: Value| document.faults(&value, &schema, "").len();
    assert_eq!(
        faults(json!({"id": 1, "disposition": "created", "more": 1})),
        0,
        "responses may have more fields"
    );
    assert_eq!(faults(json!({"id": -1, "disposition": "created"})), 1);
    assert_eq!(faults(json!({"id": "1"})), 2);
    assert_eq!(faults(json!([])), 1);
    let request = json!({"$ref": "#/components/schemas/SubmitJob"});
    assert_eq!(document.faults(&json!({"type": "a", "tpye": 1}), &request, "").len(), 1);
    assert_eq!(document.faults(&json!({"on_duplicate": "x"}), &request, "").len(), 2);
    assert_eq!(document.faults(&json!({"type": ""}), &request, "").len(), 1, "shorter than a name");
    assert_eq!(document.faults(&json!({"type": "x".repeat(129)}), &request, "").len(), 1);
    let once = json!({"type": "a", "at_most_once": true, "retry": {"max_attempts": 2}});
    assert_eq!(document.faults(&once, &request, "").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn real_answers_are_as_the_document_says() {
    let (hall, document) = (TestServer::start().await, Document::read());
    let get = async |route: &str, path: &str| document.check("GET", route, &hall.get(path).await);
    let job = r#"{"type":"a","key":"k","params":{"n":[1]},"retry":{"max_attempts":2,"delay":"0s","on":["failed"]}}"#;
    document.check("POST", "/api/v1/jobs", &hall.post("/api/v1/jobs", job).await);
    document.check("POST", "/api/v1/jobs", &hall.post("/api/v1/jobs", &format!("[{job}]")).await);
    document.check("POST", "/api/v1/jobs", &hall.post("/api/v1/jobs", job).await);
    document.check("POST", "/api/v1/jobs", &hall.post("/api/v1/jobs", "{}").await);
    get("/api/v1/jobs/{id}/explain", "/api/v1/jobs/1/explain").await;
    for (outcome, end) in [("failed", "error"), ("succeeded", "value")] {
        let poll = hall.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":20}"#).await;
        document.check("POST", "/api/v1/vacancies", &poll);
        let attempt = poll.json()["attempts"][0].clone();
        let held = json!({"attempts": [{"id": attempt["id"], "lease": attempt["lease"]}, {"id": "9-9", "lease": "0".repeat(32)}]});
        document.check("POST", "/api/v1/renewals", &hall.work("/api/v1/renewals", &held.to_string()).await);
        let end =
            json!({"outcome": outcome, end: {"reason": "r", "explanation": "e", "data": [1]}}).to_string();
        for (verb, body) in [
            ("accept", ""),
            ("progress", r#"{"indicators":[{"name":"n","step":1,"total":2,"message":"m"}]}"#),
            ("log?offset=0", "hello"),
            ("outcome", end.as_str()),
        ] {
            get("/api/v1/jobs/{id}", "/api/v1/jobs/1").await;
            get("/api/v1/workers", "/api/v1/workers").await;
            let route = format!("/api/v1/attempts/{{id}}/{}", verb.split('?').next().unwrap());
            document.check("POST", &route, &hall.word(&attempt, verb, body.as_bytes()).await);
        }
    }
    get("/api/v1/jobs/{id}", "/api/v1/jobs/1").await;
    get("/api/v1/jobs/{id}/result", "/api/v1/jobs/1/result").await;
    get("/api/v1/jobs/{id}/explain", "/api/v1/jobs/1/explain").await;
    document.check("POST", "/api/v1/jobs/{id}/retry", &hall.post("/api/v1/jobs/1/retry", "").await);
    document.check("POST", "/api/v1/jobs/{id}/cancel", &hall.post("/api/v1/jobs/2/cancel", "").await);
    get("/api/v1/jobs", "/api/v1/jobs?limit=1").await;
    let set = hall.send("PUT", "/api/v1/types/b", &hall.admin, &[], br#"{"keep_ms":7}"#).await;
    document.check("PUT", "/api/v1/types/{name}", &set);
    get("/api/v1/types", "/api/v1/types").await;
    get("/api/v1/types/{name}", "/api/v1/types/b").await;
    get("/api/v1/types/{name}", "/api/v1/types/c").await;
    let body = br#"{"cron":"@daily","job":{"type":"t","windows":"22:00-06:00"}}"#;
    let set = hall.send("PUT", "/api/v1/schedules/s", &hall.admin, &[], body).await;
    document.check("PUT", "/api/v1/schedules/{name}", &set);
    get("/api/v1/schedules", "/api/v1/schedules").await;
    get("/api/v1/schedules/{name}", "/api/v1/schedules/s").await;
    get("/api/v1/schedules/{name}", "/api/v1/schedules/c").await;
    get("/api/v1/schedules/{name}/ticks", "/api/v1/schedules/s/ticks").await;
    let run = hall.post("/api/v1/schedules/s/run", "").await;
    document.check("POST", "/api/v1/schedules/{name}/run", &run);
    let set =
        hall.send("PUT", "/api/v1/queues/b", &hall.admin, &[], br#"{"limits":[{"concurrency":1}]}"#).await;
    document.check("PUT", "/api/v1/queues/{name}", &set);
    get("/api/v1/queues", "/api/v1/queues").await;
    get("/api/v1/queues/{name}", "/api/v1/queues/b").await;
    let waiting = hall.submit(r#"{"type":"c","queue":"b","owner":"o","tags":["t"]}"#).await;
    for verb in ["hold", "release", "run_now"] {
        let reply = hall.post(&format!("/api/v1/jobs/{waiting}/{verb}"), "").await;
        document.check("POST", &format!("/api/v1/jobs/{{id}}/{verb}"), &reply);
    }
    let path = format!("/api/v1/jobs/{waiting}");
    let edit = hall.send("PATCH", &path, &hall.client, &[], br#"{"priority":3}"#).await;
    document.check("PATCH", "/api/v1/jobs/{id}", &edit);
    let operation =
        hall.post("/api/v1/operations", r#"{"verb":"cancel","filter":{"state":"queued","q":"x"}}"#).await;
    document.check("POST", "/api/v1/operations", &operation);
    get("/api/v1/operations", "/api/v1/operations").await;
    get("/api/v1/operations/{id}", "/api/v1/operations/1").await;
    get("/openapi.json", "/openapi.json").await;
    assert!(hall.get("/openapi.json").await.json() == document.0, "the golden file differs");
}
