//! Key expressions: what they mean, and every kind of mistake.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use proptest::test_runner::TestCaseError;

use super::super::{EXPRESSION_BYTES_MAX, KeyExpression, PATH_MAX, VALUE_BYTES_MAX};
use crate::{GroupId, JobSpec, Json, Key, Owner, QueueName, ScheduleName, Tag, Time, TypeName};

fn spec(params: &str) -> JobSpec {
    let (job_type, queue) = (TypeName::new("render").unwrap(), QueueName::new("fast").unwrap());
    JobSpec {
        key: Some(Key::new("acme/7/a").unwrap()),
        params: Json::params(params).unwrap(),
        owner: Some(Owner::new("Ann Other").unwrap()),
        group: Some(GroupId::new(9).unwrap()),
        schedule: Some(ScheduleName::new("nightly").unwrap()),
        tags: ["region=eu", "regional=1", "tier:gold"].map(|tag| Tag::new(tag).unwrap()).into(),
        ..JobSpec::plain(job_type, queue, Time::EPOCH)
    }
}

fn value(expression: &str, params: &str) -> Option<String> {
    KeyExpression::parse(expression).unwrap().value(&spec(params)).map(Into::into)
}

#[test]
fn names_of_a_job() {
    for (expression, expected) in [
        ("key", "acme/7/a"),
        ("key.before(\"/\")", "acme"),
        ("key.before(\"+\")", "acme/7/a"),
        ("type", "render"),
        ("queue", "fast"),
        ("owner", "Ann Other"),
        ("owner.before(\" \")", "Ann"),
        ("group", "9"),
        ("schedule", "nightly"),
        ("tag:region", "eu"),
        ("tag:tier", "gold"),
    ] {
        assert_eq!(value(expression, "{}").as_deref(), Some(expected), "{expression}");
    }
    let spec = spec("{}");
    let without = JobSpec::plain(spec.job_type, spec.queue, Time::EPOCH);
    for expression in ["key", "owner", "group", "schedule", "tag:region", "tag:r"] {
        assert_eq!(KeyExpression::parse(expression).unwrap().value(&without), None, "{expression}");
    }
}

#[test]
fn values_in_params() {
    let params = r#"{"customer":{"id":17,"vip":true,"name":"A/B"},"odd name":["x",{"y":-1.5}],"none":null,
        "a\"b":"quoted","twice":1,"twice":2,"text":"17"}"#;
    for (expression, expected) in [
        ("params.customer.id", Some("17")),
        ("params.text", Some("17")),
        ("params.customer.vip", Some("true")),
        ("params.customer.name", Some("A/B")),
        ("params.customer.name.before(\"/\")", Some("A")),
        ("params[\"odd name\"][0]", Some("x")),
        ("params[\"odd name\"][1].y", Some("-1.5")),
        ("params[\"a\\\"b\"]", Some("quoted")),
        ("params.twice", Some("2")),
        ("params.none", None),
        ("params.customer", None),
        ("params[\"odd name\"]", None),
        ("params[\"odd name\"][2]", None),
        ("params.customer.id.more", None),
        ("params[0]", None),
        ("params.missing.deep", None),
    ] {
        assert_eq!(value(expression, params).as_deref(), expected, "{expression}");
    }
    assert_eq!(value("params[1]", "[1,[2],3]"), None);
    assert_eq!(value("params[2]", "[1,[2],3]").as_deref(), Some("3"));
    assert_eq!(value("params.x", "\"x\""), None);
}

#[test]
fn a_long_value_is_cut_at_a_character() {
    let long = format!("{{\"a\":\"x{}\"}}", "é".repeat(VALUE_BYTES_MAX));
    let value = value("params.a", &long).unwrap();
    assert_eq!((value.len(), value.chars().count()), (VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX / 2));
}

#[test]
fn one_expression_has_one_text() {
    for (given, canonical) in [
        ("params[\"a\"].b", "params.a.b"),
        ("params[\"9a\"][007]", "params[\"9a\"][7]"),
        ("tag:region", "tag:region"),
        ("owner.before(\"\\\\\")", "owner.before(\"\\\\\")"),
        ("schedule", "schedule"),
        ("group", "group"),
    ] {
        let expression = KeyExpression::parse(given).unwrap();
        assert_eq!(expression.to_string(), canonical);
        assert_eq!(expression, KeyExpression::parse(canonical).unwrap());
    }
    assert_ne!(KeyExpression::parse("key").unwrap(), KeyExpression::parse("owner").unwrap());
}

