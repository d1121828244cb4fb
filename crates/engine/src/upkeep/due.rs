//! Queued jobs become ready when their time comes, unless their windows closed again before anyone looked. No write is
//! spent on it.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "due", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.due.first().map(|&(at, _)| Wake::Wall(at))
}

/// Makes ready whatever is due by now.
pub(crate) fn run(kernel: &mut Kernel) {
    while let Some(&(at, id)) = kernel.deadlines.due.first().filter(|(at, _)| *at <= kernel.now.wall) {
        if kernel.open.get(&id.get()).is_some_and(|entry| entry.timed.is_some()) {
            kernel.replace(id);
            continue;
        }
        kernel.deadlines.due.remove(&(at, id));
        kernel.make_ready(id);
    }
}
