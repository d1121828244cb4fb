//! The rules about reopening a store, on a store whose data outlives it and on one that loses its data.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jobhall_store::Memory;
use jobhall_store_conformance::rules::DURABLE_RULES;
use jobhall_store_conformance::{Fixture, every_durable_rule, model};

mod shared;

use shared::Shared;

/// Drops and opens only the handle; the data remains.
fn open() -> Fixture {
    let memory = Arc::new(Memory::new());
    Fixture::durable(move || Shared(memory.clone()))
}

/// Opens an empty store every time.
fn open_forgetful() -> Fixture {
    Fixture::durable(Memory::new)
}

every_durable_rule! { as_durable_tests open }

#[test]
fn a_store_that_remembers_agrees_with_the_model() {
    model::compare(open, 10_000, 0).unwrap();
}

#[test]
fn a_store_that_forgets_breaks_every_durable_rule() {
    for (name, rule) in DURABLE_RULES {
        let mut fixture = open_forgetful();
        let broken = catch_unwind(AssertUnwindSafe(|| rule(&mut fixture))).is_err();
        assert!(broken, "{name} did not notice");
    }
}

#[test]
fn a_store_that_forgets_is_caught_by_the_model() {
    assert!(model::compare(open_forgetful, 10_000, 0).is_err());
}
