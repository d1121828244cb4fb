//! Two clocks: the wall clock determines when a job is due, the monotonic clock when a lease expires. A jump of the
//! wall clock must not end a lease. The kernel reads neither: the driver passes the time with every input.

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
