//! Rows that differ only in a few columns. Most jobs of one commit have the same values in nearly every column.
//! Each such combination of values, a shape, is sent once, and a row refers to its shape by number. The server
//! unpacks an array parameter value by value, which costs more than the row itself.

/// Maximum number of shapes in one statement. The server finds a shape by counting from the first.
const MOST: usize = 128;

/// Rows of one statement, and their shapes.
#[derive(Debug)]
pub(crate) struct Shapes<'r, R> {
    rows: &'r [R],
    /// The shape of each row, from 1.
    numbers: Vec<i16>,
    /// For each shape, a row that has it.
    shapes: Vec<&'r R>,
}

impl<'r, R> Shapes<'r, R> {
    /// The shapes of these rows; `alike` returns whether two rows have the same shape.
    pub(crate) fn of(mut rows: &'r [R], alike: impl Fn(&R, &R) -> bool) -> Vec<Shapes<'r, R>> {
        let mut parts = Vec::new();
        while !rows.is_empty() {
            let part = Shapes::first_of(rows, &alike);
            rows = &rows[part.rows.len()..];
            parts.push(part);
        }
        parts
    }

    /// As many rows as fit in one statement.
    fn first_of(rows: &'r [R], alike: impl Fn(&R, &R) -> bool) -> Shapes<'r, R> {
        let (mut numbers, mut shapes): (_, Vec<&R>) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            // Usually the shape is that of the previous row.
            let at = match shapes.iter().rposition(|known| alike(known, row)) {
                Some(at) => at,
                None if shapes.len() == MOST => break,
                None => {
                    shapes.push(row);
                    shapes.len() - 1
                }
            };
            numbers.push(i16::try_from(at + 1).unwrap_or(i16::MAX));
        }
        Shapes { rows: &rows[..numbers.len()], numbers, shapes }
    }

    /// The number of each row's shape.
    pub(crate) fn numbers(&self) -> Vec<i16> {
        self.numbers.clone()
    }

    /// A column with a value per row.
    pub(crate) fn rows<T>(&self, column: impl Fn(&R) -> T) -> Vec<T> {
        self.rows.iter().map(column).collect()
    }

    /// A column with a value per shape.
    pub(crate) fn each<T>(&self, column: impl Fn(&R) -> T) -> Vec<T> {
        self.shapes.iter().map(|row| column(row)).collect()
    }

    pub(crate) fn count(&self) -> i64 {
        i64::try_from(self.rows.len()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_told_by_its_shape() {
        let rows: Vec<usize> = (0..1_000).map(|row| row * 7 % 300).collect();
        let parts = Shapes::of(&rows, |a, b| a == b);
        let told = parts.iter().flat_map(|part| {
            let shapes = part.each(|row| *row);
            assert!(shapes.len() <= MOST && part.count() == part.numbers().len() as i64);
            part.numbers().into_iter().map(move |number| shapes[usize::try_from(number).unwrap() - 1])
        });
        assert_eq!(told.collect::<Vec<_>>(), rows);
        assert!(parts.len() > 1, "there are more shapes than go in one statement");
        assert_eq!(parts.iter().flat_map(|part| part.rows(|row| *row)).collect::<Vec<_>>(), rows);
    }

    #[test]
    fn rows_that_are_all_alike_have_one_shape_and_none_have_none() {
        let rows = vec![(); 5_000];
        let parts = Shapes::of(&rows, |(), ()| true);
        assert_eq!((parts.len(), parts[0].shapes.len(), parts[0].count()), (1, 1, 5_000));
        assert!(Shapes::of(&[(); 0], |(), ()| true).is_empty());
    }
}
