//! Blobs in a database: the whole suite, and what several nodes make of one database.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

#[path = "../fixture/mod.rs"]
mod fixture;
mod lost_connections;
#[path = "../suite/mod.rs"]
mod suite;
mod tables;
mod take_over;
mod through_a_pooler;

use tables::Tables;

type Hall = fixture::Hall<Tables>;

/// Of so many cases one is tried: each waits for many round trips, and the rules are the same in every place.
const EVERY: usize = 11;

/// A hall whose blobs are in a database of its own.
fn hall() -> Hall {
    Hall::at(Tables::new())
}

/// Every test of the suite by its own name.
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
