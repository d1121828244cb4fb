//! Gives tokens to waiting jobs when they are due; continues to fill vacancies that had too many jobs to examine.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "limits", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    if !kernel.matches() {
        return None;
    }
    kernel.admission.next_due().map(Wake::Mono)
}

fn run(kernel: &mut Kernel) {
    kernel.admission.mark_due_dirty(kernel.env.mono());
    kernel.retry_waiters();
    for vacancy in kernel.admission.take_unfilled() {
        kernel.fill(vacancy);
    }
}
