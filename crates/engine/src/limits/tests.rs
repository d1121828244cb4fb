//! What the buckets promise.
