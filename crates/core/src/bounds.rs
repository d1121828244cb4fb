//! All limits of the kernel. A value beyond a limit is an error that names the field and the limit.

/// Longest name of a type, queue or worker, in bytes.
pub const NAME_BYTES: usize = 128;
/// Longest job key, in bytes.
pub const KEY_BYTES: usize = 512;
/// Largest `params` of a job, in bytes of JSON.
pub const PARAMS_BYTES: usize = 256 * 1024;
/// Largest result value that is kept in the job's row, in bytes of JSON.
pub const VALUE_BYTES: usize = 256 * 1024;
/// Largest value of a record, in bytes of JSON.
pub const RECORD_BYTES: usize = 8 << 20;
/// Maximum number of records that are written with one request.
pub const RECORDS: usize = 10_000;
/// Deepest nesting of a JSON document.
pub const JSON_DEPTH: usize = 64;
/// Longest `reason` of a failure, in bytes.
pub const REASON_BYTES: usize = 256;
/// Longest `explanation` of a failure, in bytes.
pub const EXPLANATION_BYTES: usize = 16 * 1024;
/// Maximum number of attempts in a retry policy.
pub const MAX_ATTEMPTS: u16 = 1_000;
/// Longest delay of a backoff, a retry verdict or a snooze: 365 days, in milliseconds.
pub const DELAY_MS: u64 = 365 * 24 * 3_600 * 1_000;
/// Longest time that completed jobs are kept or reused, where one is given: 100 years, in milliseconds.
pub const KEEP_MS: u64 = 100 * DELAY_MS;
/// Largest job id: the largest integer that every JSON parser represents exactly (2⁵³ − 1).
pub const JOB_ID: u64 = (1 << 53) - 1;
/// Latest time: 9999-12-31T23:59:59.999Z, in milliseconds since 1970.
pub const TIME_MS: i64 = 253_402_300_799_999;
/// Lost leases over a job's life after which it has crashed: it probably kills its workers.
pub const LOST_LEASES: u16 = 3;
/// Consecutive claims that were not accepted after which the job has crashed.
pub const UNACCEPTED_CLAIMS: u16 = 10;
/// Snoozes over a job's life that do not count; further ones are ordinary retries, so that no job repeats forever.
pub const SNOOZES: u32 = 10_000;
/// Maximum number of jobs in one submit.
pub const SUBMIT_JOBS: usize = 10_000;
/// Longest idempotency key, in bytes.
pub const SUBMIT_KEY_BYTES: usize = 256;
/// Longest text that lists can be searched for, in bytes.
pub const SEARCH_BYTES: usize = 256;
/// Maximum number of progress indicators of an attempt.
pub const INDICATORS: usize = 64;
/// Maximum number of slots of one vacancy.
pub const VACANCY_SLOTS: u32 = 10_000;
/// Shortest lease that a worker may ask for, in milliseconds.
pub const LEASE_MS: u64 = 3_000;
/// Longest tag, in bytes.
pub const TAG_BYTES: usize = 64;
/// Maximum number of tags of one job.
pub const TAGS: usize = 32;
/// Maximum number of dependencies of one job.
pub const AFTER: usize = 10_000;
/// Largest weight of a job against limits.
pub const THROTTLE_FACTOR: u32 = 1_000_000;
/// Longest name of a sub-job, in bytes.
pub const CALL_BYTES: usize = 512;
/// Maximum number of sub-jobs of one job.
pub const SUB_JOBS: usize = 10_000;
/// Maximum number of requests that wait at once for one attempt to resume.
pub const WAITERS: usize = 16;
/// Default time limit of an attempt: 24 hours, in milliseconds.
pub const TOTAL_MS: u64 = 24 * 3_600 * 1_000;
/// Maximum number of queues in the scope of a token.
pub const SCOPE_QUEUES: usize = 64;
/// Longest name of a time zone, in bytes.
pub const ZONE_BYTES: usize = 64;
/// Maximum number of time-of-day windows of one job.
pub const WINDOWS: usize = 16;
/// Longest text of windows, in bytes, as written and in its canonical form.
pub const WINDOWS_BYTES: usize = 1_024;
/// Longest cron expression, in bytes.
pub const CRON_BYTES: usize = 256;
/// Shortest interval between two ticks of a schedule, in milliseconds.
pub const EVERY_MS: u64 = 1_000;
/// Maximum number of schedules of a hall.
pub const SCHEDULES: usize = 10_000;
/// Maximum number of missed ticks that a schedule catches up with at once.
pub const CATCH_UP_TICKS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_those_of_the_documents() {
        assert_eq!((PARAMS_BYTES, VALUE_BYTES), (262_144, 262_144));
        assert_eq!((REASON_BYTES, EXPLANATION_BYTES, JSON_DEPTH), (256, 16_384, 64));
        assert_eq!((NAME_BYTES, KEY_BYTES, SUBMIT_KEY_BYTES), (128, 512, 256));
        assert_eq!((MAX_ATTEMPTS, LOST_LEASES, UNACCEPTED_CLAIMS), (1_000, 3, 10));
        assert_eq!((DELAY_MS, KEEP_MS), (31_536_000_000, 3_153_600_000_000));
        assert_eq!((JOB_ID, TIME_MS), (9_007_199_254_740_991, 253_402_300_799_999));
        assert_eq!((SUBMIT_JOBS, VACANCY_SLOTS), (10_000, 10_000));
    }
}
