//! After the store could not write, matching rests a while; then what was postponed is tried again.

use super::{Service, Wake};
use crate::desk::Desk;

pub(super) const SERVICE: Service = Service { name: "recovery", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.rest_until.map(Wake::Mono)
}

fn run(desk: &mut Desk) {
    desk.rest_until = None;
    for task in std::mem::take(&mut desk.postponed) {
        desk.run(task);
    }
    desk.wake_all();
}
