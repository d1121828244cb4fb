//! One suite that every store must pass. A backend provides a function that opens an empty store, and gets one test
//! per rule of the port, two concurrency tests, and a model-based test against the reference:
//!
//! ```ignore
//! use jobhall_store_conformance::{Fixture, conformance_suite};
//!
//! fn open() -> Fixture {
//!     let directory = tempfile::tempdir().unwrap();
//!     Fixture::durable(move || MyStore::open(directory.path()).unwrap())
//! }
//!
//! conformance_suite!(open, durable);
//! ```
//!
//! Each rule is a separate test, so that a failure says what is broken; the model-based test finds what no rule
//! covers. Planted faults prove that both can fail (`tests/planted_faults.rs`).
#![forbid(unsafe_code)]

mod client;
mod fixture;
pub mod listing;
pub mod model;
pub mod rules;
mod samples;

pub use fixture::{Fixture, wait};

/// One `#[test]` per rule for the store that the function `$open` (`fn() -> Fixture`, in the same module) opens.
/// `durable` adds the rules that close the store and open it again.
#[macro_export]
macro_rules! conformance_suite {
    ($open:ident) => {
        $crate::every_rule! { as_tests $open }

        mod model {
            #[test]
            fn model_and_store_agree_on_random_operations() {
                $crate::model::agrees(super::$open);
            }
        }
    };
    ($open:ident, durable) => {
        $crate::conformance_suite! { $open }
        $crate::every_durable_rule! { as_durable_tests $open }
    };
}

/// Generates tests from the list of rules.
#[doc(hidden)]
#[macro_export]
macro_rules! as_tests {
    ([$open:ident] $($module:ident { $($rule:ident)* })*) => {
        $(mod $module {
            $(#[test]
            fn $rule() {
                let fixture = super::$open();
                $crate::rules::$module::$rule(fixture.store());
            })*
        })*
    };
}

/// Generates tests from the list of rules about reopening.
#[doc(hidden)]
#[macro_export]
macro_rules! as_durable_tests {
    ([$open:ident] $($module:ident { $($rule:ident)* })*) => {
        $(mod $module {
            $(#[test]
            fn $rule() {
                $crate::rules::$module::$rule(&mut super::$open());
            })*
        })*
    };
}
