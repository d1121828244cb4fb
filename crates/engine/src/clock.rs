//! Two clocks: the wall clock determines when a job is due, the monotonic clock when a lease expires. A jump of the
//! wall clock must not end a lease.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use jobhall_core::Time;

/// Milliseconds of the monotonic clock, from an arbitrary origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// This time plus `ms`.
    pub fn plus_ms(self, ms: u64) -> Mono {
        Mono(self.0.saturating_add(ms))
    }
}

/// The current time on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// The wall clock.
    pub wall: Time,
    /// The monotonic clock.
    pub mono: Mono,
}

/// The source of time for the driver.
pub trait Clock: Send + 'static {
    /// The current time.
    fn now(&self) -> Now;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = i64::try_from(since_1970.as_millis()).ok().and_then(|ms| Time::from_ms(ms).ok());
        let mono = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { wall: wall.unwrap_or(Time::EPOCH), mono: Mono(mono) }
    }
}
