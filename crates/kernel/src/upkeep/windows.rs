//! Ready jobs whose windows close wait for the next opening. This costs no write.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "windows", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.closing.first().map(|&(at, _)| Wake::Wall(at))
}

fn run(kernel: &mut Kernel) {
    while let Some(&(at, id)) = kernel.deadlines.closing.first().filter(|(at, _)| *at <= kernel.env.wall()) {
        kernel.deadlines.closing.remove(&(at, id));
        kernel.replace(id);
    }
}
