//! What needs, uses, abilities and accepts promise. Tests named `l13_` prove row 13 of Lazyboss: a job goes only to
//! a worker that has what it asks for.

mod abilities;
mod accepts;
mod bounds;
mod errors;
mod matching;
mod numbers;
mod oracle;
mod properties;
mod selectors;
mod taken;
mod uses;
mod worker;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use super::{Abilities, Accepts, Needs, SelectorError, Uses};

fn abilities(text: &str) -> Abilities {
    Abilities::parse(text).expect("abilities")
}

fn needs(text: &str) -> Needs {
    Needs::parse(text).expect("needs")
}

fn accepts(text: &str) -> Accepts {
    Accepts::parse(text).expect("accepts")
}

fn uses(text: &str) -> Uses {
    Uses::parse(text).expect("uses")
}

fn uses_error(text: &str) -> SelectorError {
    Uses::parse(text).expect_err("refused")
}

fn needs_error(text: &str) -> SelectorError {
    Needs::parse(text).expect_err("refused")
}

fn abilities_error(text: &str) -> SelectorError {
    Abilities::parse(text).expect_err("refused")
}

fn accepts_error(text: &str) -> SelectorError {
    Accepts::parse(text).expect_err("refused")
}

fn hash_of(value: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
