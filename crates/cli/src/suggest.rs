//! Suggestions for misspelled words.

/// The candidate most similar to a word, if one is similar enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = 1 + word.chars().count() / 4;
    let measured = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    let (far, candidate) = measured.min_by_key(|(far, _)| *far)?;
    (far > 0 && far <= most).then_some(candidate)
}

/// `; did you mean "x"?`, or an empty text.
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |found| format!("; did you mean {found:?}?"))
}

/// The edit distance between two words: insertions, deletions, replacements and swaps of neighbours.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let same = from[i - 1] == to[j - 1];
            let replaced = rows[i - 1][j - 1] + usize::from(!same);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_keyboard_are_recognised() {
        let states = ["queued", "running", "succeeded", "failed"];
        for (slip, meant) in
            [("runing", "running"), ("faield", "failed"), ("succeded", "succeeded"), ("queud", "queued")]
        {
            assert_eq!(nearest(slip, states), Some(meant), "{slip}");
        }
        assert_eq!(nearest("elephant", states), None);
        assert_eq!(nearest("queued", states), None, "it is already correct");
        assert_eq!(hint("runing", states), "; did you mean \"running\"?");
        assert_eq!(hint("x", []), "");
    }
}
