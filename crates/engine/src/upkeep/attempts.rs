//! Assignments that nobody accepts are taken back; attempts old enough have their state stored.

use jobhall_core::{JobId, State};

use super::{Service, Wake};
use crate::desk::{Desk, What};

pub(super) const SERVICE: Service = Service { name: "attempts", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.checks.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(desk: &mut Desk) {
    while let Some(&(at, id)) = desk.deadlines.checks.first().filter(|(at, _)| *at <= desk.now.mono) {
        desk.deadlines.checks.remove(&(at, id));
        look(desk, id);
    }
}

fn look(desk: &mut Desk, id: JobId) {
    let Some(hold) = desk.holders.get_mut(&id.get()) else { return };
    hold.check = None;
    let accept_by = hold.since.plus_ms(desk.config.accept_ms);
    let Some(entry) = desk.open.get(&id.get()) else { return };
    let claim = entry.life.claim;
    if !matches!(entry.life.state, State::Assigned(_)) {
        desk.watch_clock(id);
        return desk.run(What::Save(id, claim).into());
    }
    if accept_by <= desk.now.mono {
        desk.run(What::TakeBack(id, claim).into());
    } else {
        desk.arm(id, accept_by);
    }
}
