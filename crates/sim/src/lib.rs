//! The engine under a seed: the real kernel on the reference store, with a virtual clock, virtual clients and workers,
//! a network and a store that fail, and checkers that keep their own books.
//!
//! One seed is one run, and the same run every time: no time, no threads, no order that depends on a hash. A run is a
//! [script](crate::run()) of some hundred actions written down from the seed, then a calm in which everything must end.
//! [`Plant`] puts a known bug around the engine; the tests show that each is caught by the checker meant for it.
//! [`BlackBox`] holds a real hall to the same rules, as far as they can be judged by who only spoke to it.
#![forbid(unsafe_code)]

mod calendar;
mod changes;
mod check;
mod clients;
mod event;
mod history;
mod manner;
mod plant;
mod queue;
mod random;
mod relations;
mod run;
mod script;
mod simulation;
mod storage;
mod tally;
mod trace;
mod vault;
mod wires;
mod words;
mod workers;

pub use check::{BlackBox, Invariant, Name, Stored, Violation};
pub use history::{Comparison, Difference, Mode, Renames, compare, record};
pub use plant::Plant;
pub use run::{Outcome, play, run};
pub use script::{Script, Shrunk, shrink};
pub use tally::Tally;
