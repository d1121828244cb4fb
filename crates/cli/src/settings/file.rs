//! One layer of settings in a file. Unknown keys are rejected with their line number, so that typos are found.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::database::Database;
use crate::failure::{Failure, Outcome};
use crate::worker_file::project;
use crate::{hosts, listen, suggest};

/// The values of one layer; see [`super::Settings`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    pub server: Option<String>,
    pub token: Option<String>,
    pub token_file: Option<String>,
    pub data: Option<String>,
    pub color: Option<String>,
    pub log: Option<String>,
    pub log_format: Option<String>,
    pub ca: Option<String>,
    pub pin: Option<String>,
    pub tls_cert: Option<String>,
    pub tls_key: Option<String>,
    pub hosts: Option<String>,
    pub database: Option<String>,
    pub database_direct: Option<String>,
    pub database_pooled: Option<String>,
    pub advertise: Option<String>,
    pub key_file: Option<String>,
    pub cache_size: Option<String>,
    pub cache_values: Option<String>,
}

/// The keys that a file may have.
pub const KEYS: [&str; 19] = [
    "server",
    "token",
    "token_file",
    "data",
    "color",
    "log",
    "log_format",
    "ca",
    "pin",
    "tls_cert",
    "tls_key",
    "hosts",
    "database",
    "database_direct",
    "database_pooled",
    "advertise",
    "key_file",
    "cache_size",
    "cache_values",
];
/// The values of `color`.
pub const COLORS: [&str; 3] = ["auto", "always", "never"];
/// The values of `log`, the quietest first.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The values of booleans.
pub const FLAGS: [&str; 2] = ["true", "false"];
/// The values of `log_format`.
pub const FORMATS: [&str; 2] = ["text", "json"];

impl Layer {
    fn slot(&mut self, key: &str) -> Option<&mut Option<String>> {
        Some(match key {
            "server" => &mut self.server,
            "token" => &mut self.token,
            "token_file" => &mut self.token_file,
            "data" => &mut self.data,
            "color" => &mut self.color,
            "log" => &mut self.log,
            "log_format" => &mut self.log_format,
            "ca" => &mut self.ca,
            "pin" => &mut self.pin,
            "tls_cert" => &mut self.tls_cert,
            "tls_key" => &mut self.tls_key,
            "hosts" => &mut self.hosts,
            "database" => &mut self.database,
            "database_direct" => &mut self.database_direct,
            "database_pooled" => &mut self.database_pooled,
            "advertise" => &mut self.advertise,
            "key_file" => &mut self.key_file,
            "cache_size" => &mut self.cache_size,
            "cache_values" => &mut self.cache_values,
            _ => return None,
        })
    }
}

/// The layer in a file; an empty one if the file does not exist.
pub fn read(path: &Path) -> Outcome<Layer> {
    let Some(text) = text(path)? else { return Ok(Layer::default()) };
    parse(&text, &path.display().to_string())
}

/// The layer in the table `client` of the file of a repository. The other tables are read by the commands that use them.
pub fn read_project(path: &Path) -> Outcome<Layer> {
    let Some(text) = text(path)? else { return Ok(Layer::default()) };
    parse_project(&text, &path.display().to_string())
}

fn text(path: &Path) -> Outcome<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(Failure::usage(format!("failed to read {}", path.display())).why(error.to_string()))
        }
    }
}

/// The layer in a text; `name` is the file's name for messages.
pub fn parse(text: &str, name: &str) -> Outcome<Layer> {
    layer(table(text, name)?.get_ref(), text, name)
}

fn parse_project(text: &str, name: &str) -> Outcome<Layer> {
    let table = table(text, name)?;
    let client = table.get_ref().iter().find(|(key, _)| key.get_ref().as_ref() == project::CLIENT);
    let Some((key, value)) = client else { return Ok(Layer::default()) };
    let DeValue::Table(client) = value.get_ref() else {
        let at = place(text, name, key.span());
        return Err(Failure::usage(format!("{at}: {} must be a table", project::CLIENT)));
    };
    layer(client, text, name)
}

fn table<'a>(text: &'a str, name: &str) -> Outcome<Spanned<DeTable<'a>>> {
    DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or_else(|| name.to_owned(), |span| place(text, name, span));
        Failure::usage(format!("{at}: not TOML")).why(error.message().trim().to_owned())
    })
}

fn place(text: &str, name: &str, span: Range<usize>) -> String {
    format!("{name}:{}", line_of(text, span.start))
}

