//! Text in a query: which characters stand for themselves, and how all others are written.

use std::fmt::Write;

/// Whether the canonical text has this character unescaped.
pub(super) fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_')
}

/// RFC 3986: a percent-encoded one of these means the same as the character itself.
pub(super) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What an escape of one character stands for.
pub(super) fn meaning(escape: char) -> Option<&'static str> {
    Some(match escape {
        '~' => "~",
        '_' => "-",
        'I' | '/' => "/",
        '.' => " ",
        'H' => "https://",
        'h' => "http://",
        'f' => "file://",
        'P' => "://",
        '0' => "-0",
        '1' => "-1",
        '2' => "-2",
        '3' => "-3",
        '4' => "-4",
        '5' => "-5",
        '6' => "-6",
        '7' => "-7",
        '8' => "-8",
        '9' => "-9",
        _ => return None,
    })
}

/// Appends a text as an argument. Servers and clients remove the path segments `.` and `..`, so an argument that is
/// one of them is written with escapes.
pub(super) fn escape_argument(text: &str, out: &mut String) {
    let is_dots = matches!(text, "." | "..");
    for c in text.chars() {
        match c {
            '.' if is_dots => out.push_str("~x2e"),
            '-' => out.push_str("~_"),
            _ => escape_character(c, out),
        }
    }
}

/// Appends a text in which a dash needs no escape: a name in the key of a source.
pub(super) fn escape_name(text: &str, out: &mut String) {
    for c in text.chars() {
        if c == '-' { out.push('-') } else { escape_character(c, out) }
    }
}

fn escape_character(c: char, out: &mut String) {
    match c {
        '~' => out.push_str("~~"),
        '/' => out.push_str("~I"),
        ' ' => out.push_str("~."),
        _ if is_plain(c) => out.push(c),
        _ => {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(out, "~x{byte:02x}");
            }
        }
    }
}

/// A text as an argument of a query: a date becomes `2026~_01~_01`.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_argument(text, &mut out);
    out
}
