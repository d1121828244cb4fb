//! Makes queued jobs ready when they are due, unless their windows have closed again by then. This costs no write.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "due", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.due.first().map(|&(at, _)| Wake::Wall(at))
}

/// Makes ready all jobs that are due by now.
pub(crate) fn run(kernel: &mut Kernel) {
    while let Some(&(at, id)) = kernel.deadlines.due.first().filter(|(at, _)| *at <= kernel.env.wall()) {
        if kernel.jobs.get(id).is_some_and(|entry| entry.timed().is_some()) {
            kernel.replace(id);
            continue;
        }
        kernel.deadlines.due.remove(&(at, id));
        kernel.place_ready(id);
    }
}
