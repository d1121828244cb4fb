//! Queued jobs become ready when their time comes. No write is spent on it.

use super::{Service, Wake};
use crate::desk::Desk;

pub(super) const SERVICE: Service = Service { name: "due", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.due.first().map(|&(at, _)| Wake::Wall(at))
}

/// Makes ready whatever is due by now.
pub(crate) fn run(desk: &mut Desk) {
    while let Some(&(at, id)) = desk.deadlines.due.first().filter(|(at, _)| *at <= desk.now.wall) {
        desk.deadlines.due.remove(&(at, id));
        desk.make_ready(id);
    }
}
