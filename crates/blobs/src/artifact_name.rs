//! Names that users give to artifacts.
//!
//! A name never becomes a path in this store, but it does in archives and downloads on other machines. It must be
//! harmless on all of them: a name with a meaning to a shell or to Windows is refused, as is one that leads out of
//! its directory.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Maximum size of a name.
pub const NAME_BYTES: usize = 1_024;
/// Maximum size of a segment between two slashes.
pub const SEGMENT_BYTES: usize = 255;

/// A relative path with `/` between its segments, such as `report/index.html`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactName(Arc<str>);

/// The rule that a name violates.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArtifactNameError {
    #[error("name an artifact: the name is empty")]
    Empty,
    #[error("name an artifact: the name has {bytes} bytes, the limit is {NAME_BYTES}")]
    TooLong { bytes: usize },
    #[error("name an artifact: the name begins with a slash, it must be relative")]
    Absolute,
    #[error("name an artifact: the name is not UTF-8")]
    NotUtf8,
    /// A character that is not valid in file names on every system.
    #[error("name an artifact: the name has the character {character:?} at byte {at}")]
    Character { character: char, at: usize },
    /// Two slashes in a row, or one at the end.
    #[error("name an artifact: the name has an empty segment")]
    EmptySegment,
    #[error("name an artifact: a segment has {bytes} bytes, the limit is {SEGMENT_BYTES}")]
    SegmentTooLong { bytes: usize },
    /// A segment is `.` or `..`.
    #[error("name an artifact: the segment {segment:?} points elsewhere")]
    Dots { segment: String },
    /// A segment looks like an option of a command.
    #[error("name an artifact: the segment {segment:?} begins with a dash")]
    LeadingDash { segment: String },
    /// A segment begins or ends with a space, or ends with a dot, which some systems remove.
    #[error("name an artifact: the segment {segment:?} begins or ends with a space, or ends with a dot")]
    Edge { segment: String },
    /// A segment is the name of a device on some systems.
    #[error("name an artifact: the segment {segment:?} is a reserved name")]
    Reserved { segment: String },
}

impl ArtifactName {
    /// Validates a text.
    ///
    /// # Errors
    /// The first rule that it violates.
    pub fn new(text: &str) -> Result<ArtifactName, ArtifactNameError> {
        check_whole(text)?;
        text.split('/').try_for_each(check_segment)?;
        Ok(ArtifactName(text.into()))
    }

    /// Validates bytes, such as a file name.
    ///
    /// # Errors
    /// The first rule that they violate.
    pub fn from_bytes(bytes: &[u8]) -> Result<ArtifactName, ArtifactNameError> {
        ArtifactName::new(std::str::from_utf8(bytes).map_err(|_| ArtifactNameError::NotUtf8)?)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts between the slashes.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

impl fmt::Display for ArtifactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_whole(text: &str) -> Result<(), ArtifactNameError> {
    if text.is_empty() {
        return Err(ArtifactNameError::Empty);
    }
    if text.len() > NAME_BYTES {
        return Err(ArtifactNameError::TooLong { bytes: text.len() });
    }
    if text.starts_with('/') {
        return Err(ArtifactNameError::Absolute);
    }
    match text.char_indices().find(|(_, character)| is_harmful(*character)) {
        Some((at, character)) => Err(ArtifactNameError::Character { character, at }),
        None => Ok(()),
    }
}

/// Control characters; separators of paths, drives and streams and wildcards on Windows; and characters that change
/// the writing direction, so that a name looks like another.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn check_segment(segment: &str) -> Result<(), ArtifactNameError> {
    let named = || segment.to_owned();
    match segment {
        "" => Err(ArtifactNameError::EmptySegment),
        "." | ".." => Err(ArtifactNameError::Dots { segment: named() }),
        _ if segment.len() > SEGMENT_BYTES => Err(ArtifactNameError::SegmentTooLong { bytes: segment.len() }),
        _ if segment.starts_with('-') => Err(ArtifactNameError::LeadingDash { segment: named() }),
        _ if segment.starts_with(' ') || segment.ends_with([' ', '.']) => {
            Err(ArtifactNameError::Edge { segment: named() })
        }
        _ if is_reserved(segment) => Err(ArtifactNameError::Reserved { segment: named() }),
        _ => Ok(()),
    }
}

/// Device names of Windows, with any extension.
fn is_reserved(segment: &str) -> bool {
    let stem = segment.split('.').next().unwrap_or(segment).trim_end().to_ascii_lowercase();
    let numbered = |prefix: &str| {
        stem.strip_prefix(prefix).is_some_and(|rest| {
            matches!(rest, "\u{b9}" | "\u{b2}" | "\u{b3}") || matches!(rest.as_bytes(), [b'0'..=b'9'])
        })
    };
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul" | "conin$" | "conout$")
        || numbered("com")
        || numbered("lpt")
}
