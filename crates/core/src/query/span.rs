//! Where something stands in the text of a query.

/// A range of bytes in the text that was read. All spans are equal: the place of a part is not part of what it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

impl Span {
    /// From one byte to another.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Span {
        Span { start, end: end.max(start) }
    }

    /// The range within this text, at borders of characters; at least one character if the text has any.
    #[must_use]
    pub fn within(self, text: &str) -> Span {
        let last = text.char_indices().next_back().map_or(0, |(at, _)| at);
        let start = text.floor_char_boundary(self.start.min(last));
        let end = text.ceil_char_boundary(self.end.min(text.len()));
        let one = text[start..].chars().next().map_or(0, char::len_utf8);
        Span { start, end: end.max(start + one) }
    }

    /// The number of its first character, from 1.
    #[must_use]
    pub fn column(self, text: &str) -> usize {
        text[..self.within(text).start].chars().count() + 1
    }

    /// A line that marks the range below the text.
    #[must_use]
    pub fn marks(self, text: &str) -> String {
        let range = self.within(text);
        let (before, marked) = (&text[..range.start], &text[range.start..range.end]);
        let spaces: String = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        spaces + &"^".repeat(marked.chars().count().max(1))
    }
}
