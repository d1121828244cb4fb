//! Limits of queues and types: buckets, who is admitted to them, and why a job is not.

mod admission;
mod buckets;
mod explain;

pub(crate) use admission::{Admission, SENT_AWAY};
pub use buckets::LimitOf;
pub(crate) use buckets::{BucketId, Hindrance, Limits, Share};
pub use explain::{LimitWhy, Missing};
