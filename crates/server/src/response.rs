//! The parts of a response: engine values as wire types, explanations, and bodies that are streamed.

pub(crate) mod content;
pub(crate) mod explain;
pub(crate) mod stream;
pub(crate) mod to_wire;
