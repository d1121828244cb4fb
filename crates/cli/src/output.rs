//! All output. Data goes to standard output, messages to standard error.

pub mod human;
pub mod json;
pub mod progress;
pub mod state;
pub mod table;

use std::io::{IsTerminal as _, Write as _};

use anstream::ColorChoice;
use serde::Serialize;

use crate::args::Globals;
use crate::failure::{Failure, Outcome};
use table::Table;

/// The form of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tables and text.
    Human,
    Json,
    /// One JSON document per line.
    Jsonl,
}

#[derive(Clone, Debug)]
pub struct Output {
    pub format: Format,
    /// The requested fields; all if empty.
    pub fields: Vec<String>,
    quiet: bool,
    verbose: bool,
}

impl Output {
    /// Created from the global options, with `color` from the settings.
    pub fn new(globals: &Globals, color: &str) -> Output {
        let choice = match color {
            "always" => ColorChoice::Always,
            "never" => ColorChoice::Never,
            _ => ColorChoice::Auto,
        };
        choice.write_global();
        let format = match (globals.json, globals.jsonl) {
            (true, _) => Format::Json,
            (_, true) => Format::Jsonl,
            _ => Format::Human,
        };
        let Globals { quiet, verbose, .. } = *globals;
        Output { format, fields: globals.fields.clone(), quiet, verbose }
    }

    pub fn line(&self, text: &str) -> Outcome<()> {
        print(text)
    }

    /// Prints bytes unchanged, except that colours are removed if the terminal does not want them.
    pub fn raw(&self, bytes: &[u8]) -> Outcome<()> {
        let plain = std::io::stdout().is_terminal() && ColorChoice::global() == ColorChoice::Never;
        let mut stdout = std::io::stdout().lock();
        let written = if plain {
            anstream::StripStream::new(&mut stdout).write_all(bytes)
        } else {
            stdout.write_all(bytes)
        };
        written.and_then(|()| std::io::stdout().flush()).map_err(Failure::from)
    }

    /// Prints bytes of a job's standard error on standard error.
    pub fn raw_error(&self, bytes: &[u8]) -> Outcome<()> {
        let plain = std::io::stderr().is_terminal() && ColorChoice::global() == ColorChoice::Never;
        let mut stderr = std::io::stderr().lock();
        let written = if plain {
            anstream::StripStream::new(&mut stderr).write_all(bytes)
        } else {
            stderr.write_all(bytes)
        };
        written.map_err(Failure::from)
    }

    /// Prints one value: as JSON if requested, otherwise as `human` formats it.
    pub fn one<T: Serialize>(&self, thing: &T, human: impl FnOnce() -> String) -> Outcome<()> {
        match self.format {
            Format::Json => self.line(&json::pretty(&json::pick(thing, &self.fields)?)?),
            Format::Jsonl => self.line(&json::compact(&json::pick(thing, &self.fields)?)?),
            Format::Human if self.fields.is_empty() => self.line(human().trim_end()),
            Format::Human => self.line(&json::lines(&json::pick(thing, &self.fields)?)),
        }
    }

    /// Prints a list: as JSON if requested, otherwise as a table.
    pub fn list<T: Serialize>(&self, things: &[T], table: impl FnOnce() -> Table) -> Outcome<()> {
        match self.format {
            Format::Json => self.line(&json::document(things, &self.fields)?),
            Format::Jsonl => things.iter().try_for_each(|thing| self.each(thing)),
            Format::Human if things.is_empty() => Ok(()),
            Format::Human if self.fields.is_empty() => self.table(&table()),
            Format::Human => self.table(&json::table(things, &self.fields)?),
        }
    }

    /// Prints one value of a list as a line of JSON.
    pub fn each<T: Serialize>(&self, thing: &T) -> Outcome<()> {
        self.line(&json::compact(&json::pick(thing, &self.fields)?)?)
    }

    /// Whether the output can be redrawn: text on a terminal.
    pub fn can_redraw(&self) -> bool {
        self.format == Format::Human && std::io::stdout().is_terminal()
    }

    /// Clears the terminal.
    pub fn redraw(&self) -> Outcome<()> {
        print_bytes(b"\x1b[H\x1b[2J")
    }

    fn table(&self, table: &Table) -> Outcome<()> {
        self.line(&table.render(terminal_width()))
    }

    /// Whether `--quiet` is given.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Prints a message on standard error, unless `--quiet` is given.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            talk(text);
        }
    }

    /// The same without messages.
    pub fn silent(&self) -> Output {
        Output { quiet: true, ..self.clone() }
    }

    /// Whether messages can be redrawn: standard error is a terminal, and no log.
    pub fn is_live(&self) -> bool {
        progress::Manner::here(self.quiet) == progress::Manner::Bar
    }

    /// Prints a message on standard error if `--verbose` is given.
    pub fn detail(&self, text: &str) {
        if self.verbose {
            talk(text);
        }
    }

    /// The progress display; see [`progress`].
    pub fn progress(&self, total: u64, what: &'static str) -> progress::Progress {
        progress::Progress::new(progress::Manner::here(self.quiet), total, what)
    }
}

/// Prints text that needs no settings.
pub fn print(text: &str) -> Outcome<()> {
    writeln!(anstream::stdout().lock(), "{text}").map_err(Failure::from)
}

/// Prints bytes that need no settings.
pub fn print_bytes(bytes: &[u8]) -> Outcome<()> {
    std::io::stdout().lock().write_all(bytes).map_err(Failure::from)
}

/// Prints a line on standard error; write errors are ignored.
fn talk(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints a failure on standard error.
pub fn complain(failure: &Failure) {
    let style = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
    talk(&format!("{style}error:{style:#} {failure}"));
}

/// The width of the terminal on standard output; none in a pipe, where nothing is truncated.
fn terminal_width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
