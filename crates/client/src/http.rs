//! Calls over HTTP: the addresses of a hall, the certificates to trust, retries.

pub(crate) mod backoff;
pub(crate) mod call;
pub(crate) mod places;
pub(crate) mod trust;
