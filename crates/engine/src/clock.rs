//! The machine's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use jobhall_core::Time;
use jobhall_kernel::{Mono, Now};

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
