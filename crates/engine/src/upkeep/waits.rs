//! Who asked to be told that an attempt goes on, and has waited long enough for now, is told that it does not yet.

use super::{Service, Wake};
use crate::desk::Desk;

pub(super) const SERVICE: Service = Service { name: "waits", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.waits.first().map(|&(at, ..)| Wake::Mono(at))
}

fn run(desk: &mut Desk) {
    while let Some(&(at, id, ticket)) = desk.deadlines.waits.first().filter(|(at, ..)| *at <= desk.now.mono) {
        desk.deadlines.waits.remove(&(at, id, ticket));
        desk.waits_on(id, ticket);
    }
}
