//! Blobs in a database: the whole suite, and several nodes on one database.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

#[path = "../fixture/mod.rs"]
mod fixture;
mod lost_connections;
mod one_transaction;
#[path = "../suite/mod.rs"]
mod suite;
mod tables;
mod take_over;
mod through_a_pooler;

use tables::Tables;

type Hall = fixture::Hall<Tables>;

/// One of this many cases is run: each needs many round trips, and the rules are the same in every store.
const EVERY: usize = 11;

/// A hall with blobs in its own database.
fn hall() -> Hall {
    Hall::at(Tables::new())
}

/// Each test of the suite as a separate test.
macro_rules! alone {
    ($($topic:ident: [$($name:ident,)*])*) => {
        $(mod $topic {
            $(#[test]
            fn $name() {
                crate::suite::$topic::$name();
            })*
        })*
    };
}

suite::suite!(alone);
