//! Outgoing messages: the outlet collects messages into frames, feeds the frames to the socket and sends them with
//! one flush.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use jobhall_protocol::{Encoding, FrameError, FrameWriter, ToWorker};

use super::end::End;

/// A frame of this size is sent. With one more message of maximum size it is still within the frame limit.
const FULL: usize = 512 * 1024;

pub(super) struct Outlet {
    sink: SplitSink<WebSocket, Message>,
    encoding: Encoding,
    frame: FrameWriter,
    /// Time limit for the worker to receive a frame.
    within: Duration,
}

impl Outlet {
    pub(super) fn new(sink: SplitSink<WebSocket, Message>, encoding: Encoding, within: Duration) -> Outlet {
        Outlet { sink, encoding, frame: FrameWriter::new(encoding), within }
    }

    /// Adds a message, which is sent by [`Outlet::flush`] at the latest.
    pub(super) async fn push(&mut self, message: &ToWorker) -> Result<(), End> {
        let mut written = self.frame.push(message);
        if written == Ok(false) {
            self.feed().await?;
            written = self.frame.push(message);
        }
        match written {
            Ok(_) => {}
            // Messages are bounded, so this is a defect. It must not end the other attempts of the session.
            Err(FrameError::Bytes(bytes)) => {
                tracing::error!(bytes, "a message was not sent: it is larger than a frame");
            }
            Err(error) => return Err(broken(&error)),
        }
        if self.frame.len() >= FULL { self.feed().await } else { Ok(()) }
    }

    /// Sends everything.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        self.feed().await?;
        in_time(self.within, self.sink.flush()).await
    }

    pub(super) async fn ping(&mut self) -> Result<(), End> {
        in_time(self.within, self.sink.send(Message::Ping(axum::body::Bytes::new()))).await
    }

    async fn feed(&mut self) -> Result<(), End> {
        let Some(bytes) = self.frame.take() else { return Ok(()) };
        let message = match self.encoding {
            Encoding::MessagePack => Message::Binary(bytes.into()),
            Encoding::Json => Message::Text(String::from_utf8(bytes).map_err(|error| broken(&error))?.into()),
        };
        in_time(self.within, self.sink.feed(message)).await
    }

    /// Sends the close frame; returns whether it was sent.
    pub(super) async fn close(&mut self, end: &End) -> bool {
        match end.close() {
            Some(frame) => in_time(self.within, self.sink.send(Message::Close(Some(frame)))).await.is_ok(),
            None => false,
        }
    }
}

async fn in_time(within: Duration, sent: impl Future<Output = Result<(), axum::Error>>) -> Result<(), End> {
    match tokio::time::timeout(within, sent).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::Slow),
    }
}

fn broken(error: &dyn std::error::Error) -> End {
    tracing::error!("failed to write a frame: {error}");
    End::Broken
}
