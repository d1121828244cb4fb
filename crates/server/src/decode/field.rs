//! Finds the field at a position in a JSON text, so that an error can name the field.

/// The path to the value at a line and column as reported by serde, such as `[1].retry.delay`; empty at the top.
pub(crate) fn field_at(text: &[u8], line: usize, column: usize) -> String {
    let mut scan = Scan::default();
    for &byte in &text[..offset(text, line, column)] {
        scan.take(byte);
    }
    scan.path()
}

/// Lines and columns count from 1; the column is that of the last byte read.
fn offset(text: &[u8], line: usize, column: usize) -> usize {
    let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let begin = std::iter::once(0).chain(ends).nth(line.saturating_sub(1)).unwrap_or(text.len());
    (begin + column).min(text.len())
}

/// An open object or array.
enum Open {
    /// With its most recent key.
    Object(String),
    /// With the index of the current element.
    Array(usize),
}

#[derive(Default)]
struct Scan {
    open: Vec<Open>,
    /// Inside a string: its content so far.
    string: Option<Vec<u8>>,
    escaped: bool,
    /// Whether the next string is a key.
    key_next: bool,
}

impl Scan {
    fn take(&mut self, byte: u8) {
        match &mut self.string {
            Some(string) if self.escaped || byte != b'"' => {
                self.escaped = byte == b'\\' && !self.escaped;
                string.push(byte);
            }
            Some(_) => self.end_string(),
            None => self.outside(byte),
        }
    }

    fn end_string(&mut self) {
        let string = self.string.take().unwrap_or_default();
        if let (true, Some(Open::Object(key))) = (self.key_next, self.open.last_mut()) {
            *key = String::from_utf8_lossy(&string).into_owned();
            self.key_next = false;
        }
    }

    fn outside(&mut self, byte: u8) {
        match byte {
            b'"' => self.string = Some(Vec::new()),
            b'{' => {
                self.open.push(Open::Object(String::new()));
                self.key_next = true;
            }
            b'[' => self.open.push(Open::Array(0)),
            b'}' | b']' => {
                self.open.pop();
                self.key_next = false;
            }
            b',' => match self.open.last_mut() {
                Some(Open::Object(_)) => self.key_next = true,
                Some(Open::Array(at)) => *at += 1,
                None => {}
            },
            _ => {}
        }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::Object(key) if key.is_empty() => {}
                Open::Object(key) if path.is_empty() => path += key,
                Open::Object(key) => path += &format!(".{key}"),
                Open::Array(at) => path += &format!("[{at}]"),
            }
        }
        path.chars().take(100).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let end = text.find('!').expect("a place");
        let (before, after) = text.split_at(end);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().len();
        let whole = format!("{before}{}", &after[1..]);
        assert_eq!(field_at(whole.as_bytes(), line, column), expected, "{text}");
    }

    #[test]
    fn the_field_is_the_one_that_stands_there() {
        check(r#"{"type":7!}"#, "type");
        check(r#"{"a":1,"b":"x"!}"#, "b");
        check("{\"a\":{\"b\":[1,\n {\"c\" : tru!e}]}}", "a.b[1].c");
        check(r#"[{"a":1},{"b":"]},\"{["!}]"#, "[1].b");
        check(r#"{"a":{"b":1}!}"#, "a");
        check(r#"7!"#, "");
        check("!", "");
    }

    #[test]
    fn a_place_behind_the_text_does_no_harm() {
        assert_eq!(field_at(b"{", 9, 9), "");
        assert_eq!(field_at(b"", 0, 0), "");
        assert_eq!(field_at(b"]]}}", 1, 4), "");
    }
}
