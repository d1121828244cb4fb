//! What limits promise.

mod expressions;
mod limits;
mod paths;
mod places;
mod tokens;
