//! Passes a request body to a blocking thread. Chunks are passed on as they arrive, a few of them are buffered in
//! memory, and a truncated body is never treated as complete.

use std::io::{self, Read};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use jobhall_protocol::Code;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::error::ApiError;

/// Maximum number of buffered chunks; then the client waits.
const AHEAD: usize = 4;
/// Time limit for the next chunk.
const PIECE_TIME: Duration = Duration::from_secs(30);
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
        let late = |time: Duration, part: &str| {
            ApiError::new(Code::Timeout, format!("{part} of the body took more than {time:?}"))
        };
        let pieces = async {
            loop {
                let frame =
                    timeout(PIECE_TIME, self.body.frame()).await.map_err(|_| late(PIECE_TIME, "a piece"))?;
                let piece = match frame {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(bytes) => Piece::Bytes(bytes),
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
        timeout(WHOLE_TIME, pieces).await.map_err(|_| late(WHOLE_TIME, "all"))?
    }
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
    use super::{Body, Bytes, Read, io, upload};
    use futures_util::stream;

    async fn read(pieces: Vec<io::Result<Bytes>>) -> (bool, io::Result<Vec<u8>>) {
        let (pump, mut reader) = upload(Body::from_stream(stream::iter(pieces)));
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        let (pumped, read) = tokio::join!(pump.run(), read);
        (pumped.is_ok(), read.unwrap())
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
