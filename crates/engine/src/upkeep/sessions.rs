//! Sessions that were not renewed end, and their leases with them.

use super::{Service, Wake};
use crate::desk::Desk;

pub(super) const SERVICE: Service = Service { name: "sessions", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.sessions.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(desk: &mut Desk) {
    while let Some(&(at, session)) = desk.deadlines.sessions.first().filter(|(at, _)| *at <= desk.now.mono) {
        desk.deadlines.sessions.remove(&(at, session));
        desk.end_session(session);
    }
}
