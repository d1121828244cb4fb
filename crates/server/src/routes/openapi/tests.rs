use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn built() -> Value {
    document(rows::all())
}

/// Visits every value in the document with its path.
fn walk<'a>(value: &'a Value, path: &str, seen: &mut dyn FnMut(&str, &'a Value)) {
    seen(path, value);
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| walk(field, &format!("{path}/{name}"), seen));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| walk(item, &format!("{path}/{at}"), seen));
        }
        _ => {}
    }
}

/// Method, path and description of every operation.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap();
        methods.iter().map(|(method, described)| (method.to_uppercase(), path.clone(), described))
    });
    each.collect()
}

#[test]
fn every_route_has_a_row_and_every_row_a_route() {
    let routes: BTreeSet<_> = crate::routes::all().iter().map(|route| (route.method, route.path)).collect();
    let rows: Vec<_> = rows::all().iter().map(|row| (row.method, row.path)).collect();
    let once: BTreeSet<_> = rows.iter().copied().collect();
    assert_eq!(routes, once);
    assert_eq!(rows.len(), once.len(), "each once");
}

#[test]
fn the_golden_file_is_what_the_hall_serves() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/openapi.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text()).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(
        golden == text(),
        "crates/protocol/openapi.json differs: run with UPDATE=1 and look at the change"
    );
}

#[test]
fn every_reference_leads_somewhere_and_nothing_is_left_over() {
    let document = built();
    let mut referred = BTreeSet::new();
    walk(&document, "", &mut |path, value| {
        if let Some(to) = value.get("$ref").and_then(Value::as_str) {
            let target = to.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
            assert!(target.is_some(), "{path} refers to {to}, which does not exist");
            referred.insert(to.to_owned());
        }
    });
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let known = schemas.keys().map(|name| format!("#/components/schemas/{name}"));
    assert_eq!(known.collect::<BTreeSet<_>>(), referred);
}

#[test]
fn every_operation_is_whole() {
    let document = built();
    let mut ids = BTreeSet::new();
    for (method, path, described) in operations(&document) {
        let id = described["operationId"].as_str().unwrap_or_default();
        assert!(!id.is_empty() && ids.insert(id.to_owned()), "{method} {path}: the id {id:?}");
        assert!(!described["summary"].as_str().unwrap_or_default().is_empty(), "{id} has no summary");
        let parameters = described["parameters"].as_array().unwrap();
        let declared: BTreeSet<_> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let braced: BTreeSet<_> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        assert_eq!(declared, braced, "{id}");
        for parameter in parameters {
            assert!(parameter["schema"].is_object(), "{id}: {parameter}");
            let query = parameter["in"] == "query";
            assert!(!query || parameter["description"].is_string(), "{id}: {parameter}");
        }
        let names: BTreeSet<_> =
            parameters.iter().map(|one| (one["in"].to_string(), one["name"].to_string())).collect();
        assert_eq!(names.len(), parameters.len(), "{id} declares a parameter twice");
        check_responses(id, described["responses"].as_object().unwrap());
    }
}

fn check_responses(id: &str, responses: &Map<String, Value>) {
    assert!(
        responses.keys().any(|status| status.starts_with(['1', '2']) || status == "303"),
        "{id} has no success response"
    );
    for (status, response) in responses {
        assert!(!response["description"].as_str().unwrap_or_default().is_empty(), "{id} {status}");
        let empty = ["101", "204", "303", "304"].contains(&status.as_str());
        let content = response["content"].as_object();
        assert_eq!(content.is_none(), empty, "{id} {status}");
        for (media, body) in content.into_iter().flatten() {
            assert!(body["schema"].is_object() || body["schema"] == true, "{id} {status} {media}");
            assert_eq!(media.contains("problem"), status.starts_with(['4', '5']), "{id} {status}");
        }
    }
}

#[test]
fn what_needs_a_token_says_so() {
    let document = built();
    for (method, path, described) in operations(&document) {
        let open = described["security"] == json!([]);
        assert_eq!(open, access(&method, &path) == Some(Access::Open), "{method} {path}");
        assert_eq!(described["x-roles"].is_array(), !open, "{method} {path}");
        // The page is open, but the code in a link may be invalid.
        let challenges = !open || path == "/";
        assert_eq!(described["responses"].get("401").is_some(), challenges, "{method} {path}");
    }
}

#[test]
fn requests_refuse_unknown_fields_in_the_document_too() {
    let document = built();
    for (method, path, described) in operations(&document) {
        let schema = &described["requestBody"]["content"]["application/json"]["schema"];
        let Some(name) = schema["$ref"].as_str() else { continue };
        let whole = document.pointer(&name[1..]).unwrap();
        let any = whole["anyOf"].is_array();
        assert!(any || whole["additionalProperties"] == false, "{method} {path} takes anything");
    }
}

/// Every bound that a client can exceed: in a request each text has a longest length, a format or a pattern, and each
/// number a largest value.
#[test]
fn requests_have_no_text_or_number_without_bounds() {
    let document = built();
    let mut requests = BTreeSet::new();
    for (_, _, described) in operations(&document) {
        for parameter in described["parameters"].as_array().unwrap() {
            check_bounds(&document, &parameter["schema"], &parameter["name"].to_string(), &mut requests);
        }
        let body = &described["requestBody"]["content"]["application/json"]["schema"];
        check_bounds(&document, body, &described["operationId"].to_string(), &mut requests);
    }
}

fn check_bounds(document: &Value, schema: &Value, at: &str, seen: &mut BTreeSet<String>) {
    if !schema.is_object() {
        return;
    }
    if let Some(name) = schema["$ref"].as_str() {
        if seen.insert(name.to_owned()) {
            check_bounds(document, document.pointer(&name[1..]).unwrap(), name, seen);
        }
        return;
    }
    let is = |word: &str| {
        schema["type"] == word || schema["type"].as_array().is_some_and(|types| types.contains(&word.into()))
    };
    let has = |words: &[&str]| words.iter().any(|word| !schema[word].is_null());
    let is_token_id = at == "\"id\"";
    assert!(
        !is("string") || is_token_id || has(&["maxLength", "pattern", "format", "enum", "const"]),
        "{at}: {schema}"
    );
    assert!(!is("integer") || has(&["enum"]) || has(&["minimum"]) && has(&["maximum"]), "{at}: {schema}");
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        check_bounds(document, field, &format!("{at}.{name}"), seen);
    }
    check_bounds(document, &schema["items"], at, seen);
    for way in ["anyOf", "oneOf"].iter().flat_map(|word| schema[word].as_array()).flatten() {
        // The conditions among fields repeat their types only.
        if way["properties"].is_null() {
            check_bounds(document, way, at, seen);
        }
    }
}

#[test]
fn the_bounds_that_are_written_twice_are_equal() {
    assert_eq!(jobhall_protocol::SESSION_MS, jobhall_engine::Config::default().lease_ms);
}
