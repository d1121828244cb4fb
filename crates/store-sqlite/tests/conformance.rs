//! The rules that every store must keep.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

use jobhall_store_conformance::{Fixture, conformance_suite};
use jobhall_store_sqlite::{Options, Sqlite};

fn open() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    Fixture::durable(move || Sqlite::open(folder.path().join("hall.db"), Options::default()).unwrap())
}

conformance_suite!(open, durable);
