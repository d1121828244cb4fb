//! Queries that a command asks for while it runs.
//!
//! ```text
//! attempt ── ask ──▶ plan ── one call: its missing nodes are sub-jobs of the asking job ──▶ wait ──▶ value
//!             └────▶ record `q.asked` of the job: the texts, and what they meant
//! outcome ── what the job asked for, and its inputs before it ──▶ stored with the value
//! next request ── since a change of a command or a source: do the texts still mean the same? ──▶ the value, or made again
//! ```
//!
//! The server notes what was asked, so the word of a worker is not needed.

pub(crate) mod complete;
pub(crate) mod cycle;
pub(crate) mod fresh;
mod inline;
pub(crate) mod open;
mod within;

pub use inline::Inline;
pub use within::{Asker, SubAsked, Within};
