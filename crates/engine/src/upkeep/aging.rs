//! A job that waits long for more than is ever left gets a worker that is kept for it. Each class of jobs that use
//! something is looked at when its first one has waited long, and then once in that time.

use super::{Service, Wake};
use crate::board::ClassId;
use crate::clock::Mono;
use crate::desk::Desk;
use crate::queues::ready_since;

pub(super) const SERVICE: Service = Service { name: "aging", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.aging.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(desk: &mut Desk) {
    while let Some((at, class)) = desk.deadlines.aging.first().copied().filter(|(at, _)| *at <= desk.now.mono)
    {
        desk.deadlines.aging.remove(&(at, class));
        desk.deadlines.aged.remove(&class);
        look(desk, class);
    }
}

fn look(desk: &mut Desk, class: ClassId) {
    let Some(rank) = desk.board.head(class) else { return idle(desk, class) };
    let Some(entry) = desk.open.get(&rank.id.get()) else { return };
    let waited = desk.now.wall.since(ready_since(&entry.life));
    let left = desk.config.aging_ms.saturating_sub(waited);
    if left == 0 {
        desk.keep_for(class, rank);
        return desk.age(class, desk.now.mono.plus_ms(desk.config.aging_ms.max(1)));
    }
    desk.age(class, desk.now.mono.plus_ms(left));
}

/// Nothing of a class may be taken, so no worker is kept for it. What waits in a pause is looked at again.
fn idle(desk: &mut Desk, class: ClassId) {
    desk.unkeep_all(class);
    if desk.board.waits(class) {
        desk.age(class, desk.now.mono.plus_ms(desk.config.aging_ms.max(1)));
    }
}

impl Desk {
    /// Has a class looked at, at this moment unless one is set already.
    pub(crate) fn age(&mut self, class: ClassId, at: Mono) {
        if self.deadlines.aged.insert(class) {
            self.deadlines.aging.insert((at, class));
        }
    }

    /// A job that uses something waits.
    pub(crate) fn age_head(&mut self, class: ClassId) {
        let uses = |line: &crate::board::Line| !line.demand.uses.is_empty();
        if self.board.waits(class) && self.board.line(class).is_some_and(uses) {
            self.age(class, self.now.mono.plus_ms(self.config.aging_ms.max(1)));
        }
    }
}
