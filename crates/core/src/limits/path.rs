//! Finds a value in a JSON text by its path, without parsing the rest.
//!
//! The text was validated when it was received, so values that are not on the path are skipped by their quotes and
//! brackets: every job of a limit by `params` is processed here.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

/// One step into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into an object.
    Name(Box<str>),
    /// Into a list, from 0.
    Index(u32),
}

/// Whether an unquoted name may begin with this character.
pub(super) fn is_bare_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Whether an unquoted name may continue with this character.
pub(super) fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// A text in quotes, as written in an expression.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Name(name) if name.starts_with(is_bare_start) && name.chars().all(is_bare) => {
                write!(f, ".{name}")
            }
            Step::Name(name) => write!(f, "[{}]", quoted(name)),
        }
    }
}

/// The text of the string, number or boolean at the end of the path; none if there is none.
pub(super) fn value<'j>(json: &'j str, steps: &[Step]) -> Option<Cow<'j, str>> {
    let mut found = Text(json).next()?;
    for step in steps {
        found = match step {
            Step::Name(name) => member(found, name)?,
            Step::Index(index) => element(found, *index)?,
        };
    }
    scalar(found)
}

/// The value of this name in an object. If a name occurs twice the last one counts, as in most JSON parsers.
fn member<'j>(object: &'j str, name: &str) -> Option<&'j str> {
    let mut text = Text(object.strip_prefix('{')?);
    let mut found = None;
    while let Some(key) = text.next() {
        text.pass(':');
        let value = text.next()?;
        text.pass(',');
        if word(key).is_some_and(|key| key == name) {
            found = Some(value);
        }
    }
    found
}

fn element(list: &str, index: u32) -> Option<&str> {
    let mut text = Text(list.strip_prefix('[')?);
    for _ in 0..index {
        text.next()?;
        text.pass(',');
    }
    text.next()
}

/// The content of a text in quotes.
fn word(quoted: &str) -> Option<Cow<'_, str>> {
    let plain = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if plain.contains('\\') { serde_json::from_str(quoted).ok().map(Cow::Owned) } else { Some(plain.into()) }
}

fn scalar(value: &str) -> Option<Cow<'_, str>> {
    match value.as_bytes() {
        [b'"', ..] => word(value),
        [b'1'..=b'9', rest @ ..] if rest.len() < 18 && rest.iter().all(u8::is_ascii_digit) => {
            Some(value.into())
        }
        _ => match serde_json::from_str(value).ok()? {
            Value::Bool(truth) => Some(truth.to_string().into()),
            Value::Number(number) => Some(number_text(&number).into()),
            _ => None,
        },
    }
}

/// A number as digits, so that `1e2`, `100.0` and `100` are one.
fn number_text(number: &serde_json::Number) -> String {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(value), ..) => value.to_string(),
        (_, Some(value), _) => value.to_string(),
        (.., Some(value)) => value.to_string(),
        _ => number.to_string(),
    }
}

/// The rest of a text of JSON.
struct Text<'j>(&'j str);

impl<'j> Text<'j> {
    /// The next value as text; none at a closing bracket or the end.
    fn next(&mut self) -> Option<&'j str> {
        self.skip_space();
        let end = match self.0.as_bytes().first()? {
            b'"' => string_end(self.0)?,
            b'{' | b'[' => nested_end(self.0)?,
            b'}' | b']' => return None,
            _ => self.0.bytes().position(|byte| b",}] \t\n\r".contains(&byte)).unwrap_or(self.0.len()),
        };
        let (value, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(value)
    }

    /// Goes past this mark, if it is next.
    fn pass(&mut self, mark: char) {
        self.skip_space();
        self.0 = self.0.strip_prefix(mark).unwrap_or(self.0);
    }

    fn skip_space(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }
}

/// Where a text in quotes ends: at the first quote that is not escaped by a backslash.
fn string_end(text: &str) -> Option<usize> {
    let mut at = 1;
    loop {
        at += text.get(at..)?.find('"')? + 1;
        let before = text.as_bytes().get(..at - 1)?;
        let backslashes = before.iter().rev().take_while(|&&byte| byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some(at);
        }
    }
}

/// Where an object or a list ends.
fn nested_end(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_u32);
    loop {
        match text.as_bytes().get(at)? {
            b'"' => at += string_end(text.get(at..)?)? - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
}
