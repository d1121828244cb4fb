//! Aging: reserves a worker for a job that has waited long for more than is free. Each class of jobs that use
//! resources is checked when its first job has waited long, and then once per such period.

use super::{Service, Wake};
use crate::api::time::Mono;
use crate::kernel::Kernel;
use crate::matching::board::ClassId;
use crate::stats::queues::ready_since;

pub(super) const SERVICE: Service = Service { name: "aging", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.aging.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(kernel: &mut Kernel) {
    while let Some((at, class)) =
        kernel.deadlines.aging.first().copied().filter(|(at, _)| *at <= kernel.env.mono())
    {
        kernel.deadlines.aging.remove(&(at, class));
        kernel.deadlines.aged.remove(&class);
        look(kernel, class);
    }
}

fn look(kernel: &mut Kernel, class: ClassId) {
    let Some(rank) = kernel.board.head(class) else { return idle(kernel, class) };
    let Some(entry) = kernel.jobs.get(rank.id) else { return };
    let waited = kernel.env.wall().since(ready_since(&entry.status.get()));
    let left = kernel.env.config().aging_ms.saturating_sub(waited);
    if left == 0 {
        kernel.reserve_for(class, rank);
        return kernel.age(class, kernel.env.mono().plus_ms(kernel.env.config().aging_ms.max(1)));
    }
    kernel.age(class, kernel.env.mono().plus_ms(left));
}

/// No job of the class may be taken, so no worker is reserved for it. A paused class is checked again.
fn idle(kernel: &mut Kernel, class: ClassId) {
    kernel.unkeep_all(class);
    if kernel.board.waits(class) {
        kernel.age(class, kernel.env.mono().plus_ms(kernel.env.config().aging_ms.max(1)));
    }
}

impl Kernel {
    /// Schedules the check of a class at this time unless one is scheduled already.
    pub(crate) fn age(&mut self, class: ClassId, at: Mono) {
        if self.deadlines.aged.insert(class) {
            self.deadlines.aging.insert((at, class));
        }
    }

    /// A job that uses resources waits.
    pub(crate) fn age_head(&mut self, class: ClassId) {
        let uses = |line: &crate::matching::board::Line| !line.demand.uses.is_empty();
        if self.board.waits(class) && self.board.line(class).is_some_and(uses) {
            self.age(class, self.env.mono().plus_ms(self.env.config().aging_ms.max(1)));
        }
    }
}
