//! Numbers of abilities, counted in thousandths.
//!
//! An `i64` of thousandths instead of an `f64`: equality, order and hash are exact, there is no NaN, infinity or minus
//! zero to reject, and `0.1` prints as it was written on every machine. Three decimals and 9.2 · 10^15 are enough for
//! cores, gigabytes and versions.

use std::fmt;
use std::iter;

use super::DECIMALS_MAX;

const THOUSANDTHS: u64 = 1_000;

/// An exact decimal with up to three decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(i64);

/// Why a text is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberFault {
    /// It does not look like one; it may be a word.
    NotANumber,
    /// It is a number with more decimals than are supported.
    TooPrecise,
    /// It is a number beyond the range.
    TooLarge,
}

impl Number {
    /// The number that is this many thousandths.
    #[must_use]
    pub const fn from_thousandths(thousandths: i64) -> Self {
        Self(thousandths)
    }

    /// How many thousandths it is.
    #[must_use]
    pub const fn thousandths(self) -> i64 {
        self.0
    }

    /// Parses `2`, `-1`, `0.5`, `.5` or `5.`: a text that looks like a number is one or is rejected, never a word.
    pub(super) fn parse(text: &str) -> Result<Self, NumberFault> {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if !are_digits(whole, fraction) {
            return Err(NumberFault::NotANumber);
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > DECIMALS_MAX {
            return Err(NumberFault::TooPrecise);
        }
        let padded = fraction.bytes().chain(iter::repeat(b'0')).take(DECIMALS_MAX);
        signed_sum(sign, whole.bytes().chain(padded)).map(Self).ok_or(NumberFault::TooLarge)
    }
}

fn are_digits(whole: &str, fraction: &str) -> bool {
    let mut digits = whole.bytes().chain(fraction.bytes()).peekable();
    digits.peek().is_some() && digits.all(|digit| digit.is_ascii_digit())
}

/// Sums with the sign on every digit, so that the smallest `i64` is in range too.
fn signed_sum(sign: i64, mut digits: impl Iterator<Item = u8>) -> Option<i64> {
    digits.try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_add(sign * i64::from(digit - b'0')))
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, rest) = (self.0.unsigned_abs() / THOUSANDTHS, self.0.unsigned_abs() % THOUSANDTHS);
        let fraction = format!(".{rest:03}");
        write!(f, "{sign}{whole}{}", fraction.trim_end_matches('0').trim_end_matches('.'))
    }
}
