//! Queued jobs become ready when their time comes, unless their windows closed again before anyone looked. No write is
//! spent on it.

use super::{Service, Wake};
use crate::desk::Desk;

pub(super) const SERVICE: Service = Service { name: "due", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.due.first().map(|&(at, _)| Wake::Wall(at))
}

/// Makes ready whatever is due by now.
pub(crate) fn run(desk: &mut Desk) {
    while let Some(&(at, id)) = desk.deadlines.due.first().filter(|(at, _)| *at <= desk.now.wall) {
        if desk.open.get(&id.get()).is_some_and(|entry| entry.timed.is_some()) {
            desk.replace(id);
            continue;
        }
        desk.deadlines.due.remove(&(at, id));
        desk.make_ready(id);
    }
}
