//! What a value is stored under, and what goes into it.

use std::fmt;
use std::str::FromStr;

use crate::name::as_text;

/// Bytes of an identity: 160 bits.
const BYTES: usize = 20;
/// Characters of an identity.
pub const IDENTITY_CHARS: usize = 32;
/// Base 32 with digits first, so that texts sort as their bytes do.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// What a query means: the hash of its commands, their versions, their arguments and the data they begin with. It is the
/// key of the job that makes the value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity([u8; BYTES]);

impl Identity {
    /// An identity from its bytes.
    #[must_use]
    pub fn new(bytes: [u8; BYTES]) -> Identity {
        Identity(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; IDENTITY_CHARS];
        for (five, letters) in self.0.chunks_exact(5).zip(text.chunks_exact_mut(8)) {
            let bits = five.iter().fold(0u64, |bits, byte| (bits << 8) | u64::from(*byte));
            for (at, letter) in letters.iter_mut().enumerate() {
                let value = bits >> (35 - 5 * at) & 31;
                *letter = ALPHABET[usize::try_from(value).unwrap_or(0)];
            }
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityError;

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an identity has {IDENTITY_CHARS} characters from 0 to 9 and a to v")
    }
}

impl std::error::Error for IdentityError {}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Identity, IdentityError> {
        let letters = text.as_bytes();
        if letters.len() != IDENTITY_CHARS {
            return Err(IdentityError);
        }
        let mut bytes = [0u8; BYTES];
        for (eight, five) in letters.chunks_exact(8).zip(bytes.chunks_exact_mut(5)) {
            let mut bits = 0u64;
            for letter in eight {
                let value = ALPHABET.iter().position(|known| known == letter).ok_or(IdentityError)?;
                bits = (bits << 5) | value as u64;
            }
            five.copy_from_slice(&bits.to_be_bytes()[3..]);
        }
        Ok(Identity(bytes))
    }
}

/// The BLAKE3 digest of stored bytes: of the data of a source, or of a value. Written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceDigest(pub [u8; 32]);

impl fmt::Display for SourceDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SourceDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceDigestError;

impl fmt::Display for SourceDigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a digest has 64 lower-case hexadecimal digits")
    }
}

impl std::error::Error for SourceDigestError {}

impl FromStr for SourceDigest {
    type Err = SourceDigestError;

    fn from_str(text: &str) -> Result<SourceDigest, SourceDigestError> {
        let plain = text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() != 64 || !plain {
            return Err(SourceDigestError);
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| SourceDigestError)?;
        }
        Ok(SourceDigest(bytes))
    }
}

/// Hashes a transcript as it is written. A copy goes on from where it was taken.
pub trait Hasher: Clone {
    /// Appends bytes to the transcript.
    fn update(&mut self, bytes: &[u8]);
    /// The identity of the transcript so far.
    fn identity(&self) -> Identity;
}

/// Longest version, in bytes.
pub const VERSION_BYTES_MAX: usize = 64;

/// The version of a command: a hash of what it consists of, or a word that its author chose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(Box<str>);

impl Version {
    /// Checks the text: up to 64 letters, digits, `.`, `_` and `-`.
    pub fn new(text: &str) -> Result<Version, VersionError> {
        let fits = !text.is_empty() && text.len() <= VERSION_BYTES_MAX;
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if fits && plain { Ok(Version(text.into())) } else { Err(VersionError) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionError;

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a version has up to {VERSION_BYTES_MAX} letters, digits, \".\", \"_\" and \"-\"")
    }
}

impl std::error::Error for VersionError {}

as_text!(Version, Version::new);
