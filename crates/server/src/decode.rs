//! Requests as engine values: validation that routes, worker sessions and the SQL inbox share.

pub(crate) mod attempt;
pub(crate) mod field;
pub(crate) mod objects;
pub(crate) mod sub_job;
pub(crate) mod submit;
