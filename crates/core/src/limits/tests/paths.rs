//! The way into params, against a reader that builds all of them.

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use serde_json::Value;

use super::super::path::{Step, value};

const NAMES: [&str; 5] = ["a", "b", "x y", "a\"b", "é"];

/// Some of the ways to write a name.
fn name() -> impl Strategy<Value = String> {
    let written = NAMES.map(|name| serde_json::to_string(name).unwrap());
    let odd = ["\"\\u0061\"", "\"\\u00e9\"", "\"\\\\\"", "\"}\"", "\"a\\\"\\u0062\""].map(str::to_owned);
    select(written.into_iter().chain(odd).collect::<Vec<_>>())
}

fn scalar() -> impl Strategy<Value = String> {
    let odd =
        ["null", "true", "false", "0", "-0", "1e2", "100.0", "1E400", "-1.5", "\"\"", "\"\\n{[,:\\\"]}\""];
    prop_oneof![
        select(odd.to_vec())
            .prop_filter("a number that a reader has", |text| { serde_json::from_str::<Value>(text).is_ok() })
            .prop_map(str::to_owned),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{:?}", if number.is_finite() { number } else { 0.5 })),
        "\\PC{0,6}".prop_map(|text| serde_json::to_string(&text).unwrap()),
        name(),
    ]
}

fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(""), 1 => select(vec![" ", "\n\t", "\r\n  "])]
}

/// Documents in which a name may occur twice.
fn document() -> impl Strategy<Value = String> {
    let spaced =
        |inner| (space(), inner, space()).prop_map(|(before, text, after)| format!("{before}{text}{after}"));
    let leaf = spaced(scalar().boxed());
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let lists = vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(",")));
        let member = (space(), name(), space(), inner);
        let member = member.prop_map(|(before, name, after, value)| format!("{before}{name}{after}:{value}"));
        let objects = vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(",")));
        spaced(prop_oneof![1 => lists, 3 => objects].boxed())
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => select(NAMES.to_vec()).prop_map(|name| Step::Name(name.into())),
        1 => (0_u32..3).prop_map(Step::Index),
    ]
}

/// The same by building the document.
fn built(json: &str, steps: &[Step]) -> Option<String> {
    let mut found: &Value = &serde_json::from_str(json).unwrap();
    for step in steps {
        found = match step {
            Step::Name(name) => found.as_object()?.get(&**name)?,
            Step::Index(index) => found.as_array()?.get(*index as usize)?,
        };
    }
    match found {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Some(number.to_string()),
            (_, Some(number)) => Some(number.to_string()),
            _ => number.as_f64().map(|number| number.to_string()),
        },
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_048) })]

    #[test]
    fn what_is_found_on_the_way_is_what_a_whole_reader_finds(
        json in document(),
        steps in vec(step(), 0..4),
    ) {
        prop_assert_eq!(value(&json, &steps).map(String::from), built(&json, &steps), "{}", json);
    }

    #[test]
    fn no_text_breaks_the_way(json in "[\"\\\\{}\\[\\]:, a1é]{0,40}", steps in vec(step(), 0..4)) {
        let _ = value(&json, &steps);
    }
}

#[test]
fn the_ways_of_the_property_are_not_all_empty() {
    let json = r#"{"b":[1,{"a":1,"\u0061":{"x y":"no"},"a\"b":2}],"a":" 7 ","a":[0,{"a\"b":"it}"}]}"#;
    let steps = [Step::Name("a".into()), Step::Index(1), Step::Name("a\"b".into())];
    assert_eq!(value(json, &steps).as_deref(), Some("it}"));
}
