//! Deterministic simulation of the engine: the real kernel on the reference store, with a virtual clock, virtual
//! clients and workers, a failing network and a failing store, and independent checkers.
//!
//! A seed determines a run completely: no real time, no threads, no order that depends on a hash. A run is a
//! [script](crate::run()) of some hundred actions generated from the seed, followed by a calm phase in which
//! everything must end. [`Plant`] puts a known bug around the engine; the tests show that the intended checker
//! catches each. [`BlackBox`] checks a real hall by the same rules, as far as its messages allow.
#![forbid(unsafe_code)]

mod check;
mod clients;
mod history;
mod plant;
mod random;
mod run;
mod script;
mod simulation;
mod storage;
mod tally;
mod trace;
mod workers;

pub use check::{BlackBox, Invariant, Name, Stored, Violation};
pub use history::{Comparison, Difference, Mode, Renames, compare, record};
pub use plant::Plant;
pub use run::{Outcome, play, run};
pub use script::{Script, Shrunk, shrink};
pub use tally::Tally;
