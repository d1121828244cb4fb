//! A connection whose peer does not read is closed: a write that makes no progress for some time fails.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream whose writes fail after this time without progress.
pub(super) struct SlowWrites<S> {
    stream: S,
    within: Duration,
    /// Runs while a write waits for the peer.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> SlowWrites<S> {
    pub(super) fn new(stream: S, within: Duration) -> SlowWrites<S> {
        SlowWrites { stream, within, timer: None }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let within = self.within;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the peer has read nothing for {} s", within.as_secs_f64()),
            ))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlowWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SlowWrites<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const WITHIN: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn audit_m3_a_write_without_progress_fails_in_time() {
        let (near, _far) = tokio::io::duplex(1_024);
        let mut writes = SlowWrites::new(near, WITHIN);
        let begun = tokio::time::Instant::now();
        let error = writes.write_all(&[0; 4_096]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, WITHIN));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_no_silent_one() {
        let (near, mut far) = tokio::io::duplex(1_024);
        let mut writes = SlowWrites::new(near, WITHIN);
        let reading = async {
            let mut bytes = [0; 512];
            for _ in 0..8 {
                tokio::time::sleep(WITHIN - Duration::from_secs(1)).await;
                far.read_exact(&mut bytes).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(writes.write_all(&[0; 4_096]), reading);
        written.unwrap();
    }
}
