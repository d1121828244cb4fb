//! Times out external work whose outcome was not reported in time.

use super::{Service, Wake};
use crate::kernel::{JobWork, Kernel};

pub(super) const SERVICE: Service = Service { name: "outside", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.external.first().map(|&(at, _)| Wake::Wall(at))
}

fn run(kernel: &mut Kernel) {
    while let Some(&(at, id)) = kernel.deadlines.external.first().filter(|(at, _)| *at <= kernel.env.wall()) {
        kernel.deadlines.external.remove(&(at, id));
        if let Some(entry) = kernel.jobs.get(id) {
            let claim = entry.status.claim();
            kernel.enqueue(JobWork::ExternalOver(claim).on(id));
        }
    }
}
