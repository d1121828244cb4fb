//! What to run: an argument list, an exact environment, a directory, and the standard input.
//!
//! There is no shell in between, so no argument is interpreted. The environment starts empty: a short list of the
//! worker's variables is copied, then the caller's variables are added. The rest of the worker's environment, above
//! all its credential, cannot reach a job because it is never copied.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// The variables of the worker that a job inherits.
pub const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "USER"];

/// The `PATH` of jobs if the worker has none.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Maximum size of the standard input of a command.
pub const MOST_STDIN: usize = 16 << 20;

/// Maximum total size of arguments and environment; the kernel's limit is usually lower.
pub const MOST_WORDS: usize = 8 << 20;

/// Default limit on the output of a command that is kept.
pub const OUTPUT_LIMIT: u64 = 64 << 20;

/// Time between TERM and KILL for processes that outlive their command.
pub const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// The exact environment of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The variables in [`INHERITED`] that this process has, and always a `PATH`.
    #[must_use]
    pub fn base() -> Self {
        let known = INHERITED.iter().filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
        let mut variables: BTreeMap<OsString, OsString> = known.collect();
        variables.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into());
        Self(variables)
    }

    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// The value of one variable.
    #[must_use]
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Every variable, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

/// The standard input of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    #[default]
    Empty,
    Bytes(Vec<u8>),
    /// A plain file, opened as the user of the job where the command runs.
    File(PathBuf),
}

/// Where the standard output of a command goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stdout {
    /// To the worker, in chunks.
    #[default]
    Pipe,
    /// To a plain file, created or emptied as the user of the job where the command runs. The worker does not see it,
    /// and no limit applies.
    File(PathBuf),
}

/// One command to run in a slot.
#[derive(Clone, Debug)]
pub struct Command {
    pub(crate) argv: Vec<OsString>,
    pub(crate) environment: Environment,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) stdin: Stdin,
    pub(crate) stdout: Stdout,
    pub(crate) output_limit: u64,
    pub(crate) leftover_grace: Duration,
}

impl Command {
    /// A program and its arguments, with the base environment, the worker's directory and an empty input.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            environment: Environment::base(),
            directory: None,
            stdin: Stdin::Empty,
            stdout: Stdout::Pipe,
            output_limit: OUTPUT_LIMIT,
            leftover_grace: LEFTOVER_GRACE,
        }
    }

    /// A shell script that ends at its first failing line and at the use of an unset variable.
    #[must_use]
    pub fn script(text: &str) -> Self {
        Self::new(["/bin/sh", "-eu", "-c", text])
    }

    /// Sets one variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.set(name, value);
        self
    }

    /// Sets one variable if it has no value yet.
    #[must_use]
    pub fn default_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.0.entry(name.into()).or_insert_with(|| value.into());
        self
    }

    /// Replaces the whole environment.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the directory to run in.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets the directory to run in if there is none yet.
    #[must_use]
    pub fn default_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory.get_or_insert_with(|| directory.into());
        self
    }

    /// Sets the standard input of the command; by default it is empty.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Stdin::Bytes(bytes.into());
        self
    }

    /// Makes a file the standard input of the command. A relative path starts from the directory to run in.
    #[must_use]
    pub fn stdin_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdin = Stdin::File(path.into());
        self
    }

    /// Writes the standard output of the command to a file. A relative path starts from the directory to run in.
    #[must_use]
    pub fn stdout_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdout = Stdout::File(path.into());
        self
    }

    /// Sets how many bytes of output are kept; the rest is counted and dropped while the command continues.
    #[must_use]
    pub fn output_limit(mut self, bytes: u64) -> Self {
        self.output_limit = bytes;
        self
    }

    /// Sets the time between TERM and KILL for processes that outlive the command.
    #[must_use]
    pub fn leftover_grace(mut self, grace: Duration) -> Self {
        self.leftover_grace = grace;
        self
    }

    /// Refuses commands that cannot be started.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.argv.first().is_none_or(|program| program.is_empty()) {
            return Err(Refused::NoProgram);
        }
        self.check_names()?;
        self.check_nul()?;
        self.check_sizes()
    }

    /// The size of arguments and environment, as the kernel counts them.
    pub(crate) fn words(&self) -> usize {
        let arguments = self.argv.iter().map(|word| word.len() + 1);
        let variables = self.environment.iter().map(|(name, value)| name.len() + value.len() + 2);
        arguments.chain(variables).sum()
    }

    fn check_names(&self) -> Result<(), Refused> {
        let bad = |name: &OsStr| name.is_empty() || name.as_bytes().contains(&b'=');
        match self.environment.iter().find(|(name, _)| bad(name)) {
            Some((name, _)) => Err(Refused::VariableName { name: name.to_string_lossy().into_owned() }),
            None => Ok(()),
        }
    }

    fn check_nul(&self) -> Result<(), Refused> {
        let has_nul = |word: &OsStr| word.as_bytes().contains(&0);
        if self.argv.iter().any(|word| has_nul(word)) {
            return Err(Refused::NulByte { place: "an argument" });
        }
        if self.environment.iter().any(|(name, value)| has_nul(name) || has_nul(value)) {
            return Err(Refused::NulByte { place: "the environment" });
        }
        if self.directory.as_ref().is_some_and(|directory| has_nul(directory.as_os_str())) {
            return Err(Refused::NulByte { place: "the directory" });
        }
        if matches!(&self.stdin, Stdin::File(path) if has_nul(path.as_os_str())) {
            return Err(Refused::NulByte { place: "the file of the input" });
        }
        if matches!(&self.stdout, Stdout::File(path) if has_nul(path.as_os_str())) {
            return Err(Refused::NulByte { place: "the file of the output" });
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), Refused> {
        let words = self.words();
        if words > MOST_WORDS {
            return Err(Refused::TooLarge {
                part: "arguments and environment",
                bytes: words,
                most: MOST_WORDS,
            });
        }
        let stdin = if let Stdin::Bytes(bytes) = &self.stdin { bytes.len() } else { 0 };
        if stdin > MOST_STDIN {
            return Err(Refused::TooLarge { part: "input", bytes: stdin, most: MOST_STDIN });
        }
        Ok(())
    }
}

