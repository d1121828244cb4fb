//! Limits of queues and types: the buckets, admission to them, and the explanation why a job waits.

mod admission;
mod buckets;
mod explain;

pub(crate) use admission::{Admission, SENT_AWAY};
pub use buckets::LimitOf;
pub(crate) use buckets::{Bucket, BucketId, Hindrance, Limits, Share};
pub use explain::{Ahead, ExpectedStart, LimitWhy, Missing};
