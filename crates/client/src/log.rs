//! Logs of attempts: parts of a log, and logs that are still being written.

pub(crate) mod frames;

use bytes::Bytes;
use jobhall_protocol::Code;
use reqwest::{Method, Response, StatusCode};

use crate::error::ClientError;
use crate::http::backoff::Backoff;
use crate::http::call::{Call, Client};

/// A range of bytes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRange {
    /// All bytes.
    All,
    /// The bytes from this offset.
    From(u64),
    /// The last bytes, this many.
    Last(u64),
}

impl LogRange {
    fn header(self) -> Option<String> {
        match self {
            LogRange::All | LogRange::From(0) => None,
            LogRange::From(offset) => Some(format!("bytes={offset}-")),
            LogRange::Last(count) => Some(format!("bytes=-{count}")),
        }
    }
}

/// The bytes of a log that are written so far, in chunks: a long log is never in memory as a whole.
#[derive(Debug)]
pub struct LogReader {
    client: Client,
    job: u64,
    attempt: Option<String>,
    range: LogRange,
    response: Option<Response>,
}

impl LogReader {
    /// The next bytes, or none at the end.
    ///
    /// # Errors
    /// The log does not exist, or the connection broke.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        if self.response.is_none() {
            let call =
                self.client.log_call(self.job, self.attempt.as_deref(), self.range, false).within(None);
            match self.client.send(&call).await {
                Ok(response) => self.response = Some(response),
                // No bytes are written at this offset yet.
                Err(error) if error.code() == Some(Code::RangeNotSatisfiable) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        match &mut self.response {
            Some(response) => self.client.chunk(response).await,
            None => Ok(None),
        }
    }
}

/// The log of an attempt while it is written. After a lost connection it continues from the same position.
#[derive(Debug)]
pub struct LogFollow {
    client: Client,
    job: u64,
    attempt: Option<String>,
    offset: u64,
    skip: u64,
    response: Option<Response>,
    patience: Backoff,
}

impl LogFollow {
    /// The next bytes, or none when the attempt has ended or the server stops: read the job to find out.
    ///
    /// # Errors
    /// The log does not exist, or the server was unreachable for too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match self.step().await {
                Err(error) if error.is_transient() => {
                    self.response = None;
                    let Some(pause) = self.patience.pause() else { return Err(error) };
                    tokio::time::sleep(pause).await;
                }
                Ok(Some(chunk)) => {
                    self.patience.renew();
                    let chunk = self.unseen(chunk);
                    self.offset += chunk.len() as u64;
                    if !chunk.is_empty() {
                        return Ok(Some(chunk));
                    }
                }
                // The connection broke after the last byte.
                Err(error) if error.code() == Some(Code::RangeNotSatisfiable) && self.offset > 0 => {
                    return Ok(None);
                }
                ended => return ended,
            }
        }
    }

    async fn step(&mut self) -> Result<Option<Bytes>, ClientError> {
        if self.response.is_none() {
            let range = LogRange::From(self.offset);
            let call = self.client.log_call(self.job, self.attempt.as_deref(), range, true).within(None);
            let response = self.client.send_once(&call).await?;
            // A server may ignore the range of a followed log.
            self.skip = if response.status() == StatusCode::PARTIAL_CONTENT { 0 } else { self.offset };
            self.response = Some(response);
        }
        match &mut self.response {
            Some(response) if response.status() != StatusCode::NO_CONTENT => {
                self.client.chunk(response).await
            }
            _ => Ok(None),
        }
    }

    /// The part of a chunk that was not returned before the connection broke.
    fn unseen(&mut self, mut chunk: Bytes) -> Bytes {
        let seen = usize::try_from(self.skip).unwrap_or(usize::MAX).min(chunk.len());
        self.skip -= seen as u64;
        chunk.split_off(seen)
    }

    /// The number of bytes of the log read so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Client {
    /// The log of an attempt as far as it is written. The attempt is given by its id or number; by default the last
    /// one.
    #[must_use]
    pub fn read_log(&self, job: u64, attempt: Option<&str>, range: LogRange) -> LogReader {
        LogReader { client: self.clone(), job, attempt: attempt.map(str::to_owned), range, response: None }
    }

    /// The log of an attempt from `offset`, including new output.
    #[must_use]
    pub fn follow_log(&self, job: u64, attempt: Option<&str>, offset: u64) -> LogFollow {
        let (attempt, patience) = (attempt.map(str::to_owned), Backoff::of_a_stream());
        LogFollow { client: self.clone(), job, attempt, offset, skip: 0, response: None, patience }
    }

    fn log_call(&self, job: u64, attempt: Option<&str>, range: LogRange, follow: bool) -> Call {
        let attempt = attempt.map(|attempt| ("attempt", attempt.to_string()));
        let follow = follow.then(|| ("follow", "true".to_owned()));
        let pairs: Vec<_> = attempt.into_iter().chain(follow).collect();
        let call = self.of_job(Method::GET, job, Some("log")).query(&pairs);
        match range.header() {
            Some(range) => call.header("range", range),
            None => call,
        }
    }
}
