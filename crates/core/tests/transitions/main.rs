//! The transition function: random sequences of events, and tables of all pairs of states and events.

#[path = "../support/mod.rs"]
mod support;

mod at_most_once;
mod cancels;
mod counters;
mod external;
mod guard;
mod holder;
mod retries;
mod ride;
mod slow;
mod table;
mod times;
mod views;
