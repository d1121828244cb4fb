//! The form of a note: one line.

use super::append::AppendError;

/// Maximum size of a note, with its line feed.
pub const NOTE_BYTES: usize = 16 << 10;
/// Maximum total size of the notes of an attempt.
pub const NOTES_BYTES: u64 = 4 << 20;

/// Checks that bytes are one line that ends with a line feed, within the limit. Whether it is JSON is checked by the
/// caller.
///
/// # Errors
/// [`AppendError::NoteTooLarge`] or [`AppendError::NotOneLine`].
pub fn check_note(bytes: &[u8]) -> Result<(), AppendError> {
    if bytes.len() > NOTE_BYTES {
        return Err(AppendError::NoteTooLarge { bytes: bytes.len() });
    }
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) if end + 1 == bytes.len() => Ok(()),
        _ => Err(AppendError::NotOneLine),
    }
}
