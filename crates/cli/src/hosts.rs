//! Host names that the server answers to, from flags, variables and files, separated by commas.
//!
//! A name is compared with the `Host` header, without scheme and port. A name that no client can send would reject every
//! request, so it is rejected when it is read.

use std::net::Ipv6Addr;

/// Maximum number of names.
const NAMES: usize = 100;
/// Maximum length of a name, and of a label between two dots.
const NAME_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

pub fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    let name = text.to_ascii_lowercase();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Ok(format!("[{address}]"));
    }
    let wrong = |why: &str| Err(format!("the host {text:?} {why}"));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_label = |label: &str| (1..=LABEL_BYTES).contains(&label.len());
    match name.len() {
        0 => Err("a host is empty".to_owned()),
        length if length > NAME_BYTES => wrong(&format!("has {length} bytes, the limit is {NAME_BYTES}")),
        _ if name.contains(':') || name.contains('/') => {
            wrong("is not a plain host name; remove scheme and port")
        }
        _ if !name.bytes().all(is_plain) => wrong("may contain only letters, digits, '-', '_' and '.'"),
        _ if !name.split('.').all(is_label) => {
            wrong(&format!("needs 1 to {LABEL_BYTES} characters before and after each dot"))
        }
        _ => Ok(name),
    }
}

/// Parses several names separated by commas.
pub fn names(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<_> = text.split(',').map(name).collect::<Result<_, _>>()?;
    few(&names)?;
    Ok(names)
}

/// Refuses too many names.
pub fn few(names: &[String]) -> Result<(), String> {
    if names.len() > NAMES {
        return Err(format!("{} hosts are named, the limit is {NAMES}", names.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_a_browser_sends_them() {
        for (text, read) in [
            ("hall.example", "hall.example"),
            (" Hall.Example ", "hall.example"),
            ("build_1", "build_1"),
            ("10.0.0.5", "10.0.0.5"),
            ("fd00::1", "[fd00::1]"),
            ("[FD00:0::1]", "[fd00::1]"),
        ] {
            assert_eq!(name(text).as_deref(), Ok(read), "{text:?}");
        }
        assert_eq!(names("a.example, b.example").unwrap(), ["a.example", "b.example"]);
    }

    #[test]
    fn what_can_never_be_sent_is_refused_by_name() {
        for (text, word) in [
            ("", "empty"),
            ("hall:7450", "port"),
            ("https://hall", "scheme"),
            ("*.example", "letters"),
            ("hall example", "letters"),
            ("hällchen", "letters"),
            ("hall.", "dot"),
            ("a..b", "dot"),
            (&"a".repeat(64), "63"),
            (&"ab.".repeat(90), "253"),
        ] {
            assert!(name(text).unwrap_err().contains(word), "{text:?}: {:?}", name(text));
        }
        assert!(names("a.example,,b.example").is_err());
        assert!(names(&vec!["a"; 101].join(",")).unwrap_err().contains("limit is 100"));
        assert!(names(&vec!["a"; 100].join(",")).is_ok());
    }
}
