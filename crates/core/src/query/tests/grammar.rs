//! The text of a query and its tree.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{
    Given, LINK_DEPTH_MAX, Query, QueryErrorKind as Kind, STEPS_MAX, TEXT_BYTES_MAX, URL_BYTES_MAX,
};
use super::parse;
use super::trees::query;

fn is_unreserved(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~/".contains(c)
}

proptest! {
    #[test]
    fn q25_every_tree_has_one_canonical_text_that_is_read_as_that_tree(query in query()) {
        let text = query.text();
        prop_assert!(text.chars().all(is_unreserved), "{text}");
        prop_assert!(!text.starts_with('/') && !text.ends_with('/') && !text.contains("//"), "{text}");
        prop_assert!(text.split('/').all(|part| part != "." && part != ".."), "{text}");
        let read = parse(&text).map_err(|error| TestCaseError::fail(format!("{text}: {}", error.message(&text))))?;
        prop_assert_eq!(&read, &query, "{}", text);
        prop_assert_eq!(read.text(), text);
    }

    #[test]
    fn percent_codes_change_nothing(query in query(), coded in vec(any::<bool>(), 64)) {
        let text = query.text();
        let mut coded = coded.into_iter().cycle();
        let written: String = text
            .bytes()
            .map(|byte| match byte {
                b'/' => "/".to_owned(),
                _ if coded.next().unwrap() => format!("%{byte:02X}"),
                _ => char::from(byte).to_string(),
            })
            .collect();
        prop_assert_eq!(parse(&written).map(|query| query.text()), Ok(text), "{}", written);
    }

    #[test]
    fn any_text_is_read_or_refused_at_a_place_within_it(text in near_grammar()) {
        match parse(&text) {
            Ok(query) => {
                let canonical = query.text();
                prop_assert_eq!(parse(&canonical).map(|query| query.text()), Ok(canonical.clone()), "{}", text);
                let (again, spans) = query.text_with_spans();
                prop_assert_eq!(&again, &canonical);
                prop_assert_eq!(spans.len(), query.steps.len());
                for (span, step) in spans.iter().zip(&query.steps) {
                    let alone = Query { steps: vec![step.clone()], ..Query::default() };
                    prop_assert_eq!(&canonical[span.start..span.end], alone.text());
                }
            }
            Err(error) => {
                let column = error.span.column(&text);
                prop_assert!((1..=text.chars().count().max(1)).contains(&column), "{text:?}: {column}");
                prop_assert!(error.span.marks(&text).chars().count() <= text.chars().count().max(1), "{text:?}");
                prop_assert!(!error.kind.to_string().is_empty() && !error.kind.code().is_empty());
            }
        }
    }
}

/// Pieces of the grammar in any order.
fn near_grammar() -> impl Strategy<Value = String> {
    let pieces = vec![
        "a", "clean", "-", "/", "~", "~X~", "~X~/", "~E", "~~", "~_", "~.", "~I", "~x41", "~xg", "~x", "~7",
        "%41", "%", "%2", "%ff", "-R/", "/-", "-on-", "w/", ".", "..", "a.csv", "A", "9", " ", "é", "\0",
        "%00", "?", "~H", "k/",
    ];
    vec(select(pieces), 0..14).prop_map(|pieces| pieces.concat())
}

fn argument(text: &str) -> Result<String, Kind> {
    let query = parse(&format!("c-{text}")).map_err(|error| error.kind)?;
    match &query.steps[0].arguments[..] {
        [argument] => match &argument.given {
            Given::Text(text) => Ok(text.clone()),
            Given::Link(_) => panic!("a link"),
        },
        other => panic!("{} arguments", other.len()),
    }
}

