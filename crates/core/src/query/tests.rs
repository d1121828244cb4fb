//! Tests of queries: what holds for all of them, and tables of single cases.

mod asked;
mod checks;
mod contents;
mod declarations;
mod errors;
mod expiries;
mod grammar;
mod identify;
mod meaning;
mod modes;
mod pipes;
mod plans;
mod recipes;
mod trees;
mod values;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::{
    CommandName, Commands, Declaration, Declared, Hasher, Identity, Modes, Parameter, ParameterType, Plan,
    Query, QueryError, SourceDigest, SourceKey, TEXT_BYTES_MAX, Version, plan,
};
use crate::name::QueueName;

/// Gives each transcript another number, so two are equal only if their bytes are.
#[derive(Clone, Default)]
struct Numbering {
    written: Vec<u8>,
    numbers: Rc<RefCell<HashMap<Vec<u8>, u32>>>,
}

impl Hasher for Numbering {
    fn update(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
    }

    fn identity(&self) -> Identity {
        let mut numbers = self.numbers.borrow_mut();
        let next = u32::try_from(numbers.len()).unwrap();
        let number = *numbers.entry(self.written.clone()).or_insert(next);
        let mut bytes = [0; 20];
        bytes[16..].copy_from_slice(&number.to_be_bytes());
        Identity::new(bytes)
    }
}

fn parse(text: &str) -> Result<Query, QueryError> {
    Query::parse(text, TEXT_BYTES_MAX)
}

fn name(text: &str) -> CommandName {
    CommandName::new(text).unwrap()
}

fn parameter(name: &str, kind: ParameterType, default: Option<&str>) -> Parameter {
    Parameter {
        name: name.to_owned(),
        kind,
        values: Vec::new(),
        default: default.map(str::to_owned),
        help: None,
        ignore: false,
        dash: false,
    }
}

fn command(text: &str, args: Vec<Parameter>, modes: Modes) -> Declaration {
    Declaration { args, modes, ..Declaration::new(name(text)) }.checked().unwrap()
}

fn commands(declarations: Vec<Declaration>) -> Commands {
    let version = Version::new("1").unwrap();
    declarations
        .into_iter()
        .map(|declaration| {
            let declared = Declared { declaration, version: version.clone() };
            (declared.declaration.name.clone(), Arc::new(declared))
        })
        .collect()
}

/// `a.csv` and `b.csv` are stored, with different data, and `c.csv` with that of `a.csv`.
fn digest(key: &SourceKey) -> Option<SourceDigest> {
    match key.as_str() {
        "a.csv" | "c.csv" => Some(SourceDigest([1; 32])),
        "b.csv" => Some(SourceDigest([2; 32])),
        _ => None,
    }
}

fn planned(text: &str, commands: &Commands, hasher: &Numbering) -> Result<Plan, QueryError> {
    plan(&parse(text)?, hasher.clone(), &QueueName::new("queries").unwrap(), commands, &digest)
}
