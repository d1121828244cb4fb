//! Real commands in real slots: how they end, what they print, and that no process is left.

mod ends;
mod environment;
mod files;
mod group;
mod isolation;
mod lost;
mod output;
mod rig;
mod trees;
