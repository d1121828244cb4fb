//! Vacancies end when their time is over.

use super::{Service, Wake};
use crate::desk::Desk;
use crate::effect::Ended;

pub(super) const SERVICE: Service = Service { name: "vacancies", next, run };

fn next(desk: &Desk) -> Option<Wake> {
    desk.deadlines.vacancies.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(desk: &mut Desk) {
    while let Some(&(at, id)) = desk.deadlines.vacancies.first().filter(|(at, _)| *at <= desk.now.mono) {
        desk.deadlines.vacancies.remove(&(at, id));
        desk.end_vacancy(id, Ended::TimedOut);
    }
}
