//! What the kernel is given from outside: its configuration, the time, random bits and an observer.

use jobhall_core::{Dice, LeaseId, Time};

use crate::api::config::Config;
use crate::api::observer::Observer;
use crate::api::time::{Mono, Now};

/// The surroundings of the kernel.
pub(crate) struct Env {
    config: Config,
    now: Now,
    chance: Box<dyn FnMut() -> u64 + Send>,
    observer: Box<dyn Observer>,
    counter: u64,
}

impl Env {
    pub fn new(config: Config, now: Now, chance: Box<dyn FnMut() -> u64 + Send>) -> Env {
        Env { config, now, chance, observer: Box::new(()), counter: 0 }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn now(&self) -> Now {
        self.now
    }

    pub fn wall(&self) -> Time {
        self.now.wall
    }

    pub fn mono(&self) -> Mono {
        self.now.mono
    }

    /// The time of the next input.
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = observer;
    }

    pub fn observer(&self) -> &dyn Observer {
        self.observer.as_ref()
    }

    /// A number that was not returned before since the start.
    pub fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub fn lease(&mut self) -> LeaseId {
        let (high, low) = ((self.chance)(), (self.chance)());
        LeaseId(u128::from(high) << 64 | u128::from(low))
    }

    /// A number that cannot be guessed and that differs between starts.
    pub fn secret(&mut self) -> u64 {
        (self.chance)()
    }

    pub fn dice(&mut self) -> Dice {
        Dice((self.chance)())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_every_random_value_draws_fresh_bits() {
        let mut bits = 0;
        let chance = Box::new(move || {
            bits += 1;
            bits
        });
        let mut env = Env::new(Config::default(), Now::default(), chance);
        assert_eq!((env.number(), env.number()), (1, 2));
        assert_eq!(env.lease(), LeaseId(1 << 64 | 2), "a lease is made of two draws");
        assert_eq!((env.secret(), env.dice()), (3, Dice(4)));
        assert_eq!(env.number(), 3, "numbers are not random");
    }

    #[test]
    fn the_time_is_that_of_the_last_input() {
        let mut env = Env::new(Config::default(), Now::default(), Box::new(|| 0));
        let now = Now { wall: Time::from_ms(7).unwrap(), mono: Mono(9) };
        env.set_now(now);
        assert_eq!((env.now(), env.wall(), env.mono()), (now, now.wall, Mono(9)));
    }
}
