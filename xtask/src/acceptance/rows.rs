//! The list of requirements in `docs/acceptance.toml`.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;

/// One row's id: the letter of its list and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowId {
    /// Upper-case letter of the list.
    pub letter: char,
    /// Number within the list, from 1.
    pub number: u32,
}

impl RowId {
    /// Parses `H5`, `h5` or `h05`; anything else is `None`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut characters = text.chars();
        let letter = characters.next()?.to_ascii_uppercase();
        let digits = characters.as_str();
        let plain = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let known = matches!(letter, 'K' | 'L' | 'Q' | 'H' | 'R' | 'G');
        if plain && known { digits.parse().ok().map(|number| Self { letter, number }) } else { None }
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.letter, self.number)
    }
}

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: RowId,
    /// The requirement in one line.
    pub text: String,
    /// Where Jobhall deliberately differs from the original, and why; none if it does not.
    pub deviates: Option<String>,
}

/// One list of requirements, all with the same letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Upper-case letter of every row in it.
    pub letter: char,
    /// Heading on the page.
    pub title: String,
    /// Rows numbered from 1 without gaps.
    pub rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    list: Vec<WrittenList>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenList {
    letter: char,
    title: String,
    row: Vec<WrittenRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow {
    id: String,
    text: String,
    deviates: Option<String>,
}

/// Parses the lists and refuses gaps, repetitions, unknown keys and texts of more than one line.
///
/// # Errors
/// A sentence that names the row or the position.
pub fn parse(source: &str) -> Result<Vec<List>, String> {
    let written: Written =
        toml::from_str(source).map_err(|error| format!("failed to read docs/acceptance.toml: {error}"))?;
    let mut letters = BTreeSet::new();
    let lists = written.list.into_iter().map(check_list).collect::<Result<Vec<_>, _>>()?;
    for list in &lists {
        if !letters.insert(list.letter) {
            return Err(format!("the list {} appears twice", list.letter));
        }
    }
    Ok(lists)
}

fn check_list(written: WrittenList) -> Result<List, String> {
    let letter = written.letter;
    let mut rows = Vec::with_capacity(written.row.len());
    for (expected, row) in (1_u32..).zip(written.row) {
        let expected = RowId { letter, number: expected };
        if RowId::parse(&row.id) != Some(expected) || row.id != expected.to_string() {
            return Err(format!("expected row {expected} and found {:?}", row.id));
        }
        rows.push(Row {
            id: expected,
            text: one_line(expected, row.text)?,
            deviates: row.deviates.map(|reason| one_line(expected, reason)).transpose()?,
        });
    }
    Ok(List { letter, title: written.title, rows })
}

fn one_line(id: RowId, text: String) -> Result<String, String> {
    if text.trim().is_empty() || text.contains('\n') {
        return Err(format!("row {id} needs texts of one line each"));
    }
    Ok(text)
}
