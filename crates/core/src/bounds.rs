//! Every limit of the kernel, in one place. Past a limit stands a clear error that names the field and the limit.

/// Longest name of a type, queue or worker, in bytes.
pub const NAME_BYTES: usize = 128;
/// Longest job key, in bytes.
pub const KEY_BYTES: usize = 512;
/// Largest `params` of a job, in bytes of JSON.
pub const PARAMS_BYTES: usize = 256 * 1024;
/// Largest result value that is kept in the job's row, in bytes of JSON.
pub const VALUE_BYTES: usize = 256 * 1024;
/// Deepest nesting of a JSON document.
pub const JSON_DEPTH: usize = 64;
/// Longest `reason` of a failure, in bytes.
pub const REASON_BYTES: usize = 256;
/// Longest `explanation` of a failure, in bytes.
pub const EXPLANATION_BYTES: usize = 16 * 1024;
/// Largest number of attempts a policy may ask for.
pub const MAX_ATTEMPTS: u16 = 1_000;
/// Longest delay of a backoff, a retry verdict or a snooze: 365 days, in milliseconds.
pub const DELAY_MS: u64 = 365 * 24 * 3_600 * 1_000;
/// Largest job id: what every JSON reader still holds exactly (2⁵³ − 1).
pub const JOB_ID: u64 = (1 << 53) - 1;
/// Latest moment that can be named: 9999-12-31T23:59:59.999Z, in milliseconds since 1970.
pub const TIME_MS: i64 = 253_402_300_799_999;
/// Lost leases in a job's life after which it has crashed: it probably kills its workers.
pub const LOST_LEASES: u16 = 3;
/// Claims in a row that nobody accepted after which the job has crashed.
pub const UNACCEPTED_CLAIMS: u16 = 10;
/// Jobs in one submit.
pub const SUBMIT_JOBS: usize = 10_000;
/// Longest idempotency key, in bytes.
pub const SUBMIT_KEY_BYTES: usize = 256;
/// Slots one vacancy may offer.
pub const VACANCY_SLOTS: u32 = 10_000;
