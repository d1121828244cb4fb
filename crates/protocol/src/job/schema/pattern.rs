//! Regular expressions of the dialect that JSON Schema uses, without look-around.

/// As `core::name` checks the names of types, queues, workers, tokens and schedules.
pub(super) const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
/// The same after the letter of a cursor.
pub(super) const NAME_CURSOR: &str = "^a[A-Za-z0-9][A-Za-z0-9._-]*$";
/// A queue, or the beginning of queue names, or every queue.
pub(super) const SCOPE_QUEUE: &str = r"^(?:\*|[A-Za-z0-9][A-Za-z0-9._-]*\*?)$";
/// Without control characters.
pub(super) const TEXT: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";
/// Without control characters, white space, commas, quotes and backslashes.
pub(super) const TAG: &str =
    r#"^[^\x00-\x20\x7f-\xa0",\\\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$"#;
/// Names separated by "/", none of them ".", ".." or "-".
pub(super) const SOURCE_KEY: &str = concat!(
    r"^(?:[^\x00-\x1f\x7f-\x9f/.\-][^\x00-\x1f\x7f-\x9f/]*|-[^\x00-\x1f\x7f-\x9f/]+",
    r"|\.[^\x00-\x1f\x7f-\x9f/.][^\x00-\x1f\x7f-\x9f/]*|\.\.[^\x00-\x1f\x7f-\x9f/]+)",
    r"(?:/(?:[^\x00-\x1f\x7f-\x9f/.\-][^\x00-\x1f\x7f-\x9f/]*|-[^\x00-\x1f\x7f-\x9f/]+",
    r"|\.[^\x00-\x1f\x7f-\x9f/.][^\x00-\x1f\x7f-\x9f/]*|\.\.[^\x00-\x1f\x7f-\x9f/]+))*$",
);
pub(super) const WITHOUT_NUL: &str = r"^[^\x00]*$";
/// Printable ASCII that neither begins nor ends with a space.
pub(super) const HEADER: &str = r"^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$";
/// Tags have no commas, which separate them.
pub(super) const ENTITY_TAGS: &str =
    r#"^(?:\*|(?:W/)?"[\x21\x23-\x2b\x2d-\x7e]*"(?:, ?(?:W/)?"[\x21\x23-\x2b\x2d-\x7e]*")*)$"#;
/// Units from the longest to the shortest, each once.
pub(super) const SPAN: &str = "^(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?(?:[0-9]+ms)?$";
/// RFC 3339 from 1970 to 9999.
pub(super) const TIME: &str = "^(?:19[7-9][0-9]|[2-9][0-9]{3})-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])\
     T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?\
     (?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$";

/// The id of an attempt.
pub(super) fn attempt() -> String {
    format!("{}-{}", up_to(jobhall_core::bounds::JOB_ID), up_to(u64::from(u32::MAX)))
}

/// The decimal numbers from 1 to `most`, without leading zeros.
pub(super) fn up_to(most: u64) -> String {
    numbers(&most.to_string(), "0123456789", |digits| {
        let mut ends = digits.chars();
        match (ends.next(), ends.next_back()) {
            (Some(low), Some(high)) => format!("[{low}-{high}]"),
            _ => digits.to_owned(),
        }
    })
}

/// The hexadecimal numbers from 1 to `most`, without leading zeros, in either case.
pub(super) fn hex_up_to(most: u64) -> String {
    numbers(&format!("{most:x}"), "0123456789abcdef", |digits| {
        let upper = digits.chars().filter(char::is_ascii_alphabetic).map(|digit| digit.to_ascii_uppercase());
        let class: String = digits.chars().chain(upper).collect();
        if class.len() == 1 { class } else { format!("[{class}]") }
    })
}

/// Numbers with fewer digits than the largest one; for each of its digits, those that are smaller there; and itself.
fn numbers(most: &str, digits: &str, class: impl Fn(&str) -> String) -> String {
    let (any, nonzero) = (class(digits), class(&digits[1..]));
    let mut ways = Vec::new();
    if most.len() > 1 {
        ways.push(format!("{nonzero}{any}{{0,{}}}", most.len() - 2));
    }
    let mut before = String::new();
    for (at, digit) in most.char_indices() {
        let (value, least) = (digits.find(digit).unwrap_or(0), usize::from(at == 0));
        if value > least {
            let rest = match most.len() - at - 1 {
                0 => String::new(),
                rest => format!("{any}{{{rest}}}"),
            };
            ways.push(format!("{before}{}{rest}", class(&digits[least..value])));
        }
        before += &class(&digits[value..=value]);
    }
    ways.push(before);
    format!("(?:{})", ways.join("|"))
}
