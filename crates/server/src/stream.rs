//! Bodies that are written while they are read: a task writes, the connection reads, and either end can leave.

use std::io;

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::mpsc;

/// Pieces that may wait for a slow reader; then the writer waits.
const AHEAD: usize = 2;

/// The writing end.
pub(crate) struct Writer(mpsc::Sender<io::Result<Bytes>>);

/// The reader has left.
pub(crate) struct Left;

impl Writer {
    pub(crate) async fn write(&self, bytes: impl Into<Bytes>) -> Result<(), Left> {
        self.0.send(Ok(bytes.into())).await.map_err(|_| Left)
    }

    /// Breaks the body off, so that the reader does not take what it has for the whole.
    pub(crate) async fn fail(&self) {
        let _ = self.0.send(Err(io::Error::other("broken off"))).await;
    }

    /// Waits until the reader leaves.
    pub(crate) async fn left(&self) {
        self.0.closed().await;
    }
}

/// A body and the end that it is written to. The body ends when the writer is dropped.
pub(crate) fn pipe() -> (Writer, Body) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let pieces = stream::unfold(receiver, |mut receiver: mpsc::Receiver<io::Result<Bytes>>| async move {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    });
    (Writer(sender), Body::from_stream(pieces))
}
