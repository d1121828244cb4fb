//! Decision records are numbered from 1, without duplicates or gaps.

use super::Fault;

/// Every fault in the names of the files in `docs/decisions/`; `README.md` is not a decision.
#[must_use]
pub fn misnumbered(names: &[&str]) -> Vec<Fault> {
    let mut numbers = Vec::new();
    let mut faults = Vec::new();
    for name in names.iter().filter(|name| **name != "README.md") {
        match number(name) {
            Some(number) => numbers.push((number, *name)),
            None => faults.push(format!("docs/decisions/{name} is not named NNNN-words-of-the-title.md")),
        }
    }
    numbers.sort_unstable();
    for (expected, (found, name)) in (1..).zip(numbers) {
        if expected != found {
            faults.push(format!("docs/decisions/{name} should have the number {expected:04}"));
        }
    }
    faults
}

fn number(name: &str) -> Option<u32> {
    let (digits, rest) = name.split_once('-')?;
    let title = rest.strip_suffix(".md")?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = digits.len() == 4 && !title.is_empty() && title.bytes().all(plain);
    if fits && digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}
