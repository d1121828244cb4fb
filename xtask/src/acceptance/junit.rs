//! A reader for the one JUnit file that nextest writes.
//!
//! It parses only tags and their attributes: in well-formed XML a raw `<` outside of a comment or CDATA section
//! begins a tag, so text and captured output cannot be mistaken for one. Unexpected input is refused.

/// One executed test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestResult {
    /// The test binary: a package, or `package::target`.
    pub binary: String,
    /// The test's path within its binary.
    pub name: String,
    pub passed: bool,
}

/// Reads every test case.
///
/// # Errors
/// The file is truncated, announces another number of tests than it contains, or contains none.
pub fn parse(source: &str) -> Result<Vec<TestResult>, String> {
    let mut announced = None;
    let mut results: Vec<TestResult> = Vec::new();
    let mut inside = false;
    let mut closed = false;
    for tag in tags(source)? {
        match tag.name {
            "testsuites" => announced = Some(tag.attribute("tests")?),
            "/testsuites" => closed = true,
            "testcase" => {
                let (binary, name) = (tag.attribute("classname")?, tag.attribute("name")?);
                results.push(TestResult { binary, name, passed: true });
                inside = !tag.empty;
            }
            "/testcase" => inside = false,
            "failure" | "error" | "skipped" if inside => {
                if let Some(last) = results.last_mut() {
                    last.passed = false;
                }
            }
            _ => {}
        }
    }
    if !closed {
        return Err("the test results are cut short".to_owned());
    }
    if announced.as_deref() != Some(results.len().to_string().as_str()) {
        return Err(format!("the test results announce {announced:?} tests and hold {}", results.len()));
    }
    if results.is_empty() {
        return Err("no test ran".to_owned());
    }
    results.sort();
    Ok(results)
}

struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    empty: bool,
}

impl Tag<'_> {
    fn attribute(&self, wanted: &str) -> Result<String, String> {
        let mut rest = self.attributes.trim_start();
        while let Some((name, after)) = rest.split_once("=\"") {
            let (value, after) =
                after.split_once('"').ok_or_else(|| format!("<{}> has an open attribute", self.name))?;
            if name == wanted {
                return Ok(unescape(value));
            }
            rest = after.trim_start();
        }
        Err(format!("<{}> has no attribute {wanted}", self.name))
    }
}

fn tags(source: &str) -> Result<Vec<Tag<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        if rest.starts_with('!') {
            return Err("comments and CDATA sections are not expected in the test results".to_owned());
        }
        let end = end_of_tag(rest).ok_or("a tag of the test results is cut short")?;
        let (inner, empty) = match rest[..end].strip_suffix('/') {
            Some(inner) => (inner, true),
            None => (&rest[..end], false),
        };
        let (name, attributes) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
        found.push(Tag { name, attributes, empty });
        rest = &rest[end + 1..];
    }
    Ok(found)
}

/// The position of the tag's `>`; one inside a quoted value does not end it.
fn end_of_tag(rest: &str) -> Option<usize> {
    let mut quoted = false;
    rest.char_indices().find_map(|(at, character)| {
        quoted ^= character == '"';
        (character == '>' && !quoted).then_some(at)
    })
}

fn unescape(value: &str) -> String {
    value
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}
