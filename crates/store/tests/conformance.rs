//! The reference passes the suite that it is the measure of: the rules say in words what it does.

use jobhall_store::Memory;
use jobhall_store_conformance::{Fixture, conformance_suite};

fn open() -> Fixture {
    Fixture::volatile(Memory::new())
}

conformance_suite!(open);
