//! How long a value is fresh.

use std::fmt;

use super::declaration::text_form;
use crate::bounds::KEEP_MS;
use crate::time::zone::Zone;
use crate::time::{Time, TimeSpan};

/// The rule for the end of a value's freshness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// So many milliseconds after the value was made.
    After(u64),
    /// At the end of the day in which it was made.
    EndOfDay(Zone),
}

impl Expiry {
    /// Reads `10m`, `EOD` or `EOD Europe/Berlin`.
    pub fn new(text: &str) -> Result<Expiry, ExpiryError> {
        if let Some(zone) = text.strip_prefix("EOD") {
            let name = zone.trim_start();
            if name.is_empty() && zone.is_empty() {
                return Ok(Expiry::EndOfDay(Zone::default()));
            }
            let zone = Zone::new(name).map_err(|error| ExpiryError(error.to_string()))?;
            return Ok(Expiry::EndOfDay(zone));
        }
        match TimeSpan::parse(text) {
            Some(TimeSpan(ms)) if ms > 0 && ms <= KEEP_MS => Ok(Expiry::After(ms)),
            Some(_) => Err(ExpiryError("a value expires after 1ms to 100 years".to_owned())),
            None => Err(ExpiryError(format!(
                "{:?} is neither a duration such as 10m nor the end of a day such as EOD or EOD Europe/Berlin",
                text.chars().take(40).collect::<String>()
            ))),
        }
    }

    /// When a value that was made at this time is fresh no longer.
    #[must_use]
    pub fn at(&self, made: Time) -> Time {
        match self {
            Expiry::After(ms) => made.plus_ms(*ms),
            Expiry::EndOfDay(zone) => {
                let tomorrow = zone.civil(made).date().tomorrow();
                let midnight = tomorrow.map(|day| zone.moments(day.at(0, 0, 0, 0)).0);
                midnight.unwrap_or(Time::END)
            }
        }
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expiry::After(ms) => TimeSpan(*ms).fmt(f),
            Expiry::EndOfDay(zone) => write!(f, "EOD {zone}"),
        }
    }
}

/// Why a text is no expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiryError(String);

impl fmt::Display for ExpiryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ExpiryError {}

text_form!(Expiry, Expiry::new);
