//! The names that were probably meant.

use crate::needs::slips;

/// Maximum number of names that are suggested.
const SUGGESTED: usize = 2;

/// The known names that differ from this one in at most two letters, the nearest first.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let most = (name.len() / 2).clamp(1, 2);
    let alike = known.into_iter().filter(|known| known.len().abs_diff(name.len()) <= most);
    let mut near: Vec<(usize, &str)> =
        alike.map(|known| (slips(name, known), known)).filter(|(slips, _)| *slips <= most).collect();
    near.sort_unstable();
    near.into_iter().take(SUGGESTED).map(|(_, known)| known.to_owned()).collect()
}
