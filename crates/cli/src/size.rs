//! Sizes as people write them: `10GiB`, `500MB`, `1048576`.

use std::str::FromStr;

/// The units by their letter, as powers.
const UNITS: [char; 4] = ['k', 'm', 'g', 't'];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("{text:?} is not a size such as 10GiB, 500MB or 1048576");
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.trim_start().to_ascii_lowercase();
        let (base, letter) = match unit.strip_suffix("ib") {
            Some(letter) => (1_024, letter),
            None => (1_000, unit.strip_suffix('b').unwrap_or(&unit)),
        };
        let power = match letter {
            "" if base == 1_000 => 0,
            letter => 1 + UNITS.iter().position(|known| letter == known.to_string()).ok_or_else(wrong)?,
        };
        let factor = u64::pow(base, u32::try_from(power).unwrap_or(0));
        number.checked_mul(factor).map(Size).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_a_thousand_and_of_1024() {
        let known = [
            ("0", 0),
            ("1048576", 1_048_576),
            ("500B", 500),
            ("10GiB", 10 << 30),
            ("10 gib", 10 << 30),
            ("500MB", 500_000_000),
            ("500M", 500_000_000),
            ("2k", 2_000),
            ("1TiB", 1 << 40),
        ];
        for (text, bytes) in known {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for wrong in ["", "GiB", "1.5GB", "-1", "10GiBB", "10ib", "10x", "99999999999999TB", "1e9"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong:?}");
        }
    }
}
