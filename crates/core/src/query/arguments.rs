//! Arguments by their types: one meaning has one text, so `007`, `+7` and `7` are the same whole number.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::error::{QueryError, QueryErrorKind as Kind};
use super::text::escaped;
use super::{Argument, Declaration, Given, Span, Step};
use crate::needs::slips;
use crate::time::TimeSpan;

/// How much of a wrong argument an error shows.
const SHOWN_CHARS: usize = 60;
/// Longest step that an error suggests, in bytes.
const MEANT_BYTES_MAX: usize = 200;

/// What a command says about one of its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    pub name: String,
    #[serde(rename = "type", default)]
    pub kind: ParameterType,
    /// The words that are allowed, for `one_of`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Taken if the argument is left out; without one the argument is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Whether the argument does not change what the query means, such as a number of threads.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignore: bool,
    /// Whether the text may begin with "-".
    #[serde(default, skip_serializing_if = "is_false")]
    pub dash: bool,
}

pub(super) fn is_false(value: &bool) -> bool {
    !value
}

/// The type of an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterType {
    #[default]
    Text,
    /// A whole number of 64 bits.
    Int,
    Number,
    Bool,
    /// A day, such as `2026-01-31`.
    Date,
    /// A duration, such as `1h30m`.
    Span,
    /// One of the parameter's values.
    OneOf,
    /// The value of another query.
    Link,
}

/// An argument of a planned step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed<L> {
    /// The one text of what was meant.
    Text(String),
    /// The value of another query.
    Link(L),
}

impl Parameter {
    /// The one text of what this text means; else what is expected.
    pub(super) fn normalise(&self, text: &str) -> Result<String, String> {
        let expected = |what: &str| Err(what.to_owned());
        match self.kind {
            ParameterType::Text => Ok(text.to_owned()),
            ParameterType::Int => {
                text.parse::<i64>().map(|n| n.to_string()).or_else(|_| expected("a whole number"))
            }
            ParameterType::Number => number(text).map_or_else(|| expected("a number"), Ok),
            ParameterType::Bool => boolean(text).map_or_else(|| expected("true or false"), Ok),
            ParameterType::Date => {
                date(text).map_or_else(|| expected("a date such as 2026-01-31 (in a URL 2026~_01~_31)"), Ok)
            }
            ParameterType::Span => TimeSpan::parse(text)
                .map_or_else(|| expected("a duration such as 30s or 1h30m"), |span| Ok(span.to_string())),
            ParameterType::OneOf => self.one_of(text),
            ParameterType::Link => expected("a query"),
        }
    }

    fn one_of(&self, text: &str) -> Result<String, String> {
        if self.values.iter().any(|value| value == text) {
            return Ok(text.to_owned());
        }
        let near = self.values.iter().find(|value| slips(text, value) <= 2);
        let hint = near.map_or_else(String::new, |value| format!(" (did you mean {value:?}?)"));
        Err(format!("one of {}{hint}", self.values.join(", ")))
    }

    /// Whether a value of this type may begin with a dash without being an option: it is checked to be no word.
    fn admits_dash(&self) -> bool {
        self.dash || matches!(self.kind, ParameterType::Int | ParameterType::Number)
    }

    /// Checks and normalises what is given.
    fn typed(&self, command: &str, text: &str, span: Span) -> Result<String, QueryError> {
        let argument = self.name.clone();
        let (command, found) = (command.to_owned(), text.chars().take(SHOWN_CHARS).collect());
        let normal = match self.normalise(text) {
            Ok(normal) => normal,
            Err(expected) => {
                let kind = Kind::BadArgument { command, argument, found, expected };
                return Err(QueryError::new(span, kind));
            }
        };
        if normal.starts_with('-') && !self.admits_dash() {
            return Err(QueryError::new(span, Kind::DashNotAllowed { command, argument, found }));
        }
        Ok(normal)
    }
}

