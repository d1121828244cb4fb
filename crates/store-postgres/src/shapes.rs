//! Rows that are alike but for a few columns. Of the jobs of one commit most say the same in nearly every column, so each
//! such saying, a shape, is sent once, and a row tells which one it has. The server takes a column that is sent whole
//! apart value by value, which costs more than the row itself.

use std::ops::Range;

/// Shapes of one statement. The server looks a shape up by counting from the first.
const MOST: usize = 128;

/// Rows that go in one statement, and their shapes.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    rows: Range<usize>,
    /// The shape of each row, from 1.
    pub(crate) numbers: Vec<i16>,
    /// A row that has it, for each shape.
    first: Vec<usize>,
}

impl Shapes {
    /// The shapes of so many rows; `alike` says whether two have the same.
    pub(crate) fn of(rows: usize, alike: impl Fn(usize, usize) -> bool) -> Vec<Shapes> {
        let mut parts: Vec<Shapes> = Vec::new();
        for row in 0..rows {
            if parts.last().is_none_or(|part| part.first.len() == MOST) {
                parts.push(Shapes { rows: row..row, ..Shapes::default() });
            }
            let Some(part) = parts.last_mut() else { continue };
            // The one before is most often the one.
            let at = part.first.iter().rposition(|&known| alike(known, row)).unwrap_or_else(|| {
                part.first.push(row);
                part.first.len() - 1
            });
            part.rows.end = row + 1;
            part.numbers.push(i16::try_from(at + 1).unwrap_or(i16::MAX));
        }
        parts
    }

    /// What the rows have in a column of their own.
    pub(crate) fn rows<T: Clone>(&self, column: &[T]) -> Vec<T> {
        column[self.rows.clone()].to_vec()
    }

    /// What the shapes have.
    pub(crate) fn each<T: Clone>(&self, column: &[T]) -> Vec<T> {
        self.first.iter().map(|&row| column[row].clone()).collect()
    }

    /// How many rows there are.
    pub(crate) fn count(&self) -> i64 {
        i64::try_from(self.rows.len()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_told_by_its_shape() {
        let column: Vec<usize> = (0..1_000).map(|row| row * 7 % 300).collect();
        let parts = Shapes::of(column.len(), |a, b| column[a] == column[b]);
        let told: Vec<usize> = parts
            .iter()
            .flat_map(|part| {
                let shapes = part.each(&column);
                assert!(shapes.len() <= MOST && part.count() == part.numbers.len() as i64);
                part.numbers.iter().map(move |&number| shapes[number as usize - 1]).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(told, column);
        assert!(parts.len() > 1, "there are more shapes than go in one statement");
        let rows: Vec<usize> = parts.iter().flat_map(|part| part.rows(&column)).collect();
        assert_eq!(rows, column);
    }

    #[test]
    fn rows_that_are_all_alike_have_one_shape_and_none_have_none() {
        let parts = Shapes::of(5_000, |_, _| true);
        assert_eq!((parts.len(), parts[0].first.len(), parts[0].count()), (1, 1, 5_000));
        assert!(Shapes::of(0, |_, _| true).is_empty());
    }
}
