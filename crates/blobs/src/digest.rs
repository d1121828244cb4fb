//! The name of an object: the BLAKE3 hash of its content.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The BLAKE3 hash of an object's content, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Why a text is not a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("read a digest: it has 64 lower-case hexadecimal digits")]
pub struct DigestError;

impl Digest {
    #[must_use]
    pub fn of(content: &[u8]) -> Digest {
        Digest(*blake3::hash(content).as_bytes())
    }

    pub(crate) fn from_hasher(hasher: &blake3::Hasher) -> Digest {
        Digest(*hasher.finalize().as_bytes())
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.to_string()
    }

    /// The number of its directory.
    pub(crate) fn shard(&self) -> u8 {
        self.0[0]
    }

    /// The name of its file in that directory.
    pub(crate) fn file_name(&self) -> String {
        self.hex().split_off(2)
    }

    /// The digest of the object with this path, if it is one.
    pub(crate) fn at(shard: u8, file_name: &str) -> Option<Digest> {
        format!("{shard:02x}{file_name}").parse().ok()
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Digest, DigestError> {
        if text.len() != 64 {
            return Err(DigestError);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Digest(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, DigestError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(DigestError),
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn a_digest_reads_back_from_its_text_and_from_its_place() {
        let digest = Digest::of(b"jobhall");
        assert_eq!(digest.hex().parse(), Ok(digest));
        assert_eq!(Digest::at(digest.shard(), &digest.file_name()), Some(digest));
    }

    #[test]
    fn the_hash_is_the_published_one_of_nothing() {
        let known = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Digest::of(b"").hex(), known);
    }

    #[test]
    fn other_texts_are_no_digests() {
        let good = Digest::of(b"").hex();
        let bad =
            ["", "af", &good[1..], &format!("{good}0"), &good.to_uppercase(), &good.replace('a', "g"), "é"];
        for text in bad {
            assert!(text.parse::<Digest>().is_err(), "{text:?}");
        }
        assert!("é".repeat(32).parse::<Digest>().is_err());
    }
}
