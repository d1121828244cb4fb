//! The OpenAPI 3.1 document, generated from the wire types and one row per route.
//!
//! Properties shared by many routes are derived here: roles come from `access`, statuses from `error`, path
//! parameters from the path, and every route includes the problems of the guard.

mod bodies;
mod headers;
mod parameters;
mod rows;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jobhall_protocol::schema::bound_integers;
use jobhall_protocol::{Code, Problem};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::auth::access::{Access, access};
use crate::error::{self, Answer};

pub(super) use parameters::ArtifactPath;
use parameters::{Header, path_parameters, query_parameters};

/// Generates the schema of a type and collects the types that it references.
type Part = fn(&mut SchemaGenerator) -> Schema;

fn part<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Schema {
    schemas.subschema_for::<T>()
}

pub(super) async fn openapi() -> Answer {
    static TEXT: OnceLock<String> = OnceLock::new();
    Ok(error::body("application/json", TEXT.get_or_init(text).as_str()))
}

/// The document as formatted in the golden file.
fn text() -> String {
    format!("{:#}\n", document(rows::all()))
}

/// The description of one route.
struct Row {
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    query: Option<Part>,
    /// Headers that a request may have.
    headers: &'static [Header],
    body: Option<(&'static str, Part)>,
    /// Whether the body may be missing.
    body_optional: bool,
    answers: Vec<Good>,
    problems: &'static [Code],
}

/// A successful response.
struct Good {
    status: u16,
    about: &'static str,
    content: Option<(&'static str, Part)>,
    headers: &'static [(&'static str, &'static str)],
}

const JSON: &str = "application/json";

impl Row {
    fn new(method: &'static str, path: &'static str, id: &'static str, summary: &'static str) -> Row {
        let (query, body, answers) = (None, None, Vec::new());
        let (headers, problems, body_optional) = (&[], &[], false);
        Row { method, path, id, summary, query, headers, body, body_optional, answers, problems }
    }

    /// Describes the query parameters with the fields of this type.
    fn query<T: JsonSchema>(self) -> Row {
        Row { query: Some(part::<T>), ..self }
    }

    fn headers(self, headers: &'static [Header]) -> Row {
        Row { headers, ..self }
    }

    /// Describes a required JSON body of this type.
    fn takes<T: JsonSchema>(self) -> Row {
        self.takes_as::<T>(JSON)
    }

    /// Describes an optional JSON body of this type.
    fn may_take<T: JsonSchema>(self) -> Row {
        Row { body_optional: true, ..self.takes::<T>() }
    }

    fn takes_as<T: JsonSchema>(self, media: &'static str) -> Row {
        Row { body: Some((media, part::<T>)), ..self }
    }

    /// Describes a 200 response with a JSON body of this type.
    fn gives<T: JsonSchema>(self, about: &'static str) -> Row {
        self.gives_as::<T>(JSON, about)
    }

    fn gives_as<T: JsonSchema>(self, media: &'static str, about: &'static str) -> Row {
        self.answers_with(200, about, Some((media, part::<T>)))
    }

    /// Describes a response with this status.
    fn answers_with(
        mut self,
        status: u16,
        about: &'static str,
        content: Option<(&'static str, Part)>,
    ) -> Row {
        self.answers.push(Good { status, about, content, headers: &[] });
        self
    }

    /// Describes headers of the most recently described response.
    fn telling(mut self, headers: &'static [(&'static str, &'static str)]) -> Row {
        if let Some(last) = self.answers.last_mut() {
            last.headers = headers;
        }
        self
    }

    /// Describes problems that not every route has.
    fn problems(self, problems: &'static [Code]) -> Row {
        Row { problems, ..self }
    }

    /// All problems of this route.
    fn all_problems(&self) -> Vec<Code> {
        let mut codes = vec![Code::Misdirected, Code::Internal];
        if access(self.method, self.path) != Some(Access::Open) {
            codes.extend([Code::Unauthorized, Code::Forbidden, Code::TooManyRequests]);
        }
        if self.query.is_some() || self.path.contains('{') || !self.headers.is_empty() {
            codes.push(Code::BadRequest);
        }
        if self.body.is_some() {
            codes.extend([Code::BadRequest, Code::TooLarge, Code::Timeout]);
        }
        codes.extend(self.problems);
        codes
    }
}

fn document(rows: Vec<Row>) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for row in rows {
        let described = operation(&row, &mut schemas);
        // OpenAPI has no notation for a path parameter that may contain slashes.
        paths.entry(row.path.replace("{*", "{")).or_default().insert(row.method.to_lowercase(), described);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Jobhall",
            "summary": "HTTP API of the Jobhall job engine",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "API token: jh_…" },
            },
        },
    });
    bound_integers(&mut document);
    document
}

fn operation(row: &Row, schemas: &mut SchemaGenerator) -> Value {
    let mut parameters = path_parameters(row.path, schemas);
    parameters.extend(row.query.map(|query| query_parameters(query, schemas)).unwrap_or_default());
    parameters.extend(row.headers.iter().map(|header| header.described(schemas)));
    let mut responses = Map::new();
    for good in &row.answers {
        responses.insert(good.status.to_string(), answer(good, schemas));
    }
    responses.extend(problems(&row.all_problems(), schemas));
    let mut described = json!({
        "operationId": row.id,
        "summary": row.summary,
        "tags": [tag(row.path)],
        "parameters": parameters,
        "responses": responses,
    });
    if let Some((media, body)) = row.body {
        let schema = body(schemas);
        described["requestBody"] =
            json!({ "required": !row.body_optional, "content": { media: { "schema": schema } } });
    }
    match access(row.method, row.path).map(Access::roles) {
        Some(Some(roles)) => {
            described["x-roles"] = roles.iter().map(|role| format!("{role:?}").to_lowercase()).collect();
        }
        Some(None) => described["security"] = json!([]),
        None => {}
    }
    described
}

/// The resource name of a path.
fn tag(path: &str) -> &str {
    let path = path.strip_prefix(jobhall_protocol::API).unwrap_or("/hall");
    path.trim_start_matches('/').split('/').next().unwrap_or(path)
}

fn answer(good: &Good, schemas: &mut SchemaGenerator) -> Value {
    let mut described = json!({ "description": good.about });
    if let Some((media, content)) = good.content {
        described["content"] = json!({ media: { "schema": content(schemas) } });
    }
    if !good.headers.is_empty() {
        let headers = good.headers.iter().map(|(name, about)| {
            ((*name).to_owned(), json!({ "description": about, "schema": { "type": "string" } }))
        });
        described["headers"] = Value::Object(headers.collect());
    }
    described
}

/// Problems by status. A status with several codes lists them all.
fn problems(codes: &[Code], schemas: &mut SchemaGenerator) -> Vec<(String, Value)> {
    let mut by_status: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for code in codes {
        let (words, word) = (by_status.entry(error::status(*code)).or_default(), error::word(*code));
        if !words.contains(&word) {
            words.push(word);
        }
    }
    let schema = schemas.subschema_for::<Problem>();
    let described = by_status.into_iter().map(|(status, words)| {
        let content = json!({ "application/problem+json": { "schema": schema.clone() } });
        (status.to_string(), json!({ "description": words.join(" or "), "content": content }))
    });
    described.collect()
}

#[cfg(test)]
mod tests;
