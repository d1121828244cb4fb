//! Frames of a worker. A message about an attempt that cannot be read is refused; the other messages of its frame are
//! handled, and the session goes on. Any other message that cannot be read ends the session.

use std::collections::HashMap;

use jobhall_core::AttemptId;
use jobhall_protocol::{Encoding, FrameError, ToServer, Word, read_frame, read_message, split_frame};
use serde::Deserialize;

use super::end::shortened;
use crate::error::ApiError;
use crate::request::body;

/// Maximum size of the reason of a refusal.
const REASON_BYTES: usize = 500;

/// A message about an attempt that cannot be read.
pub(super) struct Unread {
    pub to: Word,
    pub attempt: AttemptId,
    pub why: ApiError,
}

pub(super) type Frame = Vec<Result<ToServer, Unread>>;

pub(super) fn read(encoding: Encoding, bytes: &[u8]) -> Result<Frame, FrameError> {
    match read_frame(encoding, bytes) {
        Ok(messages) => Ok(messages.into_iter().map(Ok).collect()),
        Err(error @ FrameError::Wrong(_)) => read_each(encoding, bytes).ok_or(error),
        Err(error) => Err(error),
    }
}

/// None if a message that cannot be read is not about an attempt.
fn read_each(encoding: Encoding, bytes: &[u8]) -> Option<Frame> {
    let messages = split_frame(encoding, bytes).ok()?.into_iter();
    let read = messages.map(|message| match read_message(encoding, message) {
        Ok(message) => Some(Ok(message)),
        Err(error) => unread(encoding, message, &error).map(Err),
    });
    read.collect()
}

#[derive(Deserialize)]
struct About {
    attempt: String,
}

fn unread(encoding: Encoding, message: &[u8], error: &FrameError) -> Option<Unread> {
    let fields: HashMap<Word, About> = read_message(encoding, message).ok()?;
    let mut fields = fields.into_iter();
    let (Some((to, about)), None) = (fields.next(), fields.next()) else { return None };
    let attempt = about.attempt.parse().ok().filter(|_| to != Word::Note)?;
    Some(Unread {
        to,
        attempt,
        why: ApiError::bad(shortened(&reason(encoding, message, error), REASON_BYTES)),
    })
}

/// In JSON, the reason names the field.
fn reason(encoding: Encoding, message: &[u8], error: &FrameError) -> String {
    let named = match encoding {
        Encoding::Json => body::parse_as::<ToServer>("the message", message).err(),
        Encoding::MessagePack => None,
    };
    match (named, error) {
        (Some(named), _) => named.words().1.to_owned(),
        (None, FrameError::Wrong(words)) => format!("the message is wrong: {words}"),
        (None, error) => error.to_string(),
    }
}
