//! A log as frames: each chunk with its time and stream.

use bytes::{Buf, BytesMut};
use jobhall_protocol::{LogFrame, LogStream, NDJSON};
use reqwest::{Method, Response};

use crate::error::ClientError;
use crate::http::backoff::Backoff;
use crate::http::call::{Client, parse};

/// More than the longest line that a server sends.
const LINE_BYTES: usize = 16 << 20;

/// A selection of frames of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// The attempt, by its id or number; by default the last one.
    pub attempt: Option<String>,
    /// Only this stream.
    pub stream: Option<LogStream>,
    /// The first offset in the log.
    pub from: u64,
    /// Whether to wait for new output.
    pub follow: bool,
}

/// The frames of a log. After a lost connection it continues from the same position.
#[derive(Debug)]
pub struct LogFrames {
    client: Client,
    job: u64,
    query: LogQuery,
    response: Option<Response>,
    buffer: BytesMut,
    patience: Backoff,
}

impl LogFrames {
    /// The next frame with its bytes, or none when the attempt has ended or the server stops: read the job to find
    /// out.
    ///
    /// # Errors
    /// The log does not exist, or the server was unreachable for too long.
    pub async fn next(&mut self) -> Result<Option<(LogFrame, Vec<u8>)>, ClientError> {
        loop {
            match self.step().await {
                Err(error) if error.is_transient() => {
                    self.response = None;
                    self.buffer.clear();
                    let Some(pause) = self.patience.pause() else { return Err(error) };
                    tokio::time::sleep(pause).await;
                }
                Ok(Some(frame)) => {
                    self.patience.renew();
                    let broken = || ClientError::Protocol("the bytes of a log frame are invalid".to_owned());
                    let bytes = frame.bytes().ok_or_else(broken)?;
                    self.query.from = frame.offset + bytes.len() as u64;
                    return Ok(Some((frame, bytes)));
                }
                ended => return ended.map(|_| None),
            }
        }
    }

    /// The number of bytes of the log read so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.query.from
    }

    async fn step(&mut self) -> Result<Option<LogFrame>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end);
                self.buffer.advance(1);
                return parse(&line).map(Some);
            }
            if self.buffer.len() > LINE_BYTES {
                return Err(ClientError::Protocol(format!(
                    "a line of a log has more than {LINE_BYTES} bytes"
                )));
            }
            if self.response.is_none() {
                self.response = Some(self.open().await?);
            }
            let Some(response) = &mut self.response else { return Ok(None) };
            match self.client.chunk(response).await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    async fn open(&self) -> Result<Response, ClientError> {
        let LogQuery { attempt, stream, from, follow } = &self.query;
        let given = [
            ("attempt", attempt.clone()),
            ("stream", stream.map(|stream| stream.as_str().to_owned())),
            ("from", (*from > 0).then(|| from.to_string())),
            ("follow", follow.then(|| "true".to_owned())),
        ];
        let pairs: Vec<_> = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let call = self.client.of_job(Method::GET, self.job, Some("log")).query(&pairs);
        self.client.send_once(&call.header("accept", NDJSON).within(None)).await
    }
}

impl Client {
    /// The log of an attempt in frames.
    #[must_use]
    pub fn log_frames(&self, job: u64, query: LogQuery) -> LogFrames {
        let (client, buffer, patience) = (self.clone(), BytesMut::new(), Backoff::of_a_stream());
        LogFrames { client, job, query, response: None, buffer, patience }
    }
}
