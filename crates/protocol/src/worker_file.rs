//! The worker file: the name of a worker, and its commands for types of jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `worker.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerFile {
    /// Name of the worker; the host name if missing.
    pub name: Option<String>,
    /// Number of concurrent jobs; the number of CPUs if missing.
    pub slots: Option<u32>,
    /// Whether it runs jobs of type `exec`, that is, any command a client sends.
    #[serde(default)]
    pub allow_exec: bool,
    /// Abilities besides the detected ones; a number, text, list or true.
    #[serde(default)]
    pub abilities: BTreeMap<String, Ability>,
    /// Commands by type of job; params are passed on standard input.
    #[serde(default)]
    pub types: BTreeMap<String, TypeCommand>,
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
