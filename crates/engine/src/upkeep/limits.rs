//! Jobs that wait for a token get it when it comes; vacancies that had too much to look at go on looking.

use super::{Service, Wake};
use crate::clock::Mono;
use crate::desk::Desk;

pub(super) const SERVICE: Service = Service { name: "limits", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    if !desk.matches() {
        return None;
    }
    let unfilled = desk.limited.unfilled.first().map(|_| Mono(0));
    unfilled.or_else(|| desk.limited.limits.next_due()).map(Wake::Mono)
}

fn run(desk: &mut Desk) {
    desk.limited.limits.stir_due(desk.now.mono);
    desk.let_out();
    for vacancy in std::mem::take(&mut desk.limited.unfilled) {
        desk.fill(vacancy);
    }
}