/// Why a command was refused before it was sent to a slot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The argument list is empty, or its first argument is.
    #[error("the command names no program")]
    NoProgram,
    /// A string contains a NUL byte, which would end it early.
    #[error("{place} holds a NUL byte")]
    NulByte { place: &'static str },
    /// A variable without a name, or with `=` in it.
    #[error("{name:?} is not the name of a variable")]
    VariableName { name: String },
    /// A part exceeds the limit of a slot.
    #[error("{part} of {bytes} bytes; at most {most} are taken")]
    TooLarge { part: &'static str, bytes: usize, most: usize },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(command: &Command, expected: &str) {
        assert_eq!(command.check().unwrap_err().to_string(), expected);
    }

    #[test]
    fn what_cannot_be_started_is_refused() {
        check_refused(&Command::new(Vec::<String>::new()), "the command names no program");
        check_refused(&Command::new([""]), "the command names no program");
        check_refused(&Command::new(["a\0b"]), "an argument holds a NUL byte");
        check_refused(&Command::new(["a"]).env("A", "\0"), "the environment holds a NUL byte");
        check_refused(&Command::new(["a"]).env("A=B", ""), "\"A=B\" is not the name of a variable");
        check_refused(&Command::new(["a"]).directory("\0"), "the directory holds a NUL byte");
        check_refused(&Command::new(["a"]).stdin_file("\0"), "the file of the input holds a NUL byte");
        check_refused(&Command::new(["a"]).stdout_file("\0"), "the file of the output holds a NUL byte");
        let large = Command::new(["a"]).stdin(vec![0; MOST_STDIN + 1]);
        check_refused(&large, "input of 16777217 bytes; at most 16777216 are taken");
        let wordy = Command::new(["a"]).env("A", "x".repeat(MOST_WORDS));
        assert!(matches!(wordy.check(), Err(Refused::TooLarge { .. })));
        assert_eq!(Command::new(["a"]).stdin("\0").check(), Ok(()));
    }

    #[test]
    fn the_base_environment_is_the_list_and_nothing_else() {
        let base = Environment::base();
        assert!(base.get("PATH").is_some());
        assert!(base.iter().all(|(name, _)| INHERITED.iter().any(|known| *known == name)));
        assert!(std::env::vars_os().count() > base.iter().count(), "the tests have more than the list");
    }
}
