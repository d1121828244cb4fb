//! The acceptance page: parsing of rows, names and results, and the content of the page.

use std::fs;

use xtask::acceptance::junit::{self, TestResult};
use xtask::acceptance::rows::{self, List, RowId};
use xtask::acceptance::{Mode, Stop, difference, names, page, settle};
use xtask::workspace_root;

const LIST: &str = r#"
[[list]]
letter = "H"
title = "Sample"
row = [
    { id = "H1", text = "first | with a bar" },
    { id = "H2", text = "second", deviates = "another way" },
    { id = "H3", text = "third" },
]
"#;

fn sample() -> Vec<List> {
    rows::parse(LIST).expect("the sample list")
}

fn ran(name: &str, passed: bool) -> TestResult {
    TestResult { binary: "jobhall-core".to_owned(), name: name.to_owned(), passed }
}

#[track_caller]
fn check_names(test: &str, expected: &[&str]) {
    let found: Vec<String> = names::rows_of(test).iter().map(RowId::to_string).collect();
    assert_eq!(found, expected, "{test}");
}

#[test]
fn the_five_lists_and_the_guards_are_whole() {
    let source = fs::read_to_string(workspace_root().join("docs/acceptance.toml")).unwrap();
    let lists = rows::parse(&source).unwrap();
    let sizes: Vec<(char, usize)> = lists.iter().map(|list| (list.letter, list.rows.len())).collect();
    assert_eq!(sizes, [('K', 30), ('L', 22), ('Q', 28), ('H', 19), ('R', 34), ('G', 8)]);
}

/// A page written after a failed or partial run is seen here at once, not at the end of a full run.
#[test]
fn the_page_in_the_tree_shows_no_failing_row() {
    let page = fs::read_to_string(workspace_root().join("docs/acceptance.md")).unwrap();
    let failing: Vec<&str> = page.lines().filter(|line| line.contains("| failing")).collect();
    assert!(failing.is_empty(), "run `make acceptance` until it passes:\n{}", failing.join("\n"));
}

#[test]
fn rows_are_read_from_the_front_of_the_last_segment() {
    check_names("h05_attempt_counts_accepted_claims", &["H5"]);
    check_names("claims::l14_l15_one_of_two_wins", &["L14", "L15"]);
    check_names("memory::g1_h07", &["G1", "H7"]);
    check_names("h05::inner", &[]);
    check_names("r2d2_is_not_a_row", &[]);
    check_names("after_h05", &[]);
    check_names("h_05", &[]);
    check_names("x05_other_letter", &[]);
}

#[test]
fn a_list_with_a_gap_a_repeat_or_an_unknown_key_is_refused() {
    for (from, to) in [
        ("\"H2\"", "\"H4\""),
        ("\"H2\"", "\"H1\""),
        ("\"H2\"", "\"H02\""),
        ("\"H2\"", "\"K2\""),
        ("text = \"second\"", "text = \"\""),
        ("deviates", "deviate"),
    ] {
        assert!(rows::parse(&LIST.replace(from, to)).is_err(), "{from} -> {to}");
    }
    assert!(rows::parse(&format!("{LIST}{LIST}")).is_err());
}

#[test]
fn results_are_read_with_their_failures() {
    let results = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3">
    <testsuite name="jobhall-core" tests="3">
        <testcase name="h01_good" classname="jobhall-core" time="0.008"/>
        <testcase name="h02_bad" classname="jobhall-core">
            <failure message="a &gt; b > &quot;c&quot;" type="t">text &lt;testcase name="x"/></failure>
        </testcase>
        <testcase name="h03_with_output" classname="jobhall-core"><system-out>said</system-out></testcase>
    </testsuite>
</testsuites>
"#;
    // The raw `/>` above is text: only `<` begins a tag.
    let expected = [ran("h01_good", true), ran("h02_bad", false), ran("h03_with_output", true)];
    assert_eq!(junit::parse(results).unwrap(), expected);
}