#[test]
fn q25_escapes_are_read_as_liquer_reads_them() {
    for (written, meant) in [
        ("~~", "~"),
        ("~_", "-"),
        ("~I", "/"),
        ("~/", "/"),
        ("~.", " "),
        ("~0", "-0"),
        ("~9", "-9"),
        ("~12", "-12"),
        ("~Hx.org~Ia", "https://x.org/a"),
        ("~hx", "http://x"),
        ("~f~Ietc", "file:///etc"),
        ("s3~Pb", "s3://b"),
        ("~xc3~xa9", "é"),
        ("~x2B", "+"),
        ("%C3%A9", "é"),
        ("%2F", "/"),
        ("%20", " "),
        ("%7E_", "-"),
        ("%7e%7E", "~"),
        ("a+b", "a+b"),
        ("12:30", "12:30"),
        ("é", "é"),
        ("", ""),
    ] {
        assert_eq!(argument(written), Ok(meant.to_owned()), "{written}");
    }
    assert_eq!(parse("c-a%2Db").unwrap().steps[0].arguments.len(), 2, "%2D is a dash, as RFC 3986 has it");
    assert!(matches!(argument("~xff"), Err(Kind::NotUtf8)));
    assert!(matches!(argument("%00"), Err(Kind::Nul)));
}

#[test]
fn the_canonical_text_of_special_arguments() {
    for (written, canonical) in [
        ("/a/b/", "a/b"),
        ("a-", "a-"),
        ("a--b", "a--b"),
        ("a-.", "a-~x2e"),
        ("a-..", "a-~x2e~x2e"),
        ("a-...", "a-..."),
        ("a-+é", "a-~x2b~xc3~xa9"),
        ("-R/x-y/2026.csv/-", "-R/x-y/2026.csv/-"),
        ("-R/a/-/b/c.csv", "-R/a/-/b/c.csv"),
        ("-on-gpu~_1/a", "-on-gpu~_1/a"),
        ("j-~X~/a/b-1~E-2", "j-~X~/a/b-1~E-2"),
        ("j-~X~-R/k/-/b~E", "j-~X~/-R/k/-/b~E"),
        ("a/r~_1.csv", "a/r~_1.csv"),
    ] {
        let query = parse(written).unwrap_or_else(|error| panic!("{}", error.message(written)));
        assert_eq!(query.text(), canonical, "{written}");
    }
}

#[test]
fn texts_steps_and_links_have_a_limit() {
    let long = |bytes: usize| format!("a-{}", "x".repeat(bytes - 2));
    assert!(Query::parse(&long(URL_BYTES_MAX), URL_BYTES_MAX).is_ok());
    let error = Query::parse(&long(URL_BYTES_MAX + 1), URL_BYTES_MAX).unwrap_err();
    assert_eq!(error.kind, Kind::TooLong { bytes: 8_193, most: 8_192 });
    assert!(parse(&long(TEXT_BYTES_MAX)).is_ok());
    assert!(matches!(parse(&long(TEXT_BYTES_MAX + 1)).unwrap_err().kind, Kind::TooLong { .. }));
    // The canonical text counts as well: here it is four times as long.
    let grows = format!("a-{}", "+".repeat(4_000));
    assert!(matches!(
        Query::parse(&grows, URL_BYTES_MAX).unwrap_err().kind,
        Kind::TooLong { bytes: 16_002, .. }
    ));

    let chain = |steps: usize| vec!["a"; steps].join("/");
    assert_eq!(parse(&chain(STEPS_MAX)).unwrap().steps.len(), STEPS_MAX);
    let error = parse(&chain(STEPS_MAX + 1)).unwrap_err();
    assert_eq!((error.kind, error.span.start), (Kind::TooManySteps, 2 * STEPS_MAX));
    let linked = format!("{}/j-~X~/a/b~E", chain(STEPS_MAX - 2));
    assert_eq!(parse(&linked).unwrap_err().kind, Kind::TooManySteps, "the steps of links count");

    let nested = |depth: usize| format!("{}a{}", "a-~X~".repeat(depth), "~E".repeat(depth));
    assert!(parse(&nested(LINK_DEPTH_MAX)).is_ok());
    assert_eq!(parse(&nested(LINK_DEPTH_MAX + 1)).unwrap_err().kind, Kind::TooDeep);
    assert_eq!(parse(&nested(5_000)).unwrap_err().kind, Kind::TooDeep, "and the stack does not matter");
}
