//! Gives tokens to waiting jobs when they are due; continues to fill vacancies that had too many jobs to examine.

use super::{Service, Wake};
use crate::api::time::Mono;
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "limits", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    if !kernel.matches() {
        return None;
    }
    let unfilled = kernel.admission.unfilled.first().map(|_| Mono(0));
    unfilled.or_else(|| kernel.admission.limits.next_due()).map(Wake::Mono)
}

fn run(kernel: &mut Kernel) {
    kernel.admission.limits.mark_due_dirty(kernel.now.mono);
    kernel.retry_waiters();
    for vacancy in std::mem::take(&mut kernel.admission.unfilled) {
        kernel.fill(vacancy);
    }
}
