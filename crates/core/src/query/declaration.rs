//! What a command says about itself, and the checks of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::arguments::is_false;
use super::{CommandName, Expiry, Modes, Parameter, ParameterType, Version};
use crate::bounds::{DELAY_MS, MAX_ATTEMPTS};
use crate::needs::{Needs, Uses, slips};

/// Maximum number of arguments of a command.
pub const PARAMETERS_MAX: usize = 32;
/// Maximum number of words of a command line, of files, formats, and variables.
pub const ENTRIES_MAX: usize = 256;
/// Longest text of a declaration, in bytes.
pub const DECLARED_BYTES_MAX: usize = 4_096;
/// The media type of a value if its command declares none.
const MEDIA_TYPE: &str = "application/octet-stream";
/// Shortest and longest time between two runs of a check.
const CHECK_MS: std::ops::RangeInclusive<u64> = 100..=DELAY_MS;
/// Programs that run a text as code, and how the flag before the code ends.
const INTERPRETERS: [&str; 14] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox", "python", "python3", "perl", "ruby",
    "node", "php",
];

/// A command: what it runs, its arguments, and how its values are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    pub name: CommandName,
    /// The command line; empty for a function of a program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<Parameter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Files whose content is part of the version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Replaces the hash of the declaration and its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The extensions of file names that choose a form of the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<String>,
    /// The media type of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How often a failed step is repeated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Expiry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<Uses>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub modes: Modes,
    /// Whether no "--" goes before the arguments that are appended to `run`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_dash_dash: bool,
}

fn is_zero(value: &u16) -> bool {
    *value == 0
}

fn is_default(modes: &Modes) -> bool {
    *modes == Modes::default()
}

/// A cheap program whose output is part of the identity: the data is elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub run: Vec<String>,
    pub every_ms: u64,
}

/// Which field of a declaration is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclarationError {
    pub command: String,
    pub field: String,
    pub why: String,
}

impl fmt::Display for DeclarationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "commands.{}.{}: {}", self.command, self.field, self.why)
    }
}

impl std::error::Error for DeclarationError {}

/// The field and the reason.
type Wrong = (String, String);

impl Declaration {
    /// A command without arguments that is run by these words.
    #[must_use]
    pub fn new(name: CommandName) -> Declaration {
        Declaration {
            name,
            run: Vec::new(),
            args: Vec::new(),
            help: None,
            files: Vec::new(),
            version: None,
            env: BTreeMap::new(),
            formats: Vec::new(),
            media_type: None,
            timeout_ms: None,
            retries: 0,
            expires: None,
            check: None,
            needs: None,
            uses: None,
            modes: Modes::default(),
            no_dash_dash: false,
        }
    }

    /// The media type of its values.
    #[must_use]
    pub fn media_type(&self) -> &str {
        self.media_type.as_deref().unwrap_or(MEDIA_TYPE)
    }

    /// Checks the declaration and brings the defaults of its arguments into their one form.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn checked(mut self) -> Result<Declaration, DeclarationError> {
        let named = |(field, why): Wrong| DeclarationError { command: self.name.to_string(), field, why };
        check_bounds(&self).map_err(named)?;
        check_parameters(&self.args).map_err(named)?;
        check_lines(&self).map_err(named)?;
        check_formats(&self).map_err(named)?;
        for parameter in &mut self.args {
            let normal = parameter.default.as_ref().and_then(|text| parameter.normalise(text).ok());
            parameter.default = normal;
        }
        Ok(self)
    }

    /// The command line for these arguments, one text for each parameter. `{name}` is a whole word or follows "=";
    /// what has no place is appended.
    #[must_use]
    pub fn command_line(&self, arguments: &[String]) -> Vec<String> {
        let mut line: Vec<String> = self.run.iter().map(|word| self.filled(word, arguments)).collect();
        let placed = |parameter: &Parameter| self.run.iter().any(|word| place(word) == Some(&parameter.name));
        let appended: Vec<&String> = self
            .args
            .iter()
            .zip(arguments)
            .filter(|(parameter, _)| !placed(parameter))
            .map(|(_, text)| text)
            .collect();
        if !appended.is_empty() && !self.no_dash_dash {
            line.push("--".to_owned());
        }
        line.extend(appended.into_iter().cloned());
        line
    }

    /// The command line of the check for these arguments; empty if there is no check. Nothing is appended.
    #[must_use]
    pub fn check_line(&self, arguments: &[String]) -> Vec<String> {
        let words = self.check.iter().flat_map(|check| &check.run);
        words.map(|word| self.filled(word, arguments)).collect()
    }

    fn filled(&self, word: &str, arguments: &[String]) -> String {
        let position = |name: &str| self.args.iter().position(|parameter| parameter.name == name);
        match place(word).and_then(|name| Some((name, arguments.get(position(name)?)?))) {
            Some((name, text)) => format!("{}{text}", &word[..word.len() - name.len() - 2]),
            None => word.to_owned(),
        }
    }
}