fn layer(table: &DeTable<'_>, text: &str, name: &str) -> Outcome<Layer> {
    let mut layer = Layer::default();
    for (key, value) in table.iter() {
        let (word, at) = (key.get_ref().as_ref(), place(text, name, key.span()));
        let slot = layer.slot(word).ok_or_else(|| unknown(word, &at))?;
        let DeValue::String(value) = value.get_ref() else {
            return Err(Failure::usage(format!("{at}: {word} must be a quoted string")));
        };
        *slot = Some(value.to_string());
        check(word, value, &at)?;
    }
    Ok(layer)
}

/// Validates the value of a key. `place` is the origin of the value.
pub fn check(key: &str, value: &str, place: &str) -> Outcome<()> {
    let words: &[&str] = match key {
        "color" => &COLORS,
        "log" => &LEVELS,
        "log_format" => &FORMATS,
        "database_pooled" => &FLAGS,
        // `@FILE` is read later, when it is needed.
        "database" if value.starts_with('@') => return Ok(()),
        "database" => {
            let read = Database::parse(value).map(drop);
            return read.map_err(|why| Failure::usage(format!("{place}: {key}: {why}")));
        }
        "cache_size" | "cache_values" => {
            let read = match key {
                "cache_size" => listen::cache_size(value).map(drop),
                _ => listen::cache_values(value).map(drop),
            };
            return read.map_err(|why| Failure::usage(format!("{place}: {key}: {why}")));
        }
        "hosts" => {
            let read = hosts::names(value).map(drop);
            return read.map_err(|why| Failure::usage(format!("{place}: {key}: {why}")));
        }
        _ => return Ok(()),
    };
    if words.contains(&value) {
        return Ok(());
    }
    let hint = suggest::hint(value, words.iter().copied());
    Err(Failure::usage(format!("{place}: {key} is one of {}, not {value:?}{hint}", words.join(", "))))
}

fn unknown(word: &str, at: &str) -> Failure {
    if project::TABLES.contains(&word) {
        let name = project::NAME;
        return Failure::usage(format!("{at}: the table {word:?} is no setting"))
            .why(format!("the types and commands of a repository are in {name}, which `jobhall up` serves"))
            .fix(format!("move it to {name}"));
    }
    let hint = suggest::hint(word, KEYS);
    Failure::usage(format!("{at}: unknown key {word:?}{hint}"))
        .fix(format!("known keys: {}", KEYS.join(", ")))
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, "config.toml").unwrap_err().what
    }

    #[test]
    fn the_settings_of_a_repository_are_in_a_table_of_its_file() {
        let name = project::NAME;
        let text = "[commands.a]\nrun = ['x']\n[client]\nserver = 'http://hall:1'\n";
        assert_eq!(parse_project(text, name).unwrap().server.as_deref(), Some("http://hall:1"));
        assert_eq!(parse_project("[commands.a]\nrun = ['x']\n", name).unwrap(), Layer::default());
        let error = |text: &str| parse_project(text, name).unwrap_err().what;
        assert_eq!(
            error("\n[client]\nsever = 'x'"),
            ".jobhall.toml:3: unknown key \"sever\"; did you mean \"server\"?"
        );
        assert_eq!(error("client = 1"), ".jobhall.toml:1: client must be a table");
    }

    #[test]
    fn known_keys_are_read() {
        let layer = parse("server = 'http://hall:1'\ncolor = \"never\"\n", "f").unwrap();
        assert_eq!(layer.server.as_deref(), Some("http://hall:1"));
        assert_eq!(layer.color.as_deref(), Some("never"));
        assert_eq!(parse("# nothing\n", "f").unwrap(), Layer::default());
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_what_was_meant() {
        assert_eq!(
            error("# a\n\nsever = 'x'"),
            "config.toml:3: unknown key \"sever\"; did you mean \"server\"?"
        );
        assert_eq!(error("[commands.a]\nrun = ['x']"), "config.toml:1: the table \"commands\" is no setting");
        assert_eq!(error("elephant = 1"), "config.toml:1: unknown key \"elephant\"");
        assert_eq!(error("\nserver = 7"), "config.toml:2: server must be a quoted string");
        assert!(error("color = 'alway'").ends_with("not \"alway\"; did you mean \"always\"?"));
        assert_eq!(error("data = 'x'\nserver = ["), "config.toml:2: not TOML");
        assert!(error("\nhosts = 'a.example, b:1'").starts_with("config.toml:2: hosts: the host \"b:1\""));
    }
}
