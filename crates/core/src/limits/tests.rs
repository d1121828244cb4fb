//! What limits promise.

mod expressions;
mod limits;
mod places;
mod tokens;
