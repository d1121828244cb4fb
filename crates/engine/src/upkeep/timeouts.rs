//! Attempts whose time is over are stopped, and given up when their worker does not obey.

use super::{Service, Wake};
use crate::desk::{Desk, What};

pub(super) const SERVICE: Service = Service { name: "timeouts", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.timeouts.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(desk: &mut Desk) {
    while let Some(&(at, id)) = desk.deadlines.timeouts.first().filter(|(at, _)| *at <= desk.now.mono) {
        desk.deadlines.timeouts.remove(&(at, id));
        if let Some(hold) = desk.holders.get_mut(&id.get()) {
            hold.timing.at = None;
        }
        if let Some(entry) = desk.open.get(&id.get()) {
            let claim = entry.life.claim;
            desk.run(What::TimeOut(id, claim).into());
        }
    }
}
