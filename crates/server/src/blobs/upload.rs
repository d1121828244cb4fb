//! Passes a request body to a blocking thread. Chunks are passed on as they arrive, a few of them are buffered in
//! memory, and a truncated body is never treated as complete.

use std::io::{self, Read};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use jobhall_protocol::Code;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::error::ApiError;

/// Maximum number of buffered chunks; then the client waits.
const AHEAD: usize = 4;
/// The least speed: within this time of waiting for the client, this many bytes arrive.
const WINDOW: Duration = Duration::from_secs(30);
const WINDOW_BYTES: usize = 64 << 10;
/// Time limit for the whole body.
const WHOLE_TIME: Duration = Duration::from_secs(60 * 60);

/// Limits on size and time for reading a body that is discarded.
const DISCARD_BYTES: u64 = 64 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// Reads the rest of the request body, within limits. Closing a connection with unread bytes resets it, and the
/// client would not receive the response.
pub(crate) async fn discard(mut body: Body) {
    let read = async {
        let mut left = DISCARD_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let count = frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
            left = left.saturating_sub(count);
            if left == 0 {
                return;
            }
        }
    };
    let _ = timeout(DISCARD_TIME, read).await;
}

enum Piece {
    Bytes(Bytes),
    End,
}

/// The async end, which sends chunks.
pub(crate) struct Pump {
    body: Body,
    to: mpsc::Sender<Piece>,
}

/// The blocking end, which reads chunks.
pub(crate) struct Reader {
    from: mpsc::Receiver<Piece>,
    here: Bytes,
    ended: bool,
}

/// Both ends for a body.
pub(crate) fn upload(body: Body) -> (Pump, Reader) {
    let (to, from) = mpsc::channel(AHEAD);
    (Pump { body, to }, Reader { from, here: Bytes::new(), ended: false })
}

impl Pump {
    /// Sends the whole body. If the reader stops early, the reader reports the reason.
    pub(crate) async fn run(mut self) -> Result<(), ApiError> {
        let pieces = async {
            let (mut left, mut bytes_left) = (WINDOW, WINDOW_BYTES);
            loop {
                let begun = Instant::now();
                let frame = timeout(left, self.body.frame()).await.map_err(|_| too_slow())?;
                left = left.saturating_sub(begun.elapsed());
                let piece = match frame {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(bytes) => {
                            bytes_left = bytes_left.saturating_sub(bytes.len());
                            if bytes_left == 0 {
                                (left, bytes_left) = (WINDOW, WINDOW_BYTES);
                            }
                            Piece::Bytes(bytes)
                        }
                        Err(_) => continue,
                    },
                    Some(Err(_)) => return Err(ApiError::bad("the body is incomplete")),
                    None => Piece::End,
                };
                let over = matches!(piece, Piece::End);
                if self.to.send(piece).await.is_err() || over {
                    return Ok(());
                }
            }
        };
        timeout(WHOLE_TIME, pieces).await.map_err(|_| too_long())?
    }
}

fn too_slow() -> ApiError {
    let detail = format!("the body came slower than {WINDOW_BYTES} bytes in {WINDOW:?}");
    ApiError::new(Code::Timeout, detail)
}

fn too_long() -> ApiError {
    ApiError::new(Code::Timeout, format!("the body took more than {WHOLE_TIME:?}"))
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.here.is_empty() && !self.ended {
            match self.from.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.here = bytes,
                Some(Piece::End) => self.ended = true,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let count = out.len().min(self.here.len());
        out[..count].copy_from_slice(&self.here.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::{Body, Bytes, Duration, Read, WINDOW_BYTES, io, upload};
    use futures_util::{StreamExt as _, stream};

    async fn read(pieces: Vec<io::Result<Bytes>>) -> (bool, io::Result<Vec<u8>>) {
        let (pump, mut reader) = upload(Body::from_stream(stream::iter(pieces)));
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        let (pumped, read) = tokio::join!(pump.run(), read);
        (pumped.is_ok(), read.unwrap())
    }

    async fn wait_for_piece(bytes: usize) -> io::Result<Bytes> {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok(Bytes::from(vec![7; bytes]))
    }

    /// Reads a body of which a piece of this size arrives every 20 s, with virtual time; returns the error.
    async fn paced(bytes: usize, pieces: usize) -> Option<String> {
        let source = stream::iter(0..pieces).then(move |_| wait_for_piece(bytes));
        let (pump, mut reader) = upload(Body::from_stream(source));
        let drained = async move { while reader.from.recv().await.is_some() {} };
        let (pumped, ()) = tokio::join!(pump.run(), drained);
        pumped.err().map(|error| error.words().1.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn audit_m6_a_body_that_drips_is_ended_and_a_slow_one_is_not() {
        let slow = paced(1, 10).await;
        assert_eq!(slow.as_deref(), Some("the body came slower than 65536 bytes in 30s"));
        assert_eq!(paced(WINDOW_BYTES, 10).await, None);
    }

    #[tokio::test]
    async fn pieces_arrive_whole_and_in_order() {
        let pieces: Vec<_> = (0..100_u8).map(|n| Ok(Bytes::from(vec![n; 1_000]))).collect();
        let (pumped, all) = read(pieces).await;
        assert!(pumped);
        assert_eq!(all.unwrap(), (0..100_u8).flat_map(|n| [n; 1_000]).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_no_whole_one() {
        let (pumped, all) = read(vec![Ok(Bytes::from("half")), Err(io::Error::other("gone"))]).await;
        assert!(!pumped);
        assert_eq!(all.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (pump, mut reader) = upload(Body::from("never brought over"));
        drop(pump);
        let read = tokio::task::spawn_blocking(move || reader.read(&mut [0; 8]));
        assert_eq!(read.await.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
