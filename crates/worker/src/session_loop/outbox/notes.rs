//! Notes of an attempt: what the worker itself says about it, in a log that no process can write to.

use jobhall_core::{AttemptId, LeaseId};
use jobhall_protocol::{Code, LogStream, ToServer};
use serde::Serialize;
use thiserror::Error;

use super::{Outbox, Reply};
use crate::executor::reporter::{AGAIN, is_passing};

/// Why a note was not stored.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum NoteError {
    #[error("write a note: it cannot be written as JSON: {0}")]
    Json(String),
    /// The server refused it, for instance because it or all notes of the attempt are too large.
    #[error("write a note: the server refused it: {1}")]
    Refused(Code, String),
    /// The attempt no longer belongs to this worker.
    #[error("write a note: the attempt is lost")]
    Lost,
}

/// Writes the notes of one attempt, in order.
pub(crate) struct Notes {
    attempt: AttemptId,
    lease: LeaseId,
    outbox: Outbox,
    /// The number of bytes of the stored notes.
    offset: u64,
}

impl Notes {
    pub fn new(attempt: AttemptId, lease: LeaseId, outbox: Outbox) -> Notes {
        Notes { attempt, lease, outbox, offset: 0 }
    }

    /// Writes a note; returns when the server has it. A refused note is not stored, and later ones can be written.
    pub async fn write(&mut self, note: &impl Serialize) -> Result<(), NoteError> {
        let mut bytes = serde_json::to_vec(note).map_err(|error| NoteError::Json(error.to_string()))?;
        bytes.push(b'\n');
        let len = bytes.len() as u64;
        let (attempt, lease, offset) = (self.attempt, self.lease, self.offset);
        let message = ToServer::Log { attempt, lease, offset, stream: LogStream::Note, bytes };
        loop {
            match self.outbox.send(vec![message.clone()]).await {
                Some(Reply::Taken) => break,
                Some(Reply::Refused(code, _)) if is_passing(code) => tokio::time::sleep(AGAIN).await,
                Some(Reply::Refused(code, why)) => return Err(NoteError::Refused(code, why)),
                None => return Err(NoteError::Lost),
            }
        }
        self.offset += len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jobhall_protocol::Outcome;
    use tokio::sync::mpsc;

    use super::*;
    use crate::session_loop::outbox::OutboundMessage;

    /// The offset and the text of the note in a message.
    fn noted(message: &OutboundMessage) -> (u64, String) {
        match message.messages.as_slice() {
            [ToServer::Log { offset, stream: LogStream::Note, bytes, .. }] => {
                (*offset, String::from_utf8(bytes.clone()).unwrap())
            }
            other => panic!("not a note: {other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ground_10_notes_follow_each_other_and_are_sent_again() {
        let attempt: AttemptId = "1-1".parse().unwrap();
        let (outbound, mut sent) = mpsc::channel(8);
        let mut notes = Notes::new(attempt, LeaseId(7), Outbox::new(attempt, outbound));
        let server = tokio::spawn(async move {
            let replies = [
                Reply::Taken,
                Reply::Refused(Code::Unavailable, "later".to_owned()),
                Reply::Taken,
                Reply::Refused(Code::TooLarge, "full".to_owned()),
                Reply::Taken,
            ];
            let mut seen = Vec::new();
            for reply in replies {
                let message = sent.recv().await.unwrap();
                seen.push(noted(&message));
                message.reply.send(reply).unwrap();
            }
            seen
        });
        notes.write(&serde_json::json!({"phase": "build"})).await.unwrap();
        notes.write(&Outcome::Succeeded).await.unwrap();
        let refused = notes.write(&1).await;
        assert_eq!(refused, Err(NoteError::Refused(Code::TooLarge, "full".to_owned())));
        notes.write(&"two\nlines").await.unwrap();
        let expected = [
            (0, "{\"phase\":\"build\"}\n"),
            (18, "\"succeeded\"\n"),
            (18, "\"succeeded\"\n"),
            (30, "1\n"),
            (30, "\"two\\nlines\"\n"),
        ];
        let seen = server.await.unwrap();
        assert_eq!(seen.iter().map(|(at, text)| (*at, text.as_str())).collect::<Vec<_>>(), expected);
        assert_eq!(notes.write(&2).await, Err(NoteError::Lost), "nobody carries it any more");
    }
}
