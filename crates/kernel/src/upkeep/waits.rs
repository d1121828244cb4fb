//! Answers requests that have waited long enough for an attempt to resume: the attempt still waits.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "waits", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.waits.first().map(|&(at, ..)| Wake::Mono(at))
}

fn run(kernel: &mut Kernel) {
    while let Some(&(at, id, ticket)) =
        kernel.deadlines.waits.first().filter(|(at, ..)| *at <= kernel.env.mono())
    {
        kernel.deadlines.waits.remove(&(at, id, ticket));
        kernel.waits_on(id, ticket);
    }
}
