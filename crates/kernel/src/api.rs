//! What goes into the kernel and what comes out of it.

pub(crate) mod answer;
pub(crate) mod config;
pub(crate) mod effect;
pub(crate) mod observer;
pub(crate) mod request;
pub(crate) mod ticket;
pub(crate) mod time;
