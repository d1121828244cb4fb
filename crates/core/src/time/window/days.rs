//! Days of the week.

use std::fmt;

use jiff::civil::{Date, Weekday};

/// Their names, Monday first.
pub(crate) const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A set of days; the lowest bit is Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Days(u8);

impl Days {
    pub(super) const EVERY: Days = Days(0b111_1111);
    pub(super) const NONE: Days = Days(0);

    /// With the days from one to the other, over the end of the week where need be.
    pub(super) fn with(self, from: usize, to: usize) -> Days {
        let length = (to + 7 - from) % 7;
        Days((0..=length).fold(self.0, |bits, step| bits | 1 << ((from + step) % 7)))
    }

    pub(super) fn is_every(self) -> bool {
        self == Days::EVERY
    }

    pub(super) fn has(self, date: Date) -> bool {
        self.holds(index(date.weekday()))
    }

    fn holds(self, day: usize) -> bool {
        self.0 >> day & 1 == 1
    }
}

fn index(day: Weekday) -> usize {
    usize::from(day.to_monday_zero_offset().unsigned_abs())
}

impl fmt::Display for Days {
    /// Runs of three days and more as `mon-fri`, from Monday on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut day = 0;
        let mut space = "";
        while day < 7 {
            let length = (day..7).take_while(|&next| self.holds(next)).count();
            match length {
                0 => day += 1,
                1 | 2 => {
                    write!(f, "{space}{}", NAMES[day])?;
                    day += 1;
                    space = " ";
                }
                _ => {
                    write!(f, "{space}{}-{}", NAMES[day], NAMES[day + length - 1])?;
                    day += length;
                    space = " ";
                }
            }
        }
        Ok(())
    }
}
