//! After a failed write, matching pauses for a while; then postponed tasks are tried again.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "recovery", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.rest_until.map(Wake::Mono)
}

fn run(kernel: &mut Kernel) {
    kernel.rest_until = None;
    kernel.admission.deferring = true;
    for task in std::mem::take(&mut kernel.postponed) {
        kernel.run(task);
    }
    kernel.wake_all();
}
