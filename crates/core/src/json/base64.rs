//! Base64 with padding (RFC 4648 §4), for bytes in JSON.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of these bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at > three.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// None unless the text is exactly what [`encode`] would write.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0);
    for digit in body.bytes() {
        bits = (bits << 6 | value(digit)?) & 0xff_ffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    // Unused bits must be zero, so that every value has exactly one text.
    (bits & ((1 << held) - 1) == 0).then_some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    Some(match digit {
        b'A'..=b'Z' => u32::from(digit - b'A'),
        b'a'..=b'z' => u32::from(digit - b'a') + 26,
        b'0'..=b'9' => u32::from(digit - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_standard() {
        for (plain, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), plain.as_bytes());
        }
        for bad in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zm9v=", "====", "Zm 9v", "Zm9v\n", "Zm9-", "=Zm9"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_nothing_else(bytes: Vec<u8>, text in "[A-Za-z0-9+/=]{0,12}") {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
            if let Some(read) = decode(&text) {
                prop_assert_eq!(encode(&read), text);
            }
        }
    }
}
