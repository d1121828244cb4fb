//! Jobs whose dependencies have ended hear of it, and what nobody has claimed by then is stored as queued.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "followers", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    if !kernel.dependencies.is_idle() {
        return Some(Wake::Mono(kernel.now.mono));
    }
    kernel.dependencies.released.front().map(|&(at, _)| Wake::Mono(at))
}

/// Ends are told after every tick; here only what is old enough is stored, unless the store rests.
fn run(kernel: &mut Kernel) {
    kernel.store_released();
}
