//! Ready jobs whose windows close wait for the next opening. No write is spent on it.

use super::{Service, Wake};
use crate::desk::Desk;

pub(super) const SERVICE: Service = Service { name: "windows", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.closing.first().map(|&(at, _)| Wake::Wall(at))
}

fn run(desk: &mut Desk) {
    while let Some(&(at, id)) = desk.deadlines.closing.first().filter(|(at, _)| *at <= desk.now.wall) {
        desk.deadlines.closing.remove(&(at, id));
        desk.replace(id);
    }
}
