//! Presence of workers: sessions over WebSocket, long polls, and the sessions that long polls opened.

pub(crate) mod poll;
pub(crate) mod poll_sessions;
pub(crate) mod session;
