//! Numbers that a hall may want to change.

/// How the engine behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a session lives without a renewal.
    pub lease_ms: u64,
    /// How long a worker has to accept an assignment.
    pub accept_ms: u64,
    /// How old an attempt is when its accepted or running state is stored.
    pub save_ms: u64,
    /// How long a worker that was told to stop an attempt for its time has before the attempt is given up: its own
    /// grace and a little more.
    pub force_ms: u64,
    /// How long a job waits for what others use until a worker is kept for it.
    pub aging_ms: u64,
    /// How long a idempotency key is remembered.
    pub idempotency_key_ms: u64,
    /// How long the feed is kept.
    pub feed_ms: u64,
    /// How long the audit is kept.
    pub audit_ms: u64,
    /// How often retention looks at what is completed.
    pub retention_ms: u64,
    /// Completed jobs looked at in one step of retention.
    pub retention_step: usize,
    /// Completed jobs kept in memory.
    pub cached: usize,
    /// Specs of waiting jobs kept in memory, in bytes of params; beyond that they are read back when claimed.
    pub spec_bytes: usize,
    /// Open jobs the hall takes; more are refused.
    pub open_jobs: usize,
    /// Groups the hall has open at once; more are refused.
    pub open_groups: usize,
    /// How long matching rests after the store could not write.
    pub storage_rest_ms: u64,
    /// Ids taken from the store at first; more at a time when they go fast.
    pub block: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            lease_ms: 30_000,
            accept_ms: 5_000,
            save_ms: 1_000,
            force_ms: 15_000,
            aging_ms: 30_000,
            idempotency_key_ms: 24 * 3_600_000,
            feed_ms: 24 * 3_600_000,
            audit_ms: 90 * 24 * 3_600_000,
            retention_ms: 3_600_000,
            retention_step: 1_000,
            cached: 1_000,
            spec_bytes: 64 << 20,
            open_jobs: 20_000_000,
            open_groups: 1_000_000,
            storage_rest_ms: 1_000,
            block: 1_000,
        }
    }
}
