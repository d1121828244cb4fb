//! The parts of a request, validated: parameters, bodies, byte ranges and filters.

pub(crate) mod body;
pub(crate) mod filter;
pub(crate) mod id;
pub(crate) mod params;
pub(crate) mod range;
