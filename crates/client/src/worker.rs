//! The worker's side: sessions, long polls, reports about attempts, and sub-jobs.

pub(crate) mod apply;
pub(crate) mod session;
mod sub_jobs;
pub(crate) mod work;