#[test]
fn results_that_are_empty_cut_short_or_miscounted_are_refused() {
    let one = r#"<testcase name="a" classname="b"/>"#;
    for results in [
        "".to_owned(),
        "<testsuites tests=\"0\"></testsuites>".to_owned(),
        format!("<testsuites tests=\"1\">{one}"),
        format!("<testsuites tests=\"2\">{one}</testsuites>"),
        format!("<testsuites>{one}</testsuites>"),
        "<testsuites tests=\"1\"><testcase name=\"a\"/></testsuites>".to_owned(),
        format!("<testsuites tests=\"1\"><!-- {one} --></testsuites>"),
        "<testsuites tests=\"1\"><testcase name=\"a".to_owned(),
    ] {
        assert!(junit::parse(&results).is_err(), "{results}");
    }
}

#[test]
fn the_page_tells_passing_failing_missing_and_deviating_rows_apart() {
    let tests = [
        ran("b::h01_h02_both", true),
        ran("a::h01_more", true),
        ran("h03_broken", false),
        ran("plain", true),
    ];
    let page = page::render(&sample(), &tests).unwrap();
    let table = "\
| H1 | first \\| with a bar | `jobhall-core a::h01_more`<br>`jobhall-core b::h01_h02_both` | passing |
| H2 | second | `jobhall-core b::h01_h02_both` | passing, deviates: another way |
| H3 | third | `jobhall-core h03_broken` | failing |
";
    assert!(page.ends_with(table), "{page}");
    assert!(page.contains("- H: 2 of 3 proven\n"), "{page}");
}

#[test]
fn a_row_without_a_test_is_missing_even_when_it_deviates() {
    let page = page::render(&sample(), &[ran("plain", true)]).unwrap();
    assert!(page.contains("| H2 | second |  | missing |"), "{page}");
    assert!(page.contains("H: 0 of 3 proven"), "{page}");
}

#[test]
fn one_failing_test_of_two_makes_the_row_failing() {
    let page = page::render(&sample(), &[ran("h02_a", true), ran("h02_b", false)]).unwrap();
    assert!(page.contains("| failing, deviates: another way |"), "{page}");
    assert!(page.contains("H: 0 of 3 proven"), "{page}");
}

#[test]
fn the_order_of_the_tests_does_not_change_the_page() {
    let (a, b) = (ran("h01_a", true), ran("h01_b", true));
    assert_eq!(page::render(&sample(), &[a.clone(), b.clone()]), page::render(&sample(), &[b, a]));
}

#[test]
fn a_test_that_names_an_unknown_row_is_an_error() {
    let error = page::render(&sample(), &[ran("h01_h99_both", true), ran("k01_other", true)]).unwrap_err();
    assert!(error.contains("unknown row H99") && error.contains("unknown row K1"), "{error}");
}

#[test]
fn a_stale_page_is_refused_with_its_difference() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("acceptance.md");
    assert!(matches!(settle("a\nb\n", &path, Mode::Check), Err(Stop::Stale(_))), "a page that is not there");
    settle("a\nb\n", &path, Mode::Write).unwrap();
    settle("a\nb\n", &path, Mode::Check).unwrap();
    let stale = settle("a\nc\n", &path, Mode::Check).unwrap_err();
    assert_eq!(stale.exit_code(), 1);
    assert!(stale.to_string().ends_with("\n-b\n+c"), "{stale}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\n", "a check writes nothing");
}

#[test]
fn a_difference_shows_only_the_lines_that_differ() {
    assert_eq!(difference::between("a\nb\nc\n", "a\nb\nc\n"), None);
    assert_eq!(difference::between("a\nb\nc\n", "a\nx\nc\n").unwrap(), "-b\n+x");
    assert_eq!(difference::between("a\nc\n", "a\nb\nc\n").unwrap(), "+b");
    assert_eq!(difference::between("a\nb\n", "a\n").unwrap(), "-b");
    assert_eq!(difference::between("b\na\n", "a\nb\n").unwrap(), "+a\n-a");
    assert_eq!(difference::between("a", "a\n").unwrap(), "(only line ends differ)");
}
