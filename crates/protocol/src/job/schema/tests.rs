use std::str::FromStr;

use jobhall_core::{self as core, bounds};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::*;
use crate::{Span, Timestamp};

fn schema_of<T: JsonSchema>() -> Value {
    T::json_schema(&mut SchemaGenerator::default()).to_value()
}

/// Texts that the pattern of a schema describes.
fn texts<T: JsonSchema>() -> impl Strategy<Value = String> {
    let schema = schema_of::<T>();
    let pattern = schema["pattern"].as_str().unwrap();
    let inner = pattern.strip_prefix('^').and_then(|pattern| pattern.strip_suffix('$'));
    string_regex(inner.expect("the pattern describes the whole text")).unwrap()
}

proptest! {
    #[test]
    fn names_that_the_description_allows_are_accepted(
        name in texts::<Name>(), key in texts::<Key>(), owner in texts::<Owner>(), tag in texts::<Tag>(),
        queue in texts::<ScopeQueue>(), reason in texts::<FailureReason>(),
    ) {
        prop_assert!(core::TypeName::new(&name).is_ok() && core::QueueName::new(&name).is_ok());
        prop_assert!(core::WorkerName::new(&name).is_ok() && core::TokenName::new(&name).is_ok());
        prop_assert!(core::ScheduleName::new(&name).is_ok());
        prop_assert!(core::Key::new(&key).is_ok() && core::Owner::new(&owner).is_ok());
        // JSON Schema counts characters, the check counts bytes.
        prop_assert!(tag.len() > bounds::TAG_BYTES || core::Tag::new(&tag).is_ok(), "{tag:?}");
        prop_assert!(core::Scope::new(&[queue]).is_ok());
        prop_assert!(reason.is_empty() || core::Failure::checked(&reason, &reason, None).is_ok());
    }

    #[test]
    fn ids_and_times_that_the_description_allows_are_accepted(
        attempt in texts::<AttemptId>(), which in texts::<WhichAttempt>(), input in texts::<WhichInput>(),
        position in texts::<Position>(), span in texts::<Delay>(), time in texts::<Timestamp>(),
        states in texts::<States>(), cursor in texts::<IdCursor<'b'>>(), number in texts::<NumberCursor<'o'>>(),
    ) {
        prop_assert!(core::AttemptId::from_str(&attempt).is_ok());
        prop_assert!(which.parse::<u32>().is_ok() || core::AttemptId::from_str(&which).is_ok());
        prop_assert!(crate::InputName::from_str(&input).is_ok());
        prop_assert!(position.parse::<u64>().is_ok());
        let is_short = span.split(|c: char| !c.is_ascii_digit()).all(|digits| digits.len() < 9);
        prop_assert!(span.is_empty() || !is_short || Span::from_str(&span).is_ok(), "{span}");
        let has_this_day = !["-29T", "-30T", "-31T"].iter().any(|end| time.contains(end));
        let is_inside = !time.starts_with("1970-01-01") && !time.starts_with("9999-12-3");
        prop_assert!(!has_this_day || !is_inside || Timestamp::from_str(&time).is_ok(), "{time}");
        let known = |word: &str| StateName::ALL.iter().any(|state| state.as_str() == word);
        prop_assert!(states.split(',').all(known));
        let id = u64::from_str_radix(&cursor[1..], 16).unwrap();
        prop_assert!(core::JobId::new(id).is_ok(), "{cursor}");
        prop_assert!(u64::from_str_radix(&number[1..], 16).is_ok());
    }

    #[test]
    fn numbers_of_a_pattern_are_at_most_the_largest(most in 1u64..=u64::MAX) {
        let mut runner = TestRunner::deterministic();
        let (numbers, hex) = (pattern::up_to(most), pattern::hex_up_to(most));
        let mut sample = |pattern: &str| string_regex(pattern).unwrap().new_tree(&mut runner).unwrap().current();
        for _ in 0..20 {
            let number = sample(&numbers);
            prop_assert!((1..=most).contains(&number.parse().unwrap()), "{number}");
            let number = sample(&hex);
            prop_assert!((1..=most).contains(&u64::from_str_radix(&number, 16).unwrap()), "{number}");
        }
    }
}

#[test]
fn the_patterns_of_numbers_have_every_digit() {
    assert_eq!(pattern::up_to(7), "(?:[1-6]|7)");
    assert_eq!(pattern::up_to(1), "(?:1)");
    assert_eq!(pattern::up_to(10), "(?:[1-9][0-9]{0,0}|10)");
    assert_eq!(pattern::up_to(255), "(?:[1-9][0-9]{0,1}|1[0-9]{2}|2[0-4][0-9]{1}|25[0-4]|255)");
    assert_eq!(
        pattern::hex_up_to(0x1f),
        "(?:[123456789abcdefABCDEF][0123456789abcdefABCDEF]{0,0}|1[0123456789abcdeABCDE]|1[fF])"
    );
}

/// The numbers in the description are those of the checks: a change of a constant changes both.
#[test]
fn the_bounds_are_those_of_the_checks() {
    let longest = |schema: Value| usize::try_from(schema["maxLength"].as_u64().unwrap()).unwrap();
    assert!(core::TypeName::new(&"x".repeat(longest(schema_of::<Name>()))).is_ok());
    assert!(core::TypeName::new(&"x".repeat(longest(schema_of::<Name>()) + 1)).is_err());
    assert!(core::Key::new(&"x".repeat(longest(schema_of::<Key>()))).is_ok());
    assert!(core::Key::new(&"x".repeat(longest(schema_of::<Key>()) + 1)).is_err());
    assert!(core::Owner::new(&"x".repeat(longest(schema_of::<Owner>()) + 1)).is_err());
    assert!(core::Tag::new(&"x".repeat(longest(schema_of::<Tag>()) + 1)).is_err());
    let delay = schema_of::<Delay>();
    assert_eq!((&delay["x-minimum-ms"], &delay["x-maximum-ms"]), (&json!(0), &json!(bounds::DELAY_MS)));
    let (interval, limit) = (schema_of::<Interval>(), schema_of::<TimeLimit>());
    assert_eq!((&interval["x-minimum-ms"], &limit["x-minimum-ms"]), (&json!(bounds::EVERY_MS), &json!(1)));
}

#[test]
fn integers_have_the_bounds_of_their_type() {
    let mut schema = json!({
        "properties": {
            "a": { "type": "integer", "format": "uint32", "minimum": 0 },
            "b": { "type": ["integer", "null"], "format": "int32" },
            "c": { "type": "integer", "format": "uint64", "minimum": 1, "maximum": 9 },
        },
    });
    bound_integers(&mut schema);
    let bounds = |name: &str| {
        let field = &schema["properties"][name];
        (field["minimum"].as_i64().unwrap(), field["maximum"].as_i64().unwrap())
    };
    assert_eq!(bounds("a"), (0, i64::from(u32::MAX)));
    assert_eq!(bounds("b"), (i64::from(i32::MIN), i64::from(i32::MAX)));
    assert_eq!(bounds("c"), (1, 9));
}
