//! The name that was probably meant.

/// Maximum number of wrong letters for a name to count as a misspelling of another.
const SLIPS_MAX: usize = 2;

/// The first known name inside this one, or else the nearest within two wrong letters.
pub(crate) fn did_you_mean(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let contained = known.iter().find(|candidate| name.contains(**candidate));
    contained.or_else(|| nearest(name, known)).copied()
}

fn nearest<'a>(name: &str, known: &'a [&'static str]) -> Option<&'a &'static str> {
    let by_slips = known.iter().map(|candidate| (slips(name, candidate), candidate));
    by_slips.filter(|(slips, _)| *slips <= SLIPS_MAX).min_by_key(|(slips, _)| *slips).map(|(_, name)| name)
}

/// How many letters have to be added, left out or changed (Levenshtein). Names are short and ASCII.
pub(crate) fn slips(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
