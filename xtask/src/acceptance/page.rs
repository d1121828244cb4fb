//! The page: sorted and without times, so that the same tests produce the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::junit::{self, TestResult};
use super::names;
use super::rows::{List, Row, RowId};

const HEAD: &str = "\
# Acceptance

Written by `make acceptance` from a real test run; edit [acceptance.toml](acceptance.toml) or the tests, not this page.
A row is proven by the tests that carry its id at the front of their name. *missing*: no such test yet. *deviates*:
Jobhall means to differ from the system the row came from, for the reason given.
";

type Proofs<'a> = BTreeMap<RowId, Vec<&'a TestResult>>;

/// Renders the page from the rows and the text of a JUnit file.
///
/// # Errors
/// The results cannot be read, or a test names a row that does not exist.
pub fn from_results(lists: &[List], results: &str) -> Result<String, String> {
    render(lists, &junit::parse(results)?)
}

/// Renders the page from the rows and the executed tests.
///
/// # Errors
/// One sentence for every test that names a row that does not exist.
pub fn render(lists: &[List], tests: &[TestResult]) -> Result<String, String> {
    let proofs = collect(lists, tests)?;
    let mut page = HEAD.to_owned();
    page.push('\n');
    for list in lists {
        let _ = writeln!(page, "- {}", summary(list, &proofs));
    }
    for list in lists {
        let _ = write!(page, "\n## {}\n\n{}.\n\n", list.title, summary(list, &proofs));
        page.push_str("| row | promise | tests | status |\n|---|---|---|---|\n");
        for row in &list.rows {
            let tests = proofs.get(&row.id).map_or(&[][..], Vec::as_slice);
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} |",
                row.id,
                cell(&row.text),
                named(tests),
                status(row, tests)
            );
        }
    }
    Ok(page)
}

fn collect<'a>(lists: &[List], tests: &'a [TestResult]) -> Result<Proofs<'a>, String> {
    let mut proofs = Proofs::new();
    let mut unknown = Vec::new();
    for test in tests {
        for id in names::rows_of(&test.name) {
            if lists.iter().flat_map(|list| &list.rows).any(|row| row.id == id) {
                proofs.entry(id).or_default().push(test);
            } else {
                unknown.push(format!("the test {} {} names the unknown row {id}", test.binary, test.name));
            }
        }
    }
    for tests in proofs.values_mut() {
        tests.sort();
        tests.dedup();
    }
    if unknown.is_empty() { Ok(proofs) } else { Err(unknown.join("\n")) }
}

fn summary(list: &List, proofs: &Proofs<'_>) -> String {
    let proven = list
        .rows
        .iter()
        .filter(|row| proofs.get(&row.id).is_some_and(|tests| tests.iter().all(|test| test.passed)))
        .count();
    format!("{}: {proven} of {} proven", list.letter, list.rows.len())
}

fn named(tests: &[&TestResult]) -> String {
    let names: Vec<String> = tests.iter().map(|test| format!("`{} {}`", test.binary, test.name)).collect();
    names.join("<br>")
}

fn status(row: &Row, tests: &[&TestResult]) -> String {
    if tests.is_empty() {
        return "missing".to_owned();
    }
    let word = if tests.iter().all(|test| test.passed) { "passing" } else { "failing" };
    match &row.deviates {
        Some(reason) => format!("{word}, deviates: {}", cell(reason)),
        None => word.to_owned(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