/// The name in `{name}` or `…={name}`.
fn place(word: &str) -> Option<&str> {
    let (before, name) = word.strip_suffix('}')?.rsplit_once('{')?;
    ((before.is_empty() || before.ends_with('=')) && is_name(name)).then_some(name)
}

fn is_name(name: &str) -> bool {
    let first = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    first && name.len() <= 48 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn wrong<T>(field: &str, why: impl Into<String>) -> Result<T, Wrong> {
    Err((field.to_owned(), why.into()))
}

fn check_bounds(declaration: &Declaration) -> Result<(), Wrong> {
    let d = declaration;
    for (field, count) in
        [("run", d.run.len()), ("files", d.files.len()), ("env", d.env.len()), ("formats", d.formats.len())]
            .into_iter()
            .chain(d.check.iter().map(|check| ("check", check.run.len())))
    {
        if count > ENTRIES_MAX {
            return wrong(field, format!("has {count} entries, the limit is {ENTRIES_MAX}"));
        }
    }
    let env = d.env.iter().flat_map(|(name, value)| [("env", name), ("env", value)]);
    let arguments = d.args.iter().flat_map(|one| one.help.iter().chain(&one.default).chain(&one.values));
    let texts = d.run.iter().map(|text| ("run", text)).chain(d.files.iter().map(|text| ("files", text)));
    let texts = texts.chain(env).chain(d.formats.iter().map(|text| ("formats", text)));
    let texts = texts.chain(arguments.map(|text| ("args", text)));
    let texts = texts.chain(d.check.iter().flat_map(|check| &check.run).map(|text| ("check", text)));
    for (field, text) in texts.chain(d.help.iter().map(|text| ("help", text))) {
        if text.len() > DECLARED_BYTES_MAX || text.contains('\0') {
            return wrong(field, format!("a text has up to {DECLARED_BYTES_MAX} bytes and no NUL"));
        }
    }
    if let Some(name) = d.env.keys().find(|name| name.is_empty() || name.contains('=')) {
        return wrong("env", format!("{name:?} is no name of a variable"));
    }
    if d.timeout_ms.is_some_and(|ms| ms == 0 || ms > DELAY_MS) {
        return wrong("timeout", "is between 1ms and 365 days");
    }
    if d.retries >= MAX_ATTEMPTS {
        return wrong("retries", format!("is below {MAX_ATTEMPTS}"));
    }
    match &d.check {
        Some(check) if check.run.is_empty() => wrong("check", "names no program"),
        Some(check) if !CHECK_MS.contains(&check.every_ms) => {
            wrong("check_every", "is between 100ms and 365 days")
        }
        _ => Ok(()),
    }
}

fn check_parameters(parameters: &[Parameter]) -> Result<(), Wrong> {
    if parameters.len() > PARAMETERS_MAX {
        return wrong("args", format!("has {} entries, the limit is {PARAMETERS_MAX}", parameters.len()));
    }
    let (mut names, mut optional) = (BTreeSet::new(), None);
    for (at, parameter) in parameters.iter().enumerate() {
        let field = |name: &str| format!("args[{at}].{name}");
        if !is_name(&parameter.name) {
            let why = "has up to 48 letters, digits and \"_\", and begins with a lower-case letter or \"_\"";
            return wrong(&field("name"), why);
        }
        if !names.insert(&parameter.name) {
            return wrong(&field("name"), format!("{} is the name of two arguments", parameter.name));
        }
        if parameter.ignore && parameter.kind == ParameterType::Link {
            return wrong(&field("ignore"), "a link always counts");
        }
        check_values(parameter).map_err(|why| (field("values"), why))?;
        check_default(parameter).map_err(|why| (field("default"), why))?;
        match (&parameter.default, optional) {
            (None, Some(before)) => {
                let why = format!("{} is required, and {before} before it may be left out", parameter.name);
                return wrong(&field("default"), why);
            }
            (Some(_), _) => optional = Some(&parameter.name),
            (None, None) => {}
        }
    }
    Ok(())
}

fn check_values(parameter: &Parameter) -> Result<(), String> {
    let distinct: BTreeSet<&String> = parameter.values.iter().collect();
    match (parameter.kind, parameter.values.len()) {
        (ParameterType::OneOf, 0) => Err("one_of needs the values to choose from".to_owned()),
        (ParameterType::OneOf, count) if count > ENTRIES_MAX => {
            Err(format!("has {count} entries, the limit is {ENTRIES_MAX}"))
        }
        (ParameterType::OneOf, count) if distinct.len() < count => Err("names a value twice".to_owned()),
        (ParameterType::OneOf, _) | (_, 0) => Ok(()),
        _ => Err("belongs to the type one_of".to_owned()),
    }
}

fn check_default(parameter: &Parameter) -> Result<(), String> {
    let Some(default) = &parameter.default else { return Ok(()) };
    let normal =
        parameter.normalise(default).map_err(|expected| format!("is {expected}, not {default:?}"))?;
    let number = matches!(parameter.kind, ParameterType::Int | ParameterType::Number);
    if normal.starts_with('-') && !number && !parameter.dash {
        return Err("begins with \"-\", which needs dash = true".to_owned());
    }
    if normal.contains('\0') { Err("contains a NUL".to_owned()) } else { Ok(()) }
}

/// The command lines, of the steps and of the check.
fn check_lines(declaration: &Declaration) -> Result<(), Wrong> {
    check_line("run", &declaration.run, &declaration.args)?;
    let Some(check) = &declaration.check else { return Ok(()) };
    check_line("check", &check.run, &declaration.args)?;
    for (at, word) in check.run.iter().enumerate() {
        let link = |parameter: &&Parameter| {
            parameter.kind == ParameterType::Link && place(word) == Some(&parameter.name)
        };
        if let Some(link) = declaration.args.iter().find(link) {
            let why = format!("{{{}}} is a link, whose value a check does not have", link.name);
            return wrong(&format!("check[{at}]"), why);
        }
    }
    Ok(())
}

fn check_line(line: &str, words: &[String], args: &[Parameter]) -> Result<(), Wrong> {
    let names: Vec<&str> = args.iter().map(|parameter| parameter.name.as_str()).collect();
    if words.first().is_some_and(String::is_empty) {
        return wrong(line, "names no program");
    }
    for (at, word) in words.iter().enumerate() {
        let field = format!("{line}[{at}]");
        let Some(name) = place(word) else {
            match names.iter().find(|name| word.contains(&format!("{{{name}}}"))) {
                None => continue,
                Some(name) => {
                    return wrong(
                        &field,
                        format!(
                            "{{{name}}} is a whole word or follows \"=\"; inside a longer text a URL could change \
                             what runs. A script takes it as \"$1\": run = [\"sh\", \"script.sh\", \"{{{name}}}\"]"
                        ),
                    );
                }
            }
        };
        if !names.contains(&name) {
            match names.iter().find(|known| slips(name, known) <= 1) {
                Some(known) => {
                    return wrong(&field, format!("no argument is named {name}; did you mean {{{known}}}?"));
                }
                None => continue,
            }
        }
        if at == 0 {
            return wrong(&field, format!("{{{name}}} would let a URL choose the program"));
        }
        if is_code(words, at) {
            let why = format!(
                "{{{name}}} would be run as code; write the code to a file and pass {{{name}}} to it"
            );
            return wrong(&field, why);
        }
    }
    Ok(())
}

/// Whether an interpreter takes this word as code, as a shell does after `-c`.
fn is_code(run: &[String], at: usize) -> bool {
    let interpreted = run[..at].iter().any(|word| {
        let program = word.rsplit('/').next().unwrap_or_default();
        INTERPRETERS.contains(&program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
            || INTERPRETERS.contains(&program)
    });
    let flag = &run[at - 1];
    let short = flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with(['c', 'e', 'r', 'E']);
    interpreted && (short || matches!(flag.as_str(), "--eval" | "--command" | "--print" | "-p"))
}

fn check_formats(declaration: &Declaration) -> Result<(), Wrong> {
    let distinct: BTreeSet<&String> = declaration.formats.iter().collect();
    if distinct.len() < declaration.formats.len() {
        return wrong("formats", "names a format twice");
    }
    let plain = |format: &&String| {
        (1..=16).contains(&format.len())
            && format.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if let Some(format) = declaration.formats.iter().find(|format| !plain(format)) {
        return wrong("formats", format!("{format:?} is no extension: up to 16 small letters and digits"));
    }
    match &declaration.media_type {
        Some(text) if !is_media_type(text) => wrong("media_type", format!("{text:?} is no media type")),
        _ => Ok(()),
    }
}

/// `type/subtype` with parameters; only characters that a header may have.
fn is_media_type(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or_default().trim();
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let whole = text.len() <= 128 && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    whole && essence.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

/// Serialisation of what has a text that is not stored.
macro_rules! text_form {
    ($type:ty, $parse:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                $parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(super) use text_form;
