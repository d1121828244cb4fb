//! The transition function, guard by guard: random rides of events, and tables that leave no pair out.

#[path = "../support/mod.rs"]
mod support;

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
