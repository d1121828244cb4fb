//! Offers a job that has waited long enough for another worker to those that it avoids.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "avoided", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.avoided.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(kernel: &mut Kernel) {
    while let Some(&(at, id)) = kernel.deadlines.avoided.first().filter(|(at, _)| *at <= kernel.env.mono()) {
        kernel.deadlines.avoided.remove(&(at, id));
        kernel.patience_over(id);
    }
}
