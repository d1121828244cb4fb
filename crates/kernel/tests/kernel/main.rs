//! The kernel on the reference store, under a clock that the test sets.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod at_most_once;
mod avoid;
mod cancel;
mod counts;
mod credit;
mod dependencies;
mod duplicates;
mod edits;
mod explain;
mod external;
mod groups;
mod guards;
mod interleavings;
mod leases;
mod lent_places;
mod life;
mod limits;
mod matching;
mod pause;
mod progress;
mod resources;
mod retention;
mod rig;
mod schedules;
mod scopes;
mod sessions;
mod slots;
mod sub_job_places;
mod sub_jobs;
mod timeouts;
mod upkeep;
mod windows;
