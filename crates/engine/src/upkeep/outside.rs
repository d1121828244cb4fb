//! Work that goes on outside and of which nobody tells the outcome in time has taken too long.

use super::{Service, Wake};
use crate::kernel::{AgendaItem, Kernel};

pub(super) const SERVICE: Service = Service { name: "outside", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.outside.first().map(|&(at, _)| Wake::Wall(at))
}

fn run(kernel: &mut Kernel) {
    while let Some(&(at, id)) = kernel.deadlines.outside.first().filter(|(at, _)| *at <= kernel.now.wall) {
        kernel.deadlines.outside.remove(&(at, id));
        if let Some(entry) = kernel.open.get(&id.get()) {
            let claim = entry.life.claim;
            kernel.run(AgendaItem::OutsideOver(id, claim).into());
        }
    }
}
