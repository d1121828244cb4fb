//! After a failed write, matching pauses for a while; then postponed tasks are tried again.

use super::{Service, Wake};
use crate::kernel::{AgendaItem, Kernel};

pub(super) const SERVICE: Service = Service { name: "recovery", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.commits.resting_until().map(Wake::Mono)
}

fn run(kernel: &mut Kernel) {
    let postponed = kernel.commits.resume();
    let began = kernel.begin_sweep();
    for task in postponed {
        kernel.enqueue(task);
    }
    kernel.agenda.push(AgendaItem::WakeAll);
    kernel.close_sweep(began);
}
