//! Queued jobs become ready when their time comes. No write is spent on it.

use super::{Service, Wake};
use crate::desk::Desk;
use crate::load::rank;

pub(super) const SERVICE: Service = Service { name: "due", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.due.first().map(|&(at, _)| Wake::Wall(at))
}

fn run(desk: &mut Desk) {
    while let Some(&(at, id)) = desk.deadlines.due.first().filter(|(at, _)| *at <= desk.now.wall) {
        desk.deadlines.due.remove(&(at, id));
        let Some(entry) = desk.open.get(&id.get()) else { continue };
        let (class, rank) = (entry.class, rank(id, entry));
        desk.board.ready(class, rank);
        desk.wake(class);
    }
}
