//! Schedules whose tick has come make their jobs.

use super::{Service, Wake};
use crate::desk::Desk;

pub(super) const SERVICE: Service = Service { name: "schedules", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.ticks.first().map(|(at, _)| Wake::Wall(*at))
}

fn run(desk: &mut Desk) {
    while let Some((at, name)) = desk.deadlines.ticks.first().filter(|(at, _)| *at <= desk.now.wall).cloned()
    {
        desk.deadlines.ticks.remove(&(at, name.clone()));
        desk.tick_of(&name);
    }
}
