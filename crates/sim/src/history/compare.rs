//! Compares two recordings, one step of each at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Lines};
use std::str::FromStr;

use super::BAR;

/// What must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every byte, after the renames are applied to the first recording.
    Words,
    /// The lines of each step in any order; of a commit the units, and of a unit the rows, in any order.
    Agenda,
    /// Everything; but of requests only the ticket, and of answers only the brief form.
    Requests,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        match text {
            "words" => Ok(Mode::Words),
            "agenda" => Ok(Mode::Agenda),
            "requests" => Ok(Mode::Requests),
            _ => Err("not one of words, agenda, requests".to_owned()),
        }
    }
}

impl Mode {
    /// The compared part of a step.
    fn view(self, step: Vec<String>) -> Vec<String> {
        match self {
            Mode::Words => step,
            Mode::Agenda => unordered(step),
            Mode::Requests => step.iter().map(|line| without_details(line)).collect(),
        }
    }
}

/// A step with its lines sorted, a unit as one item of sorted rows.
fn unordered(step: Vec<String>) -> Vec<String> {
    let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut items = Vec::new();
    for line in step {
        match split_unit(&line) {
            Some((unit, row)) => units.entry(unit).or_default().push(row),
            None => items.push(line),
        }
    }
    for mut rows in units.into_values() {
        rows.sort();
        items.push(rows.join("\n"));
    }
    items.sort();
    items
}

/// For a line about a unit: the unit, and the line without the unit's position.
fn split_unit(line: &str) -> Option<(String, String)> {
    let head = &line[..line.find(BAR)?];
    let dot = head.find('.')?;
    let digits = head[dot + 1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(head.len() - dot - 1);
    let end = dot + 1 + digits;
    Some((line[..end].to_owned(), format!("{}{}", &line[..dot], &line[end..])))
}

/// A line without the parts that `Mode::Requests` ignores.
fn without_details(line: &str) -> String {
    let parts = match kind(line) {
        "request" => 1,
        "answer" => 2,
        _ => return line.to_owned(),
    };
    line.split(BAR).take(parts).collect::<Vec<_>>().join(BAR)
}

fn kind(line: &str) -> &str {
    line.split(' ').nth(1).unwrap_or_default()
}

fn begins_step(line: &str) -> bool {
    matches!(kind(line), "start" | "crash" | "request" | "reply" | "end")
}

fn moment(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// Words of the first recording and their names in the second.
#[derive(Clone, Debug, Default)]
pub struct Renames(BTreeMap<String, String>);

impl FromStr for Renames {
    type Err = String;

    /// Reads a table with one `old new` per line.
    fn from_str(text: &str) -> Result<Renames, String> {
        let pair = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [old, new] => Ok((old.to_owned(), new.to_owned())),
            _ => Err(format!("not two words: {line}")),
        };
        text.lines().filter(|line| !line.trim().is_empty()).map(pair).collect::<Result<_, _>>().map(Renames)
    }
}

impl Renames {
    /// Renames whole identifiers after the first bar.
    fn apply(&self, line: String) -> String {
        let Some(bar) = line.find(BAR).filter(|_| !self.0.is_empty()) else { return line };
        let (mut renamed, mut rest) = (line[..bar].to_owned(), &line[bar..]);
        while let Some(start) = rest.find(is_of_word) {
            let end = rest[start..].find(|c| !is_of_word(c)).map_or(rest.len(), |len| start + len);
            let word = &rest[start..end];
            renamed.push_str(&rest[..start]);
            renamed.push_str(self.0.get(word).map_or(word, String::as_str));
            rest = &rest[end..];
        }
        renamed + rest
    }
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A recording that is being read.
struct Recording<R> {
    lines: Lines<R>,
    next: Option<String>,
    renames: Renames,
}

impl<R: BufRead> Recording<R> {
    fn new(read: R, renames: Renames) -> io::Result<Recording<R>> {
        let mut recording = Recording { lines: read.lines(), next: None, renames };
        recording.take()?;
        Ok(recording)
    }

    /// Returns the next line and reads the one after it.
    fn take(&mut self) -> io::Result<Option<String>> {
        let line = self.lines.next().transpose()?.map(|line| self.renames.apply(line));
        Ok(std::mem::replace(&mut self.next, line))
    }

    /// Takes the next line if it is one of these.
    fn take_if(&mut self, wanted: impl Fn(&str) -> bool) -> io::Result<Option<String>> {
        if self.next.as_deref().is_some_and(wanted) { self.take() } else { Ok(None) }
    }

    /// Skips the rest of a run; returns the first line of the next run.
    fn seed(&mut self) -> io::Result<Option<String>> {
        while self.take_if(|line| !is_seed(line))?.is_some() {}
        self.take()
    }

    /// The next step of this run; empty at the end of the run.
    fn step(&mut self) -> io::Result<Vec<String>> {
        let Some(first) = self.take_if(|line| !is_seed(line))? else { return Ok(Vec::new()) };
        let at = moment(&first).to_owned();
        let mut step = vec![first];
        let goes_on = |line: &str| !is_seed(line) && !begins_step(line) && moment(line) == at;
        while let Some(line) = self.take_if(goes_on)? {
            step.push(line);
        }
        Ok(step)
    }
}

fn is_seed(line: &str) -> bool {
    line.starts_with("seed ")
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Number of runs in both recordings.
    pub seeds: u64,
    pub equal: u64,
    pub first: Option<Difference>,
}

/// The lines at which the recordings differ; none if only the other recording has a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The first line of the run.
    pub seed: String,
    /// In the first recording.
    pub left: Option<String>,
    /// In the second recording.
    pub right: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |line: &Option<String>| line.as_deref().unwrap_or("(nothing)").to_owned();
        let (left, right) = (shown(&self.left), shown(&self.right));
        let line = self.left.as_deref().or(self.right.as_deref());
        let at = line.and_then(|line| moment(line).parse::<u64>().ok()).map(|ms| format!(" at {ms} ms"));
        let same = left.chars().zip(right.chars()).take_while(|(one, other)| one == other).count();
        let (seed, at) = (&self.seed, at.unwrap_or_default());
        write!(f, "{seed}{at}, from character {}:\n  {left}\n  {right}", same + 1)
    }
}

