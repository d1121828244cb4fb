//! Parses a command line, one option at a time.

use std::fmt::Display;
use std::str::FromStr;

pub struct Args(Vec<String>);

impl Args {
    /// The arguments of this process.
    pub fn new() -> Args {
        Args(std::env::args().skip(1).collect())
    }

    /// Takes the first argument if it is this one.
    pub fn command(&mut self, name: &str) -> bool {
        let found = self.0.first().is_some_and(|word| word == name);
        if found {
            self.0.remove(0);
        }
        found
    }

    /// Takes an option without a value.
    pub fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|word| word == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// Takes an option and its value.
    pub fn value<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>, String> {
        let Some(at) = self.0.iter().position(|word| word == name) else { return Ok(None) };
        self.0.remove(at);
        if at == self.0.len() {
            return Err(format!("{name} needs a value"));
        }
        let text = self.0.remove(at);
        text.parse().map(Some).map_err(|error| format!("{name} {text}: {error}"))
    }

    /// Takes the first remaining argument.
    pub fn word(&mut self) -> Result<String, String> {
        if self.0.is_empty() { Err("a file is missing".to_owned()) } else { Ok(self.0.remove(0)) }
    }

    /// Fails if arguments are left.
    pub fn end(self) -> Result<(), String> {
        match self.0.first() {
            Some(word) => Err(format!("{word} is not known here")),
            None => Ok(()),
        }
    }
}
