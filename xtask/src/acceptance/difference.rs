//! The lines in which two pages differ.

/// The differences between `present` and `wanted`, one line each with `-` or `+`; none if they are equal.
///
/// Lines are matched in order, greedily: a page changes row by row, so this is sufficient.
#[must_use]
pub fn between(present: &str, wanted: &str) -> Option<String> {
    if present == wanted {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (present.lines().collect(), wanted.lines().collect());
    let mut shown = Vec::new();
    let (mut left, mut right) = (0, 0);
    loop {
        match (old.get(left), new.get(right)) {
            (None, None) => break,
            (Some(a), Some(b)) if a == b => (left, right) = (left + 1, right + 1),
            (Some(a), rest) if rest.is_none() || !new[right..].contains(a) => {
                shown.push(format!("-{a}"));
                left += 1;
            }
            (_, rest) => {
                shown.extend(rest.map(|b| format!("+{b}")));
                right += 1;
            }
        }
    }
    if shown.is_empty() {
        shown.push("(only line ends differ)".to_owned());
    }
    Some(shown.join("\n"))
}
