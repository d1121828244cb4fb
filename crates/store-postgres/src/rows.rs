//! Jobs and specs as rows and columns, and the stored answers of idempotency keys.

pub(crate) mod lives;
pub(crate) mod row;
mod shapes;
pub(crate) mod spec;
pub(crate) mod submitted;
