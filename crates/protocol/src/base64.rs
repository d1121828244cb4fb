//! Bytes as text, for the few that are no text: base64 of RFC 4648 with padding.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let number = number << (8 * (3 - three.len()));
        for digit in 0..4 {
            let place = number >> (18 - 6 * digit) & 63;
            text.push(if digit > three.len() { '=' } else { char::from(DIGITS[place as usize]) });
        }
    }
    text
}

/// Reads what [`encode`] writes, and nothing else.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text).as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in digits.chunks(4) {
        let mut number = 0_u32;
        for digit in four {
            let place = DIGITS.iter().position(|known| known == digit)?;
            number = number << 6 | u32::try_from(place).ok()?;
        }
        let number = number << (6 * (4 - four.len()));
        bytes.extend_from_slice(&number.to_be_bytes()[1..four.len()]);
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn the_published_examples_hold() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn every_byte_comes_back_at_every_place() {
        for len in 0..300_usize {
            let bytes: Vec<u8> = (0..=255).rev().cycle().skip(len * 7).take(len).collect();
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn there_is_one_spelling() {
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zm9v=", "Zm9v====", "====", "Zm 9v", "Zm9v\n", "äbcd"]
        {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
