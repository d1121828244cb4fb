//! The worker file: who a worker is and which commands it runs for which types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `worker.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerFile {
    /// Its name; the host's if missing.
    pub name: Option<String>,
    /// Jobs at once; the number of CPUs if missing.
    pub slots: Option<u32>,
    /// Whether it runs jobs of type `exec`, that is, any command a client sends.
    #[serde(default)]
    pub allow_exec: bool,
    /// What it can do besides what is detected; a number, text, list or true.
    #[serde(default)]
    pub abilities: BTreeMap<String, Ability>,
    /// Which commands do which types of work; params come on standard input.
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
    /// Program and arguments; no shell unless it is named.
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
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

/// The built-in type that runs arbitrary commands.
pub const EXEC: &str = "exec";
