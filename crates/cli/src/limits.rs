//! The hidden flag `--limits` lowers limits of a server, so that tests of the binary can reach them.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use jobhall_engine::Config;
use jobhall_server::ConnectionLimits;

/// The limits that can be lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connections: ConnectionLimits,
    pub open_jobs_per_queue: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: ConnectionLimits::default(),
            open_jobs_per_queue: Config::default().open_jobs_per_queue,
        }
    }
}

impl FromStr for Limits {
    type Err = String;

    /// Parses `NAME=NUMBER,…`; other limits have their defaults.
    fn from_str(text: &str) -> Result<Limits, String> {
        let (mut limits, most) = (Limits::default(), Limits::default());
        for one in text.split(',') {
            let (name, number) = one.split_once('=').ok_or_else(|| format!("{one:?} is not NAME=NUMBER"))?;
            limits.set(name, number, &most)?;
        }
        Ok(limits)
    }
}

impl Limits {
    fn set(&mut self, name: &str, number: &str, most: &Limits) -> Result<(), String> {
        let (of, to) = (&mut self.connections, &most.connections);
        match name {
            "per_address" => of.per_address = parse(name, number, 1..=to.per_address)?,
            "per_loopback" => of.per_loopback = parse(name, number, 1..=to.per_loopback)?,
            "write_ms" => of.write_ms = parse(name, number, 1..=to.write_ms)?,
            "sessions_per_token" => {
                of.sessions_per_token = parse(name, number, 1..=to.sessions_per_token)?;
            }
            "waiting_per_token" => of.waiting_per_token = parse(name, number, 1..=to.waiting_per_token)?,
            "pages_per_token" => of.pages_per_token = parse(name, number, 1..=to.pages_per_token)?,
            "open_jobs_per_queue" => {
                self.open_jobs_per_queue = parse(name, number, 1..=most.open_jobs_per_queue)?;
            }
            _ => return Err(format!("there is no limit {name:?}")),
        }
        Ok(())
    }
}

fn parse<T>(name: &str, number: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let parsed = number.parse().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| format!("{name} of {number} is outside {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_can_be_lowered_and_not_raised() {
        let limits: Limits = "write_ms=500,sessions_per_token=2,open_jobs_per_queue=7".parse().unwrap();
        let connections = ConnectionLimits { write_ms: 500, sessions_per_token: 2, ..Default::default() };
        assert_eq!(limits, Limits { connections, open_jobs_per_queue: 7 });
        for (given, complaint) in [
            ("write_ms=30001", "write_ms of 30001 is outside 1 to 30000"),
            ("pages_per_token=0", "pages_per_token of 0 is outside 1 to 16"),
            ("per_loopback=x", "per_loopback of x is outside 1 to 10000"),
            ("speed=1", "there is no limit \"speed\""),
            ("write_ms", "\"write_ms\" is not NAME=NUMBER"),
        ] {
            assert_eq!(given.parse::<Limits>(), Err(complaint.to_owned()));
        }
    }
}
