//! An open connection to the server: messages are collected while the previous frame is being sent.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use jobhall_client::{ClientError, Session, SessionReceiver, SessionSender};
use jobhall_protocol::{ToServer, ToWorker};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Maximum number of messages in one frame.
const GATHERED: usize = 1_024;
/// Time limit for the server to receive a leave.
const GOODBYE: Duration = Duration::from_secs(5);

/// An open connection. Dropping it breaks the connection.
pub(crate) struct Link {
    /// Unbounded: an attempt sends nothing more until it was answered, and there are at most as many attempts as
    /// slots.
    to_writer: mpsc::UnboundedSender<ToServer>,
    from_server: SessionReceiver,
    writer: JoinHandle<()>,
}

impl Link {
    pub fn new(session: Session) -> Link {
        let (sender, from_server) = session.split();
        let (to_writer, said) = mpsc::unbounded_channel();
        Link { to_writer, from_server, writer: tokio::spawn(write(sender, said)) }
    }

    /// Queues a message. Only the replies show whether it arrived.
    pub fn say(&self, message: ToServer) {
        // If the writer has ended, the connection is broken, which the reader reports.
        let _ = self.to_writer.send(message);
    }

    /// The next frame of the server. Nothing is lost when the returned future is dropped.
    pub async fn next(&mut self) -> Result<Vec<ToWorker>, ClientError> {
        self.from_server.next().await
    }

    /// Closes the session, and waits until the server has received the leave.
    pub async fn leave(mut self) {
        self.say(ToServer::Leave {});
        let closed = async { while self.next().await.is_ok() {} };
        let _ = tokio::time::timeout(GOODBYE, closed).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

async fn write(mut sender: SessionSender, mut said: mpsc::UnboundedReceiver<ToServer>) {
    let mut frame = Vec::with_capacity(GATHERED);
    while said.recv_many(&mut frame, GATHERED).await > 0 {
        if let Err(error) = sender.send(&frame).await {
            tracing::debug!(%error, "a frame was not sent");
            return;
        }
        frame.clear();
    }
}

/// A name of this process that no other has.
pub(crate) fn instance() -> String {
    // The keys of a hash map are random in each process.
    let random = RandomState::new().hash_one(std::process::id());
    format!("{}-{random:016x}", std::process::id())
}
