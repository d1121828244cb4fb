//! The configuration of the kernel, with its defaults.

use jobhall_core::Reserved;

/// The configuration of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a session lives without a renewal.
    pub lease_ms: u64,
    /// How long a worker has to accept an assignment.
    pub accept_ms: u64,
    /// How old an attempt is when its accepted or running state is stored.
    pub save_ms: u64,
    /// How long a worker has to stop a timed-out attempt before the attempt is given up: the worker's grace period
    /// plus a margin.
    pub force_ms: u64,
    /// How long a job waits for resources in use before a worker is reserved for it.
    pub aging_ms: u64,
    /// How long a job waits at most for a worker that it does not avoid.
    pub avoid_ms: u64,
    /// How long an idempotency key is kept.
    pub idempotency_key_ms: u64,
    /// How long the feed is kept.
    pub feed_ms: u64,
    /// How long the audit is kept.
    pub audit_ms: u64,
    /// How often retention examines completed jobs.
    pub retention_ms: u64,
    /// Completed jobs examined in one step of retention.
    pub retention_step: usize,
    /// Completed jobs kept in memory.
    pub cached: usize,
    /// Specs of waiting jobs kept in memory, in bytes of params; others are read again when claimed.
    pub spec_bytes: usize,
    /// Maximum number of open jobs; more are rejected.
    pub open_jobs: usize,
    /// Maximum number of open jobs of one queue, so that a token limited to its queues cannot take all of them.
    pub open_jobs_per_queue: usize,
    /// Maximum number of open groups; more are rejected.
    pub open_groups: usize,
    /// How long matching pauses after a failed write.
    pub storage_rest_ms: u64,
    /// Size of the first block of ids; later blocks are larger if ids are used quickly.
    pub block: u64,
    /// The types that only applications create.
    pub reserved: Reserved,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            lease_ms: 30_000,
            accept_ms: 5_000,
            save_ms: 1_000,
            force_ms: 15_000,
            aging_ms: 30_000,
            avoid_ms: 10_000,
            idempotency_key_ms: 24 * 3_600_000,
            feed_ms: 24 * 3_600_000,
            audit_ms: 90 * 24 * 3_600_000,
            retention_ms: 3_600_000,
            retention_step: 1_000,
            cached: 1_000,
            spec_bytes: 32 << 20,
            open_jobs: 20_000_000,
            open_jobs_per_queue: 15_000_000,
            open_groups: 1_000_000,
            storage_rest_ms: 1_000,
            block: 1_000,
            reserved: Reserved::default(),
        }
    }
}
