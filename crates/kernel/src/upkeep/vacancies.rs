//! Ends expired vacancies.

use super::{Service, Wake};
use crate::api::effect::Ended;
use crate::kernel::Kernel;

pub(super) const SERVICE: Service = Service { name: "vacancies", next, run };

fn next(kernel: &Kernel) -> Option<Wake> {
    kernel.deadlines.vacancies.first().map(|&(at, _)| Wake::Mono(at))
}

fn run(kernel: &mut Kernel) {
    while let Some(&(at, id)) = kernel.deadlines.vacancies.first().filter(|(at, _)| *at <= kernel.env.mono())
    {
        kernel.deadlines.vacancies.remove(&(at, id));
        kernel.end_vacancy(id, Ended::TimedOut);
    }
}
