//! Stops attempts whose time limit has expired, and gives them up if their worker does not stop them.

use super::{Service, Wake};
use crate::kernel::{JobWork, Kernel};

pub(super) const SERVICE: Service = Service { name: "timeouts", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.timeouts.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(kernel: &mut Kernel) {
    while let Some(&(at, id)) = kernel.deadlines.timeouts.first().filter(|(at, _)| *at <= kernel.env.mono()) {
        kernel.deadlines.timeouts.remove(&(at, id));
        if let Some(hold) = kernel.fleet.hold_mut(id) {
            hold.timing.at = None;
        }
        if let Some(entry) = kernel.jobs.get(id) {
            let claim = entry.status.claim();
            kernel.enqueue(JobWork::TimeOut(claim).on(id));
        }
    }
}
