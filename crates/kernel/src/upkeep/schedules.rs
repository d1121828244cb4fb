//! Creates the jobs of schedules whose tick is due.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "schedules", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.ticks.first().map(|(at, _)| Wake::Wall(*at))
}

fn run(kernel: &mut Kernel) {
    while let Some((at, name)) =
        kernel.deadlines.ticks.first().filter(|(at, _)| *at <= kernel.env.wall()).cloned()
    {
        kernel.deadlines.ticks.remove(&(at, name.clone()));
        kernel.tick_of(&name);
    }
}
