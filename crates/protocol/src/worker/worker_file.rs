//! The worker file: the name of a worker, and its commands for types of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr;

use jobhall_core::TypeName;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Command, RecipeLines};

/// `worker.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerFile {
    /// Name of the worker; the host name if missing.
    pub name: Option<String>,
    /// Number of concurrent jobs; the number of CPUs if missing.
    pub slots: Option<u32>,
    /// What clients may use the worker for besides its types.
    #[serde(default)]
    pub allow: BTreeSet<Allow>,
    /// Which workspaces are not removed after the attempt; none if missing.
    pub keep: Option<Keep>,
    /// Limits of each process of a job.
    #[serde(default)]
    pub limits: ProcessLimits,
    /// Abilities besides the detected ones; a number, text, list or true.
    #[serde(default)]
    pub abilities: BTreeMap<String, Ability>,
    /// Commands by type of job; params are passed on standard input.
    #[serde(default)]
    pub types: BTreeMap<String, TypeCommand>,
    /// Commands of queries, by name.
    #[serde(default)]
    pub commands: BTreeMap<String, Command>,
    /// Settings of the commands of this repository, which a worker does not need; only in `.jobhall.toml`.
    #[serde(default, skip_serializing)]
    pub client: Option<Ignored>,
    /// Recipes of keys of sources. They are sent by `jobhall recipe`; a worker does not need them.
    #[serde(default)]
    pub recipes: RecipeLines,
    /// The directory of the file, where the paths of commands begin; empty if it was not read from a file.
    #[serde(skip)]
    pub directory: PathBuf,
    /// The file itself; none if it was not read from a file.
    #[serde(skip)]
    pub path: Option<PathBuf>,
}

/// A table that is read elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ignored, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|IgnoredAny| Ignored)
    }
}

/// Abilities that a worker file cannot give, with what to use instead.
const RESERVED_ABILITIES: [(&str, &str); 7] = [
    ("worker", "the name of the worker is the key `name`, and jobs can need it without an ability"),
    ("main", "it is given by the flag --main"),
    ("host", "it is given by the key `host`"),
    ("taskset", "a worker with the key `host` has it while it hosts a task set"),
    ("commands", "it is given by the table `[commands]`"),
    ("builds", "it is given by the table `[builds]`"),
    ("server", "only the server itself has it"),
];

impl WorkerFile {
    /// Maximum number of concurrent jobs of a worker.
    pub const SLOTS: u32 = 4_096;

    /// Refuses a file with which a worker could not work.
    ///
    /// # Errors
    /// Names the field and its limit.
    pub fn check(&self) -> Result<(), String> {
        if let Some(slots) = self.slots.filter(|slots| !(1..=Self::SLOTS).contains(slots)) {
            return Err(format!("slots is {slots}; from 1 to {}", Self::SLOTS));
        }
        for (name, instead) in RESERVED_ABILITIES {
            if self.abilities.contains_key(name) {
                return Err(format!("abilities.{name} is reserved; {instead}"));
            }
        }
        for (name, command) in &self.types {
            TypeName::new(name).map_err(|error| format!("types.{name:?}: {error}"))?;
            if command.run.is_empty() {
                return Err(format!("types.{name}.run is empty; it must have at least a program"));
            }
        }
        for (name, command) in &self.commands {
            if command.run.is_empty() {
                return Err(format!("commands.{name}.run is empty; it must have at least a program"));
            }
            command.declaration(name)?;
        }
        self.limits.check()
    }
}

/// What an operator allows clients to use a worker for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Allow {
    /// Jobs of type `exec`, that is, any command that a client sends.
    Exec,
}

impl Allow {
    const ALL: [Allow; 1] = [Allow::Exec];

    /// The type of the jobs that this allows.
    #[must_use]
    pub fn job_type(self) -> &'static str {
        match self {
            Allow::Exec => EXEC,
        }
    }
}

impl FromStr for Allow {
    type Err = String;

    fn from_str(word: &str) -> Result<Allow, String> {
        Allow::ALL.into_iter().find(|allow| allow.job_type() == word).ok_or_else(|| {
            let known = Allow::ALL.map(Allow::job_type).join(", ");
            format!("allow: unknown word {word:?}; known are: {known}")
        })
    }
}

impl TryFrom<String> for Allow {
    type Error = String;

    fn try_from(word: String) -> Result<Allow, String> {
        word.parse()
    }
}

impl From<Allow> for &'static str {
    fn from(allow: Allow) -> &'static str {
        allow.job_type()
    }
}

/// A value of an ability in the worker file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Ability {
    /// `spot = true`
    Flag(bool),
    /// `gpu = 2`
    Number(i64),
    /// `os = "linux"`
    Word(String),
    /// `lang = ["rust", "python"]`
    List(Vec<String>),
}

/// The command of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeCommand {
    /// Program and arguments; without a shell unless it is named.
    pub run: Vec<String>,
    /// Working directory; a fresh workspace for each attempt if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Which workspaces are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Those of attempts that failed or crashed.
    Failed,
}

/// Limits of each process of a job (`setrlimit`); the worker's own where one is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessLimits {
    /// Size of a core dump in bytes; none is written by default.
    pub core_bytes: u64,
    /// Number of open files.
    pub open_files: Option<u64>,
    /// Number of processes of the user.
    pub processes: Option<u64>,
    /// Size of the address space in bytes.
    pub memory_bytes: Option<u64>,
}

impl ProcessLimits {
    /// Minimum of each limit: the worker's own processes in a slot have it too.
    const OPEN_FILES: u64 = 64;
    const PROCESSES: u64 = 16;
    const MEMORY_BYTES: u64 = 64 << 20;

    /// Refuses limits with which no job could be run.
    ///
    /// # Errors
    /// Names the limit and its minimum.
    fn check(&self) -> Result<(), String> {
        let limits = [
            ("open_files", self.open_files, Self::OPEN_FILES),
            ("processes", self.processes, Self::PROCESSES),
            ("memory_bytes", self.memory_bytes, Self::MEMORY_BYTES),
        ];
        match limits.into_iter().find(|(_, given, least)| given.is_some_and(|given| given < *least)) {
            Some((name, given, least)) => {
                Err(format!("limits.{name} is {}; at least {least}", given.unwrap_or_default()))
            }
            None => Ok(()),
        }
    }
}

/// Params of the built-in type `exec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// Program and arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Or a script for `/bin/sh -eu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Variables besides those of the contract.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

/// The built-in type that runs arbitrary commands.
pub const EXEC: &str = "exec";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ground_8_reserved_abilities_are_refused_with_what_to_use_instead() {
        for (name, instead) in [
            ("worker", "the key `name`"),
            ("main", "--main"),
            ("host", "the key `host`"),
            ("taskset", "`host`"),
            ("commands", "`[commands]`"),
            ("builds", "`[builds]`"),
            ("server", "only the server itself"),
        ] {
            let abilities = [(name.to_owned(), Ability::Number(1))].into();
            let error = WorkerFile { abilities, ..WorkerFile::default() }.check().unwrap_err();
            let said = format!("abilities.{name} is reserved; ");
            assert!(error.starts_with(&said) && error.contains(instead), "{error}");
        }
        let abilities = [("hosts".to_owned(), Ability::Number(1))].into();
        assert_eq!(WorkerFile { abilities, ..WorkerFile::default() }.check(), Ok(()));
    }
}