/// The shortest text that is read as the same number; no infinity, and 0 without a sign.
fn number(text: &str) -> Option<String> {
    let written = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let number: f64 = text.parse().ok().filter(|number: &f64| written && number.is_finite())?;
    if number == 0.0 {
        return Some("0".to_owned());
    }
    let plain = (1e-5..1e16).contains(&number.abs());
    Some(if plain { format!("{number}") } else { format!("{number:e}") })
}

fn boolean(text: &str) -> Option<String> {
    match text {
        "true" | "yes" | "1" => Some("true".to_owned()),
        "false" | "no" | "0" => Some("false".to_owned()),
        _ => None,
    }
}

fn date(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
    if bytes.len() != 10
        || bytes[4] != b'-'
        || bytes[7] != b'-'
        || !(digits(0..4) && digits(5..7) && digits(8..10))
    {
        return None;
    }
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<i16>().ok();
    let (month, day) = (i8::try_from(part(5, 7)?).ok()?, i8::try_from(part(8, 10)?).ok()?);
    Date::new(part(0, 4)?, month, day).ok().map(|date| date.to_string())
}

/// The arguments of a step, one for each parameter. `link` plans the query of a link.
pub(super) fn resolve<L>(
    declaration: &Declaration,
    step: &Step,
    mut link: impl FnMut(&super::Link) -> Result<L, QueryError>,
) -> Result<Vec<Typed<L>>, QueryError> {
    let command = declaration.name.as_str();
    check_count(declaration, step)?;
    let mut resolved = Vec::with_capacity(declaration.args.len());
    for (at, parameter) in declaration.args.iter().enumerate() {
        let wants_link = parameter.kind == ParameterType::Link;
        resolved.push(match (step.arguments.get(at), wants_link) {
            (Some(Argument { given: Given::Link(query), .. }), true) => Typed::Link(link(query)?),
            (Some(Argument { given: Given::Text(text), span }), false) => {
                Typed::Text(parameter.typed(command, text, *span)?)
            }
            (Some(argument), _) => {
                let (command, name) = (command.to_owned(), parameter.name.clone());
                let kind = if wants_link {
                    Kind::LinkExpected { command, argument: name }
                } else {
                    Kind::LinkNotAllowed { command, argument: name }
                };
                return Err(QueryError::new(argument.span, kind));
            }
            // The declaration was checked: its default has the right type, and what is required was counted.
            (None, _) => Typed::Text(parameter.default.clone().unwrap_or_default()),
        });
    }
    Ok(resolved)
}

fn check_count(declaration: &Declaration, step: &Step) -> Result<(), QueryError> {
    let (most, given) = (declaration.args.len(), step.arguments.len());
    let command = declaration.name.as_str().to_owned();
    if given > most {
        let meant = joined(declaration, step);
        let kind = Kind::TooManyArguments { command, most, given, meant };
        return Err(QueryError::new(step.span, kind));
    }
    let missing = declaration.args.iter().skip(given).find(|parameter| parameter.default.is_none());
    missing.map_or(Ok(()), |parameter| {
        let least = declaration.args.iter().filter(|parameter| parameter.default.is_none()).count();
        let argument = parameter.name.clone();
        let kind = Kind::MissingArgument { command, argument, least, given };
        Err(QueryError::new(step.span, kind))
    })
}

/// The step with as many arguments as the command takes, if equally many of the given ones were meant as each.
fn joined(declaration: &Declaration, step: &Step) -> Option<String> {
    let (most, given) = (declaration.args.len(), step.arguments.len());
    if most == 0 || given % most != 0 {
        return None;
    }
    let texts: Vec<&str> = step
        .arguments
        .iter()
        .map(|argument| match &argument.given {
            Given::Text(text) => Some(text.as_str()),
            Given::Link(_) => None,
        })
        .collect::<Option<_>>()?;
    let meant: Vec<String> = texts.chunks(given / most).map(|texts| texts.join("-")).collect();
    let fits = declaration.args.iter().zip(&meant).all(|(parameter, text)| parameter.normalise(text).is_ok());
    let text: String = meant.iter().map(|text| format!("-{}", escaped(text))).collect();
    let short = text.len() <= MEANT_BYTES_MAX;
    (fits && short).then(|| format!("{}{text}", declaration.name))
}
