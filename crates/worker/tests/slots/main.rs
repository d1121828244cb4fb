//! Real commands in real slots: how they end, what they say, and that nothing of them is left.

mod ends;
mod environment;
mod group;
mod lost;
mod output;
mod rig;
mod trees;
