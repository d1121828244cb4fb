//! The reference passes the suite, which describes its behaviour.

use jobhall_store::Memory;
use jobhall_store_conformance::{Fixture, conformance_suite};

fn open() -> Fixture {
    Fixture::volatile(Memory::new())
}

conformance_suite!(open);
