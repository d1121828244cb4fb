//! Processes the ends of dependencies, and stores released jobs that were not claimed in time as queued.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "releases", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.relations.next_release(kernel.env.mono()).map(Wake::Mono)
}

/// Ends are processed after every tick; here only old releases are stored, unless matching is paused.
fn run(kernel: &mut Kernel) {
    kernel.store_released();
}
