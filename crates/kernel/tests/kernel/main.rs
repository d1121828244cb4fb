//! The kernel on the reference store, under a clock that the test sets.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod avoid;
mod cancel;
mod counts;
mod credit;
mod dependencies;
mod duplicates;
mod edits;
mod external;
mod groups;
mod guards;
mod interleavings;
mod leases;
mod lent_places;
mod life;
mod limits;
mod matching;
mod resources;
mod rig;
mod schedules;
mod slots;
mod sub_job_places;
mod sub_jobs;
mod timeouts;
mod upkeep;
mod windows;
