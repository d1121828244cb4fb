//! Matching ready jobs to vacancies of workers.

pub(crate) mod avoid;
pub(crate) mod board;
pub(crate) mod credit;
pub(crate) mod resources;
pub(crate) mod vacancy;
