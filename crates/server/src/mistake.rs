//! Where in a document a mistake is. Serde tells line and column; people want the name of the field.

/// The path of the value at this line and column, such as `[1].retry.delay`; empty at the top.
pub(crate) fn place(text: &[u8], line: usize, column: usize) -> String {
    let before: usize =
        text.split(|&byte| byte == b'\n').take(line.saturating_sub(1)).map(|l| l.len() + 1).sum();
    let end = (before + column).min(text.len());
    let mut walk = Walk { bytes: &text[..end], at: 0, path: Vec::new() };
    walk.run();
    walk.path.iter().map(Step::to_string).collect::<String>().trim_start_matches('.').to_owned()
}

/// One step down.
enum Step {
    /// Into an object, at this key once it is known.
    Field(Option<String>),
    /// Into an array, at this position.
    Item(usize),
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Field(Some(key)) => write!(f, ".{key}"),
            Step::Field(None) => Ok(()),
            Step::Item(at) => write!(f, "[{at}]"),
        }
    }
}

/// Reads as far as the mistake. What it reads was JSON so far, so it need not be strict.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<Step>,
}

impl Walk<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'{' => self.path.push(Step::Field(None)),
                b'[' => self.path.push(Step::Item(0)),
                b'}' | b']' => {
                    self.path.pop();
                }
                b',' => match self.path.last_mut() {
                    Some(Step::Item(at)) => *at += 1,
                    Some(Step::Field(key)) => *key = None,
                    None => {}
                },
                b'"' => {
                    let text = self.text();
                    if let Some(Step::Field(key @ None)) = self.path.last_mut() {
                        *key = Some(text);
                    }
                }
                _ => {}
            }
        }
    }

    /// The text up to the closing quote, without a look at its escapes.
    fn text(&mut self) -> String {
        let begin = self.at;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        let end = self.at.min(self.bytes.len());
        self.at += 1;
        String::from_utf8_lossy(&self.bytes[begin.min(end)..end]).chars().take(40).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> String {
        // Serde's own place of the first mistake in reading a list of objects with numbers.
        let error = serde_json::from_str::<Vec<std::collections::BTreeMap<String, u8>>>(text).unwrap_err();
        place(text.as_bytes(), error.line(), error.column())
    }

    #[test]
    fn a_mistake_is_placed_at_its_field() {
        assert_eq!(at(r#"[{"a":1},{"b":"x"}]"#), "[1].b");
        assert_eq!(at("[{\"a\":1},\n {\"a\\\"{[\":2,\n \"c\": -1}]"), "[1].c");
        assert_eq!(at("[7]"), "[0]");
        assert_eq!(at("7"), "");
        assert_eq!(at(""), "");
    }

    #[test]
    fn whatever_the_bytes_are_it_ends() {
        let bytes: Vec<u8> = (0..=255).cycle().take(2_000).collect();
        for column in 0..600 {
            place(&bytes, 1 + column % 5, column);
            place(b"{\"\\", column, column);
        }
    }
}
