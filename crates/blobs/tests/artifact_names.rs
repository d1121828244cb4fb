//! Names used in attacks, and names that people use.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

use std::path::{Component, Path};

use jobhall_blobs::{ArtifactName, ArtifactNameError as Rule, NAME_BYTES, SEGMENT_BYTES};
use proptest::prelude::{any, proptest};

#[test]
fn names_that_people_use_are_names() {
    let long_segment = "s".repeat(SEGMENT_BYTES);
    let longest = [long_segment.as_str(); 4].join("/") + "x";
    for name in [
        "log",
        "report/index.html",
        ".hidden",
        "..hidden",
        "a..b",
        "...a",
        "a b.txt",
        "größe/日本語.csv",
        "x-y",
        "a+b=c",
        "~backup",
        "#1",
        "$HOME",
        "con-text",
        "comet",
        "com10",
        "nullable",
        "100%",
        "a'b",
        "(1)",
        "a,b;c",
        &long_segment,
    ] {
        assert_eq!(ArtifactName::new(name).unwrap().as_str(), name);
        assert_eq!(ArtifactName::from_bytes(name.as_bytes()).unwrap().to_string(), name);
    }
    assert_eq!(longest.len(), NAME_BYTES);
    assert!(ArtifactName::new(&"s/".repeat(511)[..1021]).is_ok());
    assert_eq!(ArtifactName::new("a/b/c").unwrap().segments().collect::<Vec<_>>(), ["a", "b", "c"]);
}

fn rule(name: &str) -> Rule {
    match ArtifactName::new(name) {
        Ok(_) => panic!("{name:?} is allowed"),
        Err(rule) => rule,
    }
}

#[test]
fn every_rule_has_its_own_error() {
    assert_eq!(rule(""), Rule::Empty);
    assert_eq!(rule(&"s".repeat(NAME_BYTES + 1)), Rule::TooLong { bytes: NAME_BYTES + 1 });
    assert_eq!(rule(&"s".repeat(SEGMENT_BYTES + 1)), Rule::SegmentTooLong { bytes: SEGMENT_BYTES + 1 });
    assert_eq!(rule(&"é".repeat(128)), Rule::SegmentTooLong { bytes: 256 });
    for name in ["/", "/etc/passwd", "//host/share"] {
        assert_eq!(rule(name), Rule::Absolute, "{name:?}");
    }
    for name in ["a/", "a//b", "a/b/"] {
        assert_eq!(rule(name), Rule::EmptySegment, "{name:?}");
    }
    for name in ["..", ".", "../a", "a/../../b", "a/..", "./a", "a/./b"] {
        assert!(matches!(rule(name), Rule::Dots { .. }), "{name:?}");
    }
    for name in ["-rf", "a/-rf", "--", "-"] {
        assert!(matches!(rule(name), Rule::LeadingDash { .. }), "{name:?}");
    }
    for name in [" a", "a ", "a.", "a/b. ", "...", " ", "a /b"] {
        assert!(matches!(rule(name), Rule::Edge { .. }), "{name:?}");
    }
    for name in [
        "con",
        "CON",
        "Nul.txt",
        "a/aux.c",
        "com1",
        "LPT9.tar.gz",
        "com0",
        "con .txt",
        "COM\u{b9}",
        "conout$",
    ] {
        assert!(matches!(rule(name), Rule::Reserved { .. }), "{name:?}");
    }
    assert_eq!(ArtifactName::from_bytes(b"a\xff"), Err(Rule::NotUtf8));
    assert_eq!(ArtifactName::from_bytes(b"..\xc0\xaf"), Err(Rule::NotUtf8), "an overlong slash");
}

#[test]
fn characters_that_mean_something_elsewhere_are_refused_by_place() {
    let characters = "\0\n\r\t\u{1b}\u{7f}\u{85}\\:*?\"<>|\u{202e}\u{2066}\u{200f}\u{2028}\u{feff}";
    for character in characters.chars() {
        assert_eq!(rule(&format!("a/b{character}c")), Rule::Character { character, at: 3 });
    }
    assert_eq!(rule("C:\\windows"), Rule::Character { character: ':', at: 1 });
    assert_eq!(rule("..\\..\\a"), Rule::Character { character: '\\', at: 2 });
}

proptest! {
    #[test]
    fn an_allowed_name_stays_below_its_directory(name in any::<String>()) {
        if let Ok(name) = ArtifactName::new(&name) {
            assert!(Path::new(name.as_str()).components().all(|part| matches!(part, Component::Normal(_))));
        }
    }

    #[test]
    fn an_allowed_path_stays_below_its_directory(name in "[a./\\\\\\-~ ]{1,12}") {
        if let Ok(name) = ArtifactName::new(&name) {
            let path = Path::new(name.as_str());
            assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
            assert_eq!(path.components().count(), name.segments().count(), "every system sees the same segments");
        }
    }
}
