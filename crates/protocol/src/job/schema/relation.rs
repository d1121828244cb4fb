//! Fields that depend on each other. A field that is null counts as missing, as in the checks.

use schemars::Schema;
use serde_json::{Map, Value, json};

use crate::token::{JOIN_USES, TokenKind, TokenRole};

/// A condition on the fields of an object.
fn when(fields: Value, required: &[&str]) -> Value {
    let mut condition = Map::from_iter([("properties".to_owned(), fields)]);
    if !required.is_empty() {
        condition.insert("required".to_owned(), required.into());
    }
    condition.into()
}

/// The type of a field when it is given.
fn given(schema: &Schema, field: &str) -> Value {
    let known = &schema.as_value()["properties"][field];
    match &known["type"] {
        Value::Array(types) => {
            let types: Vec<_> = types.iter().filter(|word| *word != "null").cloned().collect();
            json!({ "type": types })
        }
        Value::String(word) => json!({ "type": word }),
        _ => json!({ "not": { "type": "null" } }),
    }
}

/// At least one of these fields is given.
fn at_least_one(schema: &Schema, fields: &[&str]) -> Vec<Value> {
    let one = |field: &&str| when(json!({ *field: given(schema, field) }), &[*field]);
    fields.iter().map(one).collect()
}

fn insert(schema: &mut Schema, word: &str, value: Vec<Value>) {
    schema.insert(word.to_owned(), value.into());
}

fn fields(schema: &Schema) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(Map::keys).into_iter().flatten().cloned().collect()
}

/// A field that is not given.
fn missing() -> Value {
    json!({ "type": "null" })
}

/// A limit limits something.
pub(crate) fn limit(schema: &mut Schema) {
    let ways = at_least_one(schema, &["concurrency", "rate"]);
    insert(schema, "anyOf", ways);
}

/// An edit changes something; null is a value of the owner.
pub(crate) fn edit_job(schema: &mut Schema) {
    let names = fields(schema);
    let names: Vec<_> = names.iter().map(String::as_str).filter(|name| *name != "owner").collect();
    let mut ways = at_least_one(schema, &names);
    ways.push(json!({ "required": ["owner"] }));
    insert(schema, "anyOf", ways);
}

/// A job that runs at most once has one attempt. A job that belongs to a group without being counted has a group.
pub(crate) fn submit_job(schema: &mut Schema) {
    let attempts =
        json!({ "anyOf": [when(json!({ "max_attempts": { "enum": [1, null] } }), &[]), missing()] });
    let (group, not) = (given(schema, "group"), json!({ "const": false }));
    let conditions = vec![
        json!({ "anyOf": [when(json!({ "at_most_once": not }), &[]), when(json!({ "retry": attempts }), &[])] }),
        json!({ "anyOf": [when(json!({ "attached": not }), &[]), when(json!({ "group": group }), &["group"])] }),
    ];
    insert(schema, "allOf", conditions);
}

/// A sub-job has a name, or a key that makes one.
pub(crate) fn sub_job(schema: &mut Schema) {
    let mut ways = at_least_one(schema, &["call"]);
    ways.push(when(json!({ "job": when(json!({ "key": { "type": "string" } }), &["key"]) }), &[]));
    insert(schema, "anyOf", ways);
}

/// A schedule has either a cron expression or an interval, and only an interval has an anchor. The job of a schedule
/// has no start time and no relations to other jobs.
pub(crate) fn set_schedule(schema: &mut Schema) {
    let ways = vec![
        when(json!({ "cron": missing() }), &[]),
        when(json!({ "every": missing(), "anchor": missing() }), &[]),
    ];
    insert(schema, "anyOf", ways);
    let job = schema.pointer_mut("/properties/job/anyOf/0").and_then(Value::as_object_mut);
    if let Some(job) = job {
        let fields = json!({
            "run_at": missing(), "after": { "maxItems": 0 }, "group": missing(), "copy_of": missing(),
            "attached": { "const": false },
        });
        job.insert("properties".to_owned(), fields);
    }
}

/// The jobs of a new group are in that group.
pub(crate) fn create_group(schema: &mut Schema) {
    let job = schema.pointer_mut("/properties/jobs/items").and_then(Value::as_object_mut);
    if let Some(job) = job {
        job.insert("properties".to_owned(), json!({ "group": missing(), "attached": { "const": false } }));
    }
}

/// An operation has a condition, or is confirmed to concern all jobs.
pub(crate) fn start_operation(schema: &mut Schema) {
    let words = ["state", "type", "key", "queue", "owner", "tag", "q", "created_after", "created_before"];
    let words = words.map(|name| when(json!({ name: { "type": "string" } }), &[name]));
    let mut conditions = words.to_vec();
    conditions.push(when(json!({ "group": { "type": "integer" } }), &["group"]));
    let ways = vec![
        when(json!({ "all": { "const": true } }), &["all"]),
        when(json!({ "filter": { "anyOf": conditions } }), &["filter"]),
    ];
    insert(schema, "anyOf", ways);
}

/// A success has no error, and decides about no next attempt; any other outcome has no value. The next attempt gets
/// other params only with a verdict. What another party goes on with has none of these yet.
pub(crate) fn outcome_report(schema: &mut Schema) {
    let verdict = json!({ "not": { "type": "null" } });
    let failed = |more: Value, required: &[&str]| {
        let mut way = when(
            json!({ "outcome": { "enum": ["failed", "crashed", "timed_out"] }, "value": missing() }),
            required,
        );
        if let (Some(all), Value::Object(more)) = (way["properties"].as_object_mut(), more) {
            all.extend(more);
        }
        way
    };
    let ways = vec![
        when(
            json!({
                "outcome": { "enum": ["succeeded", "skipped"] },
                "error": missing(), "retry": missing(), "params": missing(),
            }),
            &[],
        ),
        failed(json!({ "params": missing() }), &[]),
        failed(json!({ "retry": verdict }), &["retry"]),
        when(json!({ "outcome": { "const": "cancelled" }, "value": missing() }), &[]),
        when(
            json!({
                "outcome": { "const": "started" },
                "value": missing(), "error": missing(), "retry": missing(), "params": missing(),
            }),
            &[],
        ),
    ];
    insert(schema, "anyOf", ways);
}

/// An administrator's token covers all queues. Only a join token has a number of uses. It may have no name, it has the role worker, and without a number of uses
/// it is valid for at most an hour.
pub(crate) fn create_token(schema: &mut Schema) {
    let name = given(schema, "name");
    let plain =
        when(json!({ "name": name, "kind": { "const": TokenKind::Plain }, "uses": missing() }), &["name"]);
    let join = |more: Value, required: &[&str]| {
        let mut way = when(
            json!({ "kind": { "const": TokenKind::Join }, "role": { "const": TokenRole::Worker } }),
            required,
        );
        if let (Some(all), Value::Object(more)) = (way["properties"].as_object_mut(), more) {
            all.extend(more);
        }
        way
    };
    let uses = json!({ "type": "integer", "minimum": 1, "maximum": JOIN_USES });
    let soon = json!({ "anyOf": [super::span(1_000, crate::token::JOIN_MS), missing()] });
    let ways = vec![
        plain,
        join(json!({ "uses": uses }), &["kind", "uses"]),
        join(json!({ "expires_in": soon }), &["kind"]),
    ];
    insert(schema, "anyOf", ways);
    let limited = json!({ "role": { "not": { "const": TokenRole::Admin } } });
    let queues = json!({ "queues": { "maxItems": 0 } });
    insert(schema, "allOf", vec![json!({ "anyOf": [when(limited, &[]), when(queues, &[])] })]);
}
