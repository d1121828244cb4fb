//! Equality of JSON documents as values: spacing, the order of members and the spelling of numbers do not matter.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Whether two valid documents are the same value. Of members with the same name the last one counts.
pub(super) fn same(left: &str, right: &str) -> bool {
    left == right || Reader::read(left) == Reader::read(right)
}

#[derive(Debug, PartialEq)]
enum Value<'a> {
    /// `true`, `false`, `null`, or a number with an exponent out of range, which is compared as text.
    Word(&'a str),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
    Object(BTreeMap<Cow<'a, str>, Value<'a>>),
}

/// A decimal number without leading and trailing zeros: `0.digits × 10^exponent`. Zero has no digits.
#[derive(Debug, PartialEq)]
struct Number {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

/// Reads a document that was validated before, so its grammar and depth are not checked again.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn read(text: &'a str) -> Value<'a> {
        Reader { text, at: 0 }.value()
    }

    fn value(&mut self) -> Value<'a> {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.list(),
            Some(b'"') => Value::Text(self.string()),
            _ => {
                let word = self.word();
                Number::read(word).map_or(Value::Word(word), Value::Number)
            }
        }
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes the bracket and commas before the next entry; false at the closing bracket or the end.
    fn next_entry(&mut self, close: u8) -> bool {
        loop {
            match self.peek() {
                None => return false,
                Some(byte) if byte == close => {
                    self.at += 1;
                    return false;
                }
                Some(b',' | b':') => self.at += 1,
                Some(_) => return true,
            }
        }
    }

    fn list(&mut self) -> Value<'a> {
        self.at += 1;
        let mut list = Vec::new();
        while self.next_entry(b']') {
            list.push(self.value());
        }
        Value::List(list)
    }

    fn object(&mut self) -> Value<'a> {
        self.at += 1;
        let mut object = BTreeMap::new();
        while self.next_entry(b'}') {
            let name = self.string();
            if !self.next_entry(b'}') {
                break;
            }
            let value = self.value();
            object.insert(name, value);
        }
        Value::Object(object)
    }

    fn string(&mut self) -> Cow<'a, str> {
        let start = self.at;
        let (mut escaped, mut plain) = (false, true);
        self.at += 1;
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            self.at += 1;
            match byte {
                _ if escaped => escaped = false,
                b'\\' => (escaped, plain) = (true, false),
                b'"' => break,
                _ => {}
            }
        }
        let quoted = &self.text[start..self.at];
        let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        // A lone surrogate is valid for the grammar but is not text: it is compared as it is written.
        let decoded = if plain { None } else { serde_json::from_str(quoted).ok().map(Cow::Owned) };
        decoded.unwrap_or(Cow::Borrowed(inner))
    }

    /// A number or a literal.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b':') || byte.is_ascii_whitespace();
        let rest = &self.text.as_bytes()[start..];
        self.at += rest.iter().position(ends).unwrap_or(rest.len()).max(1);
        self.text.get(start..self.at).unwrap_or_default()
    }
}

impl Number {
    fn read(word: &str) -> Option<Number> {
        let (negative, rest) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
        let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            return Some(Number { negative: false, digits, exponent: 0 });
        }
        let given: i64 = exponent.parse().ok()?;
        let point = i64::try_from(whole.len()).ok()?.checked_sub(i64::try_from(zeros).ok()?)?;
        Some(Number { negative, digits, exponent: given.checked_add(point)? })
    }
}

#[cfg(test)]
mod tests {
    use super::same;
    use proptest::prelude::*;

    #[test]
    fn spelling_does_not_matter() {
        for (left, right) in [
            ("{}", " { } "),
            (r#"{"a":1,"b":[true,null]}"#, r#"{ "b" : [ true , null ], "a" : 1.0 }"#),
            ("1", "1.00"),
            ("100", "1e2"),
            ("100", "0.01E+4"),
            ("-0", "0.0e7"),
            ("0.001", "1e-3"),
            ("12345678901234567890.0", "12345678901234567890"),
            (r#""a/b""#, r#""\u0061\/b""#),
            (r#"{"\u0061":1}"#, r#"{"a":1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            ("1e99999999999999999999", "1e99999999999999999999"),
            (r#""\ud800""#, r#" "\ud800""#),
        ] {
            assert!(same(left, right), "{left} and {right}");
        }
    }

    #[test]
    fn other_values_differ() {
        for (left, right) in [
            ("{}", "[]"),
            ("{}", "null"),
            ("1", "\"1\""),
            ("1", "-1"),
            ("1", "10"),
            ("0.1", "0.01"),
            ("true", "false"),
            ("[1,2]", "[2,1]"),
            ("[1]", "[1,1]"),
            ("[[],[]]", "[[[]]]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
            (r#"{"a":"b"}"#, r#"{"b":"a"}"#),
            ("12345678901234567890123", "12345678901234567890124"),
            ("9007199254740993", "9007199254740992"),
            ("1e99999999999999999999", "1e99999999999999999998"),
            (r#""\"""#, r#""\\""#),
        ] {
            assert!(!same(left, right), "{left} and {right}");
        }
    }

    fn document() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a\"\\\\\n é]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab\"]{0,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn documents_are_compared_as_their_values_are(left in document(), right in document()) {
            let pretty = serde_json::to_string_pretty(&left).unwrap();
            prop_assert!(same(&left.to_string(), &pretty));
            prop_assert_eq!(same(&pretty, &right.to_string()), left == right);
        }
    }
}
