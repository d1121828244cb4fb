//! Ends sessions that were not renewed, and their leases.

use super::{Service, Wake};
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "sessions", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.sessions.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(kernel: &mut Kernel) {
    while let Some(&(at, session)) =
        kernel.deadlines.sessions.first().filter(|(at, _)| *at <= kernel.env.mono())
    {
        kernel.deadlines.sessions.remove(&(at, session));
        kernel.end_session(session);
    }
}
