//! Jobs and specs as rows, and the stored answers of idempotency keys.

pub(crate) mod row;
pub(crate) mod spec;
pub(crate) mod submitted;