/// Compares two recordings.
///
/// # Errors
/// A recording cannot be read.
pub fn compare(
    left: impl BufRead,
    right: impl BufRead,
    mode: Mode,
    renames: Renames,
) -> io::Result<Comparison> {
    let mut left = Recording::new(left, renames)?;
    let mut right = Recording::new(right, Renames::default())?;
    let mut result = Comparison::default();
    loop {
        let difference = match (left.seed()?, right.seed()?) {
            (None, None) => return Ok(result),
            (Some(seed), Some(other)) if seed == other => compare_seed(&mut left, &mut right, mode, &seed)?,
            (left, right) => {
                let seed = "other seeds".to_owned();
                result.first.get_or_insert(Difference { seed, left, right });
                return Ok(result);
            }
        };
        result.seeds += 1;
        result.equal += u64::from(difference.is_none());
        result.first = result.first.or(difference);
    }
}

fn compare_seed<A: BufRead, B: BufRead>(
    left: &mut Recording<A>,
    right: &mut Recording<B>,
    mode: Mode,
    seed: &str,
) -> io::Result<Option<Difference>> {
    loop {
        let (one, other) = (mode.view(left.step()?), mode.view(right.step()?));
        if one != other {
            let (left, right) = unlike(&one, &other);
            return Ok(Some(Difference { seed: seed.to_owned(), left, right }));
        }
        if one.is_empty() {
            return Ok(None);
        }
    }
}

/// The first line of each step that the other does not have; if there is none, the first lines in different
/// positions.
fn unlike(one: &[String], other: &[String]) -> (Option<String>, Option<String>) {
    let lines = |items: &[String]| -> Vec<String> {
        items.iter().flat_map(|item| item.lines()).map(str::to_owned).collect()
    };
    let (one, other) = (lines(one), lines(other));
    let missing =
        |these: &[String], those: &[String]| these.iter().find(|line| !those.contains(line)).cloned();
    match (missing(&one, &other), missing(&other, &one)) {
        (None, None) => {
            let at = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
            (one.get(at).cloned(), other.get(at).cloned())
        }
        found => found,
    }
}
