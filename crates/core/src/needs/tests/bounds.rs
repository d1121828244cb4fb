//! Every limit: accepted at it, refused one past it.

use super::super::SelectorErrorKind as Kind;
use super::super::{
    ABILITIES_MAX, LIST_ENTRIES_MAX, NAME_CHARS_MAX, TERMS_MAX, TEXT_BYTES_MAX, VALUE_CHARS_MAX,
};
use super::{abilities, abilities_error, accepts, accepts_error, needs, needs_error};

fn numbered(prefix: &str, count: usize) -> String {
    (0..count).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>().join(",")
}

#[test]
fn the_limits_are_those_of_the_contract() {
    assert_eq!((TEXT_BYTES_MAX, TERMS_MAX, ABILITIES_MAX), (1_024, 32, 64));
    assert_eq!((NAME_CHARS_MAX, VALUE_CHARS_MAX, LIST_ENTRIES_MAX), (64, 128, 32));
}

#[test]
fn terms_are_limited_as_written() {
    assert_eq!(needs(&numbered("a", 32)).as_str().split(", ").count(), 32);
    let error = needs_error(&numbered("a", 33));
    assert_eq!((error.position.offset, error.kind), (22 * 4 + 10 * 3, Kind::TooManyTerms));
    let error = accepts_error(&vec!["type"; 33].join(", "));
    assert_eq!((error.position.offset, error.kind), (32 * 6, Kind::TooManyTerms));
    assert_eq!(accepts(&vec!["type"; 32].join(", ")).as_str(), "type");
}

#[test]
fn abilities_are_limited() {
    assert_eq!(abilities(&numbered("a", 64)).len(), 64);
    let error = abilities_error(&numbered("a", 65));
    assert_eq!((error.position.offset, error.kind), (54 * 4 + 10 * 3, Kind::TooManyAbilities));
}

#[test]
fn names_are_limited() {
    let name = "n".repeat(64);
    assert!(needs(&name).satisfied_by(&abilities(&name)));
    for error in [needs_error(&format!("a,{name}n")), abilities_error(&format!("a,{name}n=1"))] {
        assert_eq!((error.position.offset, error.kind), (2, Kind::NameTooLong { chars: 65 }));
    }
}

#[test]
fn values_are_limited_in_characters() {
    for (at, past) in [
        (format!("a={}", "v".repeat(128)), format!("a={}", "v".repeat(129))),
        (format!("a=\"{}\"", "é".repeat(128)), format!("a=\"{}\"", "é".repeat(129))),
        (format!("a=\"{}\"", "\\\\".repeat(128)), format!("a=\"{}\"", "\\\\".repeat(129))),
        (format!("a={}1", "0".repeat(127)), format!("a={}1", "0".repeat(128))),
    ] {
        assert!(needs(&at).satisfied_by(&abilities(&at)));
        for error in [needs_error(&past), abilities_error(&past)] {
            assert_eq!((error.position.offset, error.kind), (2, Kind::ValueTooLong { chars: 129 }));
        }
    }
}

#[test]
fn lists_are_limited_as_written() {
    let (at, past) = (numbered("v", 32), numbered("v", 33));
    assert!(needs(&format!("a in ({at})")).satisfied_by(&abilities(&format!("a=[{at}]"))));
    let before = 22 * 4 + 10 * 3;
    let error = needs_error(&format!("a in ({past})"));
    assert_eq!((error.position.offset, error.kind), (6 + before, Kind::ListTooLong));
    let error = abilities_error(&format!("a=[{past}]"));
    assert_eq!((error.position.offset, error.kind), (3 + before, Kind::ListTooLong));
}

#[test]
fn texts_are_limited_in_bytes() {
    let at = format!("{}a", " ".repeat(1_023));
    assert_eq!(needs(&at).as_str(), "a");
    assert_eq!(abilities(&at).to_string(), "a");
    let past = format!("{} a", " ".repeat(1_023));
    for error in [needs_error(&past), abilities_error(&past), accepts_error(&past)] {
        assert_eq!(error.kind, Kind::TextTooLong { bytes: 1_025 });
        assert_eq!((error.position.offset, error.position.column), (1_024, 1_025));
        assert_eq!(error.to_string(), "text of 1025 bytes, over the limit of 1024, at column 1025");
    }
}

#[test]
fn a_long_text_ends_between_characters() {
    let error = needs_error(&format!("a{}", "é".repeat(600)));
    assert_eq!(error.kind, Kind::TextTooLong { bytes: 1_201 });
    assert_eq!((error.position.offset, error.position.column), (1_023, 513));
}

/// Eight values, with commas alone between them: the canonical form has eight spaces more.
fn crowded(last: usize) -> String {
    let long = (0..7).map(|index| format!("a{index}={}", "v".repeat(128))).collect::<Vec<_>>().join(",");
    format!("{long},a7={}", "v".repeat(last))
}

#[test]
fn the_canonical_form_is_limited_too() {
    let at = crowded(1_024 - 7 * 133 - 3);
    assert_eq!((at.len(), needs(&at).as_str().len()), (1_024 - 7, 1_024));
    assert_eq!(abilities(&at).to_string().len(), 1_024);
    let past = crowded(1_024 - 7 * 133 - 2);
    for error in [needs_error(&past), abilities_error(&past)] {
        assert_eq!(error.kind, Kind::TextTooLong { bytes: 1_025 });
        assert_eq!((error.position.offset, error.position.column), (1_018, 1_019));
    }
}
