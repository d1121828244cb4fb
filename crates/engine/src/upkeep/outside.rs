//! Work that goes on outside and of which nobody tells the outcome in time has taken too long.

use super::{Service, Wake};
use crate::desk::{Desk, What};

pub(super) const SERVICE: Service = Service { name: "outside", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.outside.first().map(|&(at, _)| Wake::Wall(at))
}

fn run(desk: &mut Desk) {
    while let Some(&(at, id)) = desk.deadlines.outside.first().filter(|(at, _)| *at <= desk.now.wall) {
        desk.deadlines.outside.remove(&(at, id));
        if let Some(entry) = desk.open.get(&id.get()) {
            let claim = entry.life.claim;
            desk.run(What::OutsideOver(id, claim).into());
        }
    }
}
