//! Parameters in paths, queries and headers, with the formats that the server accepts.

use std::borrow::Cow;

use jobhall_blobs::{NAME_BYTES, SEGMENT_BYTES};
use jobhall_protocol::schema;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Value, json};

use super::{Part, part};

/// A header that a request may have, or must have.
#[derive(Clone, Copy)]
pub(super) struct Header {
    name: &'static str,
    about: &'static str,
    schema: Part,
    required: bool,
}

impl Header {
    pub(super) const fn new<T: JsonSchema>(name: &'static str, about: &'static str) -> Header {
        Header { name, about, schema: part::<T>, required: false }
    }

    pub(super) const fn required(self) -> Header {
        Header { required: true, ..self }
    }

    pub(super) fn described(&self, schemas: &mut SchemaGenerator) -> Value {
        let Header { name, about, schema, required } = *self;
        json!({
            "name": name, "in": "header", "description": about, "required": required, "schema": schema(schemas),
        })
    }
}

/// The name of an artifact: a relative path whose segments are file names on every system.
pub(in crate::routes) struct ArtifactPath;

impl JsonSchema for ArtifactPath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ArtifactPath".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        const HARMFUL: &str =
            "\\x00-\\x1f\\x7f-\\x9f/\\\\:*?\"<>|\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff";
        let between = SEGMENT_BYTES - 2;
        let long = format!("[^ \\-{HARMFUL}][^{HARMFUL}]{{0,{between}}}[^ .{HARMFUL}]");
        let segment = format!("(?:{long}|[^ .\\-{HARMFUL}])");
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": NAME_BYTES,
            "pattern": format!("^{segment}(?:/{segment})*$"),
            "examples": ["report/index.html"],
        })
    }
}

/// Path parameters, by the name and the part before it.
pub(super) fn path_parameters(path: &str, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let parts: Vec<&str> = path.split('/').collect();
    let named = parts.windows(2).filter_map(|pair| {
        let name = pair[1].strip_prefix('{')?.strip_suffix('}')?.trim_start_matches('*');
        let schema = path_parameter(pair[0], name)(schemas);
        Some(json!({ "name": name, "in": "path", "required": true, "schema": schema }))
    });
    named.collect()
}

fn path_parameter(before: &str, name: &str) -> Part {
    match (before, name) {
        ("jobs" | "groups" | "queries", "id") | ("jobs" | "queries", "job") => part::<schema::JobId>,
        ("operations", "id") => part::<u64>,
        ("attempts", "id") => part::<schema::AttemptId>,
        ("inputs", "n") => part::<schema::WhichInput>,
        ("artifacts", _) => part::<ArtifactPath>,
        ("queues" | "workers" | "types" | "schedules", "name") | (_, "type") => part::<schema::Name>,
        ("values", "identity") => part::<schema::QueryInput>,
        ("sources" | "recipes", _) => part::<schema::SourceKey>,
        ("q" | "pins", "query") => part::<schema::QueryPath>,
        (_, "key") => part::<schema::Key>,
        _ => part::<String>,
    }
}

/// Each field of the query type is a parameter; its doc comment is the description.
pub(super) fn query_parameters(query: Part, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let reference = query(schemas);
    let name = reference.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    let whole = name.and_then(|name| schemas.definitions_mut().remove(name)).unwrap_or_default();
    let fields = whole.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required = whole.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let fields = fields.into_iter().map(|(name, mut schema)| {
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let schema = without_null(schema);
        let mut described = json!({ "name": name, "in": "query", "description": about, "schema": schema });
        if required.contains(&Value::from(name)) {
            described["required"] = Value::from(true);
        }
        described
    });
    fields.collect()
}

/// A query has no null: a parameter is given or missing.
fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema.get_mut("type").filter(|types| types.is_array()) {
        let given = types.as_array().into_iter().flatten().find(|word| *word != "null");
        *types = given.cloned().unwrap_or_default();
    }
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        let given = branches.iter().find(|branch| branch["type"] != "null");
        return given.cloned().unwrap_or_default();
    }
    schema
}
