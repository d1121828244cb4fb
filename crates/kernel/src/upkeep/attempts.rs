//! Takes back assignments that were not accepted; stores the state of attempts that are old enough.

use jobhall_core::{JobId, State};

use super::{Service, Wake};
use crate::kernel::{JobWork, Kernel};

pub(super) const SERVICE: Service = Service { name: "attempts", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.checks.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(kernel: &mut Kernel) {
    while let Some(&(at, id)) = kernel.deadlines.checks.first().filter(|(at, _)| *at <= kernel.env.mono()) {
        kernel.deadlines.checks.remove(&(at, id));
        look(kernel, id);
    }
}

fn look(kernel: &mut Kernel, id: JobId) {
    let Some(hold) = kernel.fleet.hold_mut(id) else { return };
    hold.check = None;
    let accept_by = hold.since.plus_ms(kernel.env.config().accept_ms);
    let Some(entry) = kernel.jobs.get(id) else { return };
    let claim = entry.status.claim();
    if !matches!(entry.status.state(), State::Assigned(_)) {
        kernel.watch_clock(id);
        return kernel.enqueue(JobWork::Save(claim).on(id));
    }
    if accept_by <= kernel.env.mono() {
        kernel.enqueue(JobWork::TakeBack(claim).on(id));
    } else {
        kernel.arm(id, accept_by);
    }
}
