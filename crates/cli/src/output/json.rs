//! JSON for programs. Numbers and strings of params are printed as they were written.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::table::Table;
use crate::suggest;

/// Fields that are omitted if empty; printed as null if requested.
const OPTIONAL: [&str; 3] = ["result", "attempts", "origin"];

/// A value: whole, or reduced to the requested fields in the requested order.
#[derive(Debug)]
pub enum Picked {
    /// Not an object, or no fields were requested.
    Whole(Box<RawValue>),
    Fields(Vec<(String, Box<RawValue>)>),
}

impl Serialize for Picked {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Picked::Whole(value) => value.serialize(serializer),
            Picked::Fields(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}

fn broken(error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Unexpected, format!("failed to write JSON: {error}"))
}

/// The requested fields of a value; all if none are requested.
pub fn pick<T: Serialize>(thing: &T, fields: &[String]) -> Outcome<Picked> {
    let raw = serde_json::value::to_raw_value(thing).map_err(|error| broken(&error))?;
    if fields.is_empty() {
        return Ok(Picked::Whole(raw));
    }
    let all: std::collections::BTreeMap<String, Box<RawValue>> = serde_json::from_str(raw.get())
        .map_err(|_| Failure::usage("--fields requires output with fields"))?;
    let one = |name: &String| match all.get(name) {
        Some(value) => Ok((name.clone(), value.clone())),
        None if OPTIONAL.contains(&name.as_str()) => Ok((name.clone(), RawValue::NULL.to_owned())),
        None => Err(unknown(name, &all.keys().map(String::as_str).collect::<Vec<_>>())),
    };
    fields.iter().map(one).collect::<Outcome<_>>().map(Picked::Fields)
}

fn unknown(name: &str, known: &[&str]) -> Failure {
    let hint = suggest::hint(name, known.iter().copied());
    Failure::usage(format!("there is no field {name:?}{hint}"))
        .fix(format!("known fields: {}", known.join(", ")))
}

/// JSON with line breaks.
pub fn pretty(thing: &impl Serialize) -> Outcome<String> {
    serde_json::to_string_pretty(thing).map_err(|error| broken(&error))
}

/// JSON on one line.
pub fn compact(thing: &impl Serialize) -> Outcome<String> {
    serde_json::to_string(thing).map_err(|error| broken(&error))
}

/// A list as one document.
pub fn document<T: Serialize>(things: &[T], fields: &[String]) -> Outcome<String> {
    let picked = things.iter().map(|thing| pick(thing, fields)).collect::<Outcome<Vec<_>>>()?;
    pretty(&picked)
}

/// A value as text: strings without quotes, null as an empty text.
fn plain(value: &RawValue) -> String {
    match serde_json::from_str::<String>(value.get()) {
        Ok(text) => text,
        Err(_) if value.get() == "null" => String::new(),
        Err(_) => value.get().to_owned(),
    }
}

/// The values of the fields, one per line.
pub fn lines(picked: &Picked) -> String {
    match picked {
        Picked::Whole(value) => plain(value),
        Picked::Fields(fields) => fields.iter().map(|(_, value)| plain(value)).collect::<Vec<_>>().join("\n"),
    }
}

/// A list as a table with these fields as columns.
pub fn table<T: Serialize>(things: &[T], fields: &[String]) -> Outcome<Table> {
    let heading = |name: &String| match name.as_str() {
        "id" | "state" => name.to_uppercase(),
        _ => format!("~{}", name.to_uppercase()),
    };
    let headings: Vec<String> = fields.iter().map(heading).collect();
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for thing in things {
        if let Picked::Fields(values) = pick(thing, fields)? {
            table.row(values.iter().map(|(_, value)| plain(value).into()));
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn fields_come_in_the_order_asked_for() {
        let thing = json!({"id": 1, "state": "queued", "key": null});
        let picked = pick(&thing, &fields(&["state", "id"])).unwrap();
        assert_eq!(compact(&picked).unwrap(), r#"{"state":"queued","id":1}"#);
        assert_eq!(lines(&picked), "queued\n1");
        let picked = pick(&thing, &fields(&["id", "result"])).unwrap();
        assert_eq!(compact(&picked).unwrap(), r#"{"id":1,"result":null}"#, "a job without a result has none");
    }

    #[test]
    fn an_unknown_field_gets_a_suggestion() {
        let failure = pick(&json!({"id": 1, "state": "queued"}), &fields(&["stat"])).unwrap_err();
        assert_eq!(failure.what, "there is no field \"stat\"; did you mean \"state\"?");
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[test]
    fn numbers_stay_as_they_were_written() {
        let raw: Box<RawValue> = serde_json::from_str("12345678901234567890.10").unwrap();
        assert_eq!(compact(&pick(&raw, &[]).unwrap()).unwrap(), "12345678901234567890.10");
    }

    #[test]
    fn a_list_is_one_document() {
        let text = document(&[json!({"id": 1}), json!({"id": 2})], &[]).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json!([{"id": 1}, {"id": 2}]));
        assert_eq!(document::<u8>(&[], &[]).unwrap(), "[]");
    }
}
