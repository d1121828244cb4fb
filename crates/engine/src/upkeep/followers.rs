//! Jobs whose dependencies have ended hear of it, and what nobody has claimed by then is stored as queued.

use super::{Service, Wake};
use crate::desk::Desk;

pub(super) const SERVICE: Service = Service { name: "followers", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    if !desk.dependencies.is_idle() {
        return Some(Wake::Mono(desk.now.mono));
    }
    desk.dependencies.released.front().map(|&(at, _)| Wake::Mono(at))
}

/// Ends are told after every tick; here only what is old enough is stored, unless the store rests.
fn run(desk: &mut Desk) {
    desk.store_released();
}
