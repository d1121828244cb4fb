//! The rules that every store must keep.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use fixture::{Options, take};
use jobhall_store_conformance::{Fixture, conformance_suite};
use jobhall_throwaway::Cluster;

fn open() -> Fixture {
    let shared = Cluster::shared();
    let database = shared.database();
    Fixture::durable(move || {
        let _keep = &shared;
        take(Options::new(database.url()))
    })
}

conformance_suite!(open, durable);
