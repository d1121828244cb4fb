//! Sends an attempt's messages to the server: the attempt hands over a message and waits for the reply, however
//! often the connection breaks meanwhile.

#[cfg_attr(not(test), expect(dead_code, reason = "for executors that describe phases of their work"))]
mod notes;

use jobhall_core::AttemptId;
use jobhall_protocol::{Code, ToServer};
use tokio::sync::{mpsc, oneshot};

/// Messages of an attempt until they are answered.
pub(crate) struct OutboundMessage {
    pub attempt: AttemptId,
    /// The messages; the answer to the last one is the answer to all.
    pub messages: Vec<ToServer>,
    pub reply: oneshot::Sender<Reply>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The server accepted the message.
    Taken,
    /// The server refused the message.
    Refused(Code, String),
}

#[derive(Clone)]
pub(crate) struct Outbox {
    attempt: AttemptId,
    outbound: mpsc::Sender<OutboundMessage>,
}

impl Outbox {
    pub fn new(attempt: AttemptId, outbound: mpsc::Sender<OutboundMessage>) -> Outbox {
        Outbox { attempt, outbound }
    }

    /// Sends messages; returns the reply, or none if the attempt is lost.
    pub async fn send(&self, messages: Vec<ToServer>) -> Option<Reply> {
        let (reply, answer) = oneshot::channel();
        self.outbound.send(OutboundMessage { attempt: self.attempt, messages, reply }).await.ok()?;
        answer.await.ok()
    }
}