#[test]
fn every_mistake_is_named_with_its_place() {
    const SOURCES: &str = "key, owner, queue, type, group, schedule, params.… or tag:…";
    for (text, said) in [
        ("", format!("expected {SOURCES} at column 1")),
        (".a", format!("expected {SOURCES}, found '.', at column 1")),
        ("parms.a", "unknown name \"parms\" at column 1; did you mean \"params\"?".to_owned()),
        ("customer", format!("unknown name \"customer\" at column 1; use {SOURCES}")),
        ("Key", "unknown name \"Key\" at column 1; did you mean \"key\"?".to_owned()),
        ("params", "expected \".\" or \"[\" and a name in params at column 7".to_owned()),
        ("params.", "expected a name at column 8".to_owned()),
        ("params.9", "expected a name, found '9', at column 8".to_owned()),
        ("params.before(\"x\")", "expected a name in params at column 8".to_owned()),
        ("params.a b", "expected \".\" or the end, found ' ', at column 9".to_owned()),
        ("params.a.after(\"x\")", "unknown function \"after\" at column 10; use before(\"…\")".to_owned()),
        ("params[", "expected a name in quotes or a position in a list at column 8".to_owned()),
        ("params[x]", "expected a name in quotes or a position in a list, found 'x', at column 8".to_owned()),
        ("params[1x]", "expected a number, found 'x', at column 8".to_owned()),
        ("params[1", "expected \"]\" at column 9".to_owned()),
        ("params[99999999999]", "position in a list is too large a number at column 8".to_owned()),
        ("params[\"é]", "unclosed quote at column 8".to_owned()),
        ("params[\"a\\", "unclosed quote at column 8".to_owned()),
        ("params[\"a\\n\"]", "unknown escape 'n' after \"\\\" at column 11".to_owned()),
        ("key.", "expected before(\"…\") at column 5".to_owned()),
        ("key.first", "unknown function \"first\" at column 5; use before(\"…\")".to_owned()),
        ("key.before", "expected \"(\" at column 11".to_owned()),
        ("key.before(/)", "expected a text in quotes, found '/', at column 12".to_owned()),
        ("key.before(\"\")", "the separator is empty at column 12".to_owned()),
        ("key.before(\"/\"", "expected \")\" at column 15".to_owned()),
        ("key.before(\"/\").x", "expected nothing more, found '.', at column 16".to_owned()),
        ("key/", "expected \".\" or the end, found '/', at column 4".to_owned()),
        ("tag", "expected \":\" and the name of a tag at column 4".to_owned()),
        ("tag:", "expected the name of a tag at column 5".to_owned()),
        ("key\t", "control character U+0009 at column 4".to_owned()),
    ] {
        assert_eq!(KeyExpression::parse(text).unwrap_err().to_string(), said, "{text}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = |n| format!("params{}", ".a".repeat(n));
    assert!(KeyExpression::parse(&deep(PATH_MAX)).is_ok());
    let error = KeyExpression::parse(&deep(PATH_MAX + 1)).unwrap_err();
    assert_eq!(error.to_string(), "path deeper than the limit of 16 at column 39");
    let long = |n: usize| format!("params.{}", "a".repeat(n - 7));
    assert!(KeyExpression::parse(&long(EXPRESSION_BYTES_MAX)).is_ok());
    let error = KeyExpression::parse(&long(EXPRESSION_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.to_string(), "text of 513 bytes, over the limit of 512, at column 1");
}

/// Pieces of the grammar in any order, which is wrong more often than right.
fn near_grammar() -> impl Strategy<Value = String> {
    let pieces = vec![
        "params", "key", "tag", ":", ".", "a", "before", "(", ")", "\"", "\"/\"", "[", "]", "0", "\\", "é",
        " ", "\0",
    ];
    vec(select(pieces), 0..16).prop_map(|pieces| pieces.concat())
}

fn check_text(text: &str) -> Result<(), TestCaseError> {
    match KeyExpression::parse(text) {
        Ok(read) => prop_assert_eq!(KeyExpression::parse(read.as_str()), Ok(read)),
        Err(error) => {
            let before = text.get(..error.position.offset);
            prop_assert_eq!(before.map(|before| before.chars().count() + 1), Some(error.position.column));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn no_text_breaks_the_reader(text in vec(any::<char>(), 0..40)) {
        check_text(&String::from_iter(text))?;
    }

    #[test]
    fn no_broken_grammar_breaks_the_reader(text in near_grammar()) {
        check_text(&text)?;
    }

    #[test]
    fn every_name_can_be_said_in_quotes(name in "\\PC{1,40}", number in any::<i64>()) {
        let quoted = format!("params[\"{}\"]", name.replace('\\', "\\\\").replace('"', "\\\""));
        let params = format!("{{{}:{number}}}", serde_json::to_string(&name).unwrap());
        let found = value(&quoted, &params);
        prop_assert!(found == Some(number.to_string()), "{quoted} in {params}: {found:?}");
    }
}
