//! Every limit: accepted at it, refused one past it.

use super::super::SelectorErrorKind as Kind;
use super::super::{
    ABILITIES_MAX, JOB_BOUNDS, NAME_CHARS_MAX, RESERVED_BOUNDS, TERMS_MAX, VALUE_CHARS_MAX, WORKER_BOUNDS,
};
use super::{abilities, abilities_error, accepts, accepts_error, needs, needs_error, uses, uses_error};

fn numbered(prefix: &str, count: usize) -> String {
    (0..count).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>().join(",")
}

#[test]
fn the_limits_are_those_of_the_contract() {
    assert_eq!((TERMS_MAX, ABILITIES_MAX), (32, 64));
    assert_eq!((NAME_CHARS_MAX, VALUE_CHARS_MAX), (64, 128));
}

#[test]
fn ground_15_the_limits_of_texts_are_those_of_the_contract() {
    let all = [JOB_BOUNDS, RESERVED_BOUNDS, WORKER_BOUNDS].map(|bounds| (bounds.bytes, bounds.entries));
    assert_eq!(all, [(1_024, 32), (16_384, 256), (131_072, 2_048)]);
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
fn ground_15_lists_are_limited_as_written() {
    let numbered = |count| numbered("v", count);
    assert_eq!(needs(&format!("a in ({})", numbered(256))).longest_list(), 256);
    let error = needs_error(&format!("a in ({})", numbered(257)));
    assert_eq!(error.kind, Kind::ListTooLong { most: 256 });
    assert_eq!(error.position.offset, 6 + 10 * 3 + 90 * 4 + 156 * 5);
    let wide = numbered(2_048);
    assert!(needs("a=v2047").satisfied_by(&abilities(&format!("a=[{wide}]"))));
    assert!(accepts(&format!("type in ({wide})")).admits("default", "v2047"));
    let past = numbered(2_049);
    for error in [abilities_error(&format!("a=[{past}]")), accepts_error(&format!("type in ({past})"))] {
        assert_eq!(error.kind, Kind::ListTooLong { most: 2_048 });
        assert!(error.to_string().starts_with("more than 2048 entries in a list at column "), "{error}");
    }
}

#[test]
fn ground_15_long_lists_match_by_their_entries() {
    let even = (0..512).map(|n| format!("v{}", 2 * n)).collect::<Vec<_>>().join(",");
    let worker = abilities(&format!("a=[{even}], n=3, w=v8"));
    let holds = |text: &str| needs(text).satisfied_by(&worker);
    assert!(holds("a in (v1,v3,v1022)") && !holds("a in (v1,v3,v1021)"));
    assert!(holds("a notin (v1,v3)") && !holds("a notin (v1,v4)"));
    let odd = (0..256).map(|n| format!("v{}", 2 * n + 1)).collect::<Vec<_>>().join(",");
    assert!(!holds(&format!("a in ({odd})")) && holds(&format!("a notin ({odd})")));
    assert!(
        holds("n in (1,2,3,x)")
            && !holds("n in (\"3\",4)")
            && !holds("w in (7,8)")
            && holds("w in (8,v8,v9)")
    );
}

#[test]
fn ground_15_an_explanation_shows_the_first_entries_of_a_long_list() {
    let types = (0..40).map(|n| format!("t{n:02}")).collect::<Vec<_>>();
    let unmet = accepts(&format!("type in ({})", types.join(","))).unmet("default", "x");
    let shown = format!("type in ({},… 8 more)", types[..32].join(","));
    assert_eq!(unmet[0].to_string(), format!("{shown}: this job has type=x"));
    let unmet = needs("a=x").unmet(&abilities(&format!("a=[{}]", types.join(","))));
    assert_eq!(unmet[0].found().unwrap(), format!("a=[{},… 8 more]", types[..32].join(",")));
}

/// A flag after spaces, in a text of this many bytes.
fn padded(bytes: usize) -> String {
    format!("{}a", " ".repeat(bytes - 1))
}

#[test]
fn ground_15_texts_are_limited_in_bytes() {
    let (job, worker) = (RESERVED_BOUNDS.bytes, WORKER_BOUNDS.bytes);
    assert_eq!(needs(&padded(job)).as_str(), "a");
    assert_eq!(abilities(&padded(worker)).to_string(), "a");
    let errors = [
        (needs_error(&padded(job + 1)), job),
        (abilities_error(&padded(worker + 1)), worker),
        (accepts_error(&padded(worker + 1)), worker),
        (uses_error(&padded(1_025)), 1_024),
    ];
    for (error, most) in errors {
        assert_eq!(error.kind, Kind::TextTooLong { bytes: most + 1, most });
        assert_eq!((error.position.offset, error.position.column), (most, most + 1));
        let said = format!("text of {} bytes, over the limit of {most}, at column {}", most + 1, most + 1);
        assert_eq!(error.to_string(), said);
    }
}

#[test]
fn a_long_text_ends_between_characters() {
    let error = uses_error(&format!("a{}", "é".repeat(600)));
    assert_eq!(error.kind, Kind::TextTooLong { bytes: 1_201, most: 1_024 });
    assert_eq!((error.position.offset, error.position.column), (1_023, 513));
}

/// As many amounts, with commas alone between them: the canonical form has one space more for each comma.
fn crowded(last: usize) -> String {
    let long = (0..15).map(|n| format!("{}{n:02}=1", "v".repeat(60))).collect::<Vec<_>>().join(",");
    format!("{long},{}=1", "w".repeat(last))
}

#[test]
fn the_canonical_form_is_limited_too() {
    let last = 1_024 - 15 * (64 + 2) - 2;
    let at = crowded(last);
    assert_eq!((at.len(), uses(&at).as_str().len()), (1_024 - 15, 1_024));
    let error = uses_error(&crowded(last + 1));
    assert_eq!(error.kind, Kind::TextTooLong { bytes: 1_025, most: 1_024 });
    assert_eq!((error.position.offset, error.position.column), (1_010, 1_011));
}
