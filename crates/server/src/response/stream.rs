//! Streaming response bodies: a task writes, the connection reads, and either side can stop.

use std::io;

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::mpsc;

use crate::request::id::of_current_request;

/// Maximum number of chunks buffered for a slow reader; then the writer waits.
const AHEAD: usize = 2;

/// The writing end of a body.
pub(crate) struct Writer(mpsc::Sender<io::Result<Bytes>>);

/// The reader disconnected.
pub(crate) struct Left;

impl Writer {
    pub(crate) async fn write(&self, bytes: impl Into<Bytes>) -> Result<(), Left> {
        self.0.send(Ok(bytes.into())).await.map_err(|_| Left)
    }

    /// Aborts the body, so that the reader does not treat it as complete.
    pub(crate) async fn fail(&self) {
        let _ = self.0.send(Err(io::Error::other("broken off"))).await;
    }

    /// Waits until the reader disconnects.
    pub(crate) async fn left(&self) {
        self.0.closed().await;
    }
}

/// A body and its writer. The body ends when the writer is dropped.
pub(crate) fn pipe() -> (Writer, Body) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let pieces = stream::unfold(receiver, |mut receiver: mpsc::Receiver<io::Result<Bytes>>| async move {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    });
    (Writer(sender), Body::from_stream(pieces))
}

/// Runs the writer after its route has returned. Its log lines have the id of the request.
pub(crate) fn spawn(writing: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(of_current_request(writing));
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::*;
    use crate::request::id::RequestId;

    #[tokio::test]
    async fn what_writes_on_is_still_within_its_request() {
        let id = RequestId::of(&HeaderMap::new());
        let (tell, told) = tokio::sync::oneshot::channel();
        id.within(|| spawn(async { tell.send(RequestId::current()).unwrap() }));
        assert_eq!(told.await.unwrap(), Some(id));
    }
}
