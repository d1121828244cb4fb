//! Artifacts: put by an attempt, listed, and read back. Both ways the bytes are hashed here too, so that what arrives is
//! what was sent.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use jobhall_protocol::{Artifact, DIGEST_HEADER, LEASE_HEADER, Page};
use reqwest::{Method, Response, StatusCode};
use thiserror::Error;
use tokio::sync::mpsc;

use crate::call::{Client, parse};
use crate::error::ClientError;
use crate::patience::Patience;

/// Bytes read at once.
const PIECE: usize = 256 * 1024;
/// Pieces that may wait for a slow connection; then reading waits.
const AHEAD: usize = 2;

/// A file on its way to the hall.
#[derive(Debug)]
pub struct Upload<'a> {
    /// `{job}-{claim}`.
    pub attempt: &'a str,
    /// The lease, unless the token itself stands for the attempt.
    pub lease: Option<&'a str>,
    /// What it is to be called.
    pub name: &'a str,
    /// What kind of bytes.
    pub media_type: &'a str,
    /// The bytes, from the beginning.
    pub file: File,
    /// How many there are.
    pub size: u64,
}

/// Why a file was not put.
#[derive(Debug, Error)]
pub enum UploadError {
    /// The file could not be read, or changed while it was read.
    #[error("failed to read the file: {0}")]
    File(io::Error),
    /// The hall did not take it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Client {
    /// Puts a file as an artifact of an attempt. `passed` hears how many bytes are on their way.
    ///
    /// # Errors
    /// The lease is lost, the name or size is not allowed, or the hall could not be reached. It is not repeated here.
    pub async fn put_artifact(
        &self,
        upload: Upload<'_>,
        passed: impl Fn(u64) + Send + 'static,
    ) -> Result<Artifact, UploadError> {
        let Upload { attempt, lease, name, media_type, file, size } = upload;
        let segments = ["attempts", attempt, "artifacts", &segment(name)];
        let mut call = self.api(Method::PUT, &segments).within(None).header("content-type", media_type);
        call = call.header("content-length", size.to_string());
        if let Some(lease) = lease {
            call = call.header(LEASE_HEADER, lease);
        }
        let (pieces, source) = mpsc::channel(AHEAD);
        let reading = tokio::task::spawn_blocking(move || read(file, size, &pieces, &passed));
        let answer = self.send_body(&call, body(source)).await;
        let digest = reading.await.map_err(|error| UploadError::File(io::Error::other(error)))?;
        let (digest, answer) = match (digest, answer) {
            (Err(error), _) => return Err(UploadError::File(error)),
            (Ok(digest), answer) => (digest, answer?),
        };
        let artifact: Artifact = parse(&self.body(answer).await?)?;
        if digest.is_none_or(|digest| digest.to_hex().as_str() != artifact.digest) {
            let words = format!("artifact {name} did not arrive as it was sent");
            return Err(ClientError::Protocol(words).into());
        }
        Ok(artifact)
    }

    /// A page of the artifacts of an attempt, by its id or number; of the last one if none is given.
    ///
    /// # Errors
    /// There is no such job or attempt, or the hall could not be reached.
    pub async fn artifacts(
        &self,
        job: u64,
        attempt: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Page<Artifact>, ClientError> {
        let given = [("attempt", attempt), ("cursor", cursor)];
        let pairs: Vec<_> =
            given.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned()))).collect();
        self.read(&self.of_job(Method::GET, job, Some("artifacts")).query(&pairs)).await
    }

    /// The content of an artifact.
    #[must_use]
    pub fn read_artifact(&self, job: u64, attempt: Option<&str>, name: &str) -> ArtifactReader {
        ArtifactReader {
            client: self.clone(),
            job,
            attempt: attempt.map(str::to_owned),
            name: name.to_owned(),
            offset: 0,
            whole: None,
            hasher: blake3::Hasher::new(),
            response: None,
            patience: Patience::of_a_stream(),
        }
    }
}

/// A name as one segment of a path: its slashes are escaped, so that no part of it is taken for a way up and dropped
/// before the hall can refuse it. Only a name that is nothing but dots needs more to get there.
fn segment(name: &str) -> Cow<'_, str> {
    if matches!(name, "" | "." | "..") { Cow::Owned(format!("{name}/")) } else { Cow::Borrowed(name) }
}

/// Reads a file piece by piece; its hash, or none if nobody wanted the rest.
fn read(
    file: File,
    size: u64,
    to: &mpsc::Sender<io::Result<Bytes>>,
    passed: &dyn Fn(u64),
) -> io::Result<Option<blake3::Hash>> {
    let mut hasher = blake3::Hasher::new();
    let mut file = file.take(size);
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        (&mut file).take(PIECE as u64).read_to_end(&mut piece)?;
        if piece.is_empty() && file.limit() > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        if piece.is_empty() {
            return Ok(Some(hasher.finalize()));
        }
        hasher.update(&piece);
        if to.blocking_send(Ok(piece.into())).is_err() {
            return Ok(None);
        }
        passed(size - file.limit());
    }
}

type Pieces = mpsc::Receiver<io::Result<Bytes>>;

/// A body that never lies in memory.
fn body(source: Pieces) -> reqwest::Body {
    let frames = stream::unfold(source, |mut source: Pieces| async move {
        let piece = source.recv().await?;
        Some((piece.map(Frame::data), source))
    });
    reqwest::Body::wrap(StreamBody::new(frames))
}

/// An artifact as it comes, in pieces, checked at its end. A lost connection is taken up where it broke.
#[derive(Debug)]
pub struct ArtifactReader {
    client: Client,
    job: u64,
    attempt: Option<String>,
    name: String,
    offset: u64,
    whole: Option<Whole>,
    hasher: blake3::Hasher,
    response: Option<Response>,
    patience: Patience,
}

/// What the hall said of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Whole {
    digest: String,
    size: u64,
}

impl ArtifactReader {
    /// The next bytes, or none at the end, when all of them are known to be right.
    ///
    /// # Errors
    /// There is no such artifact, the bytes are not what was kept, or the hall stayed away for too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match self.step().await {
                Err(error @ ClientError::Unreachable { .. }) => {
                    self.response = None;
                    let Some(pause) = self.patience.pause() else { return Err(error) };
                    tokio::time::sleep(pause).await;
                }
                Ok(Some(chunk)) => {
                    self.patience.renew();
                    self.offset += chunk.len() as u64;
                    self.hasher.update(&chunk);
                    return Ok(Some(chunk));
                }
                Ok(None) => return self.end(),
                Err(error) => return Err(error),
            }
        }
    }

    /// How many bytes there are in all, once the first have come.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.whole.as_ref().map(|whole| whole.size)
    }

    async fn step(&mut self) -> Result<Option<Bytes>, ClientError> {
        if self.response.is_none() {
            if self.size().is_some_and(|size| self.offset >= size) {
                return Ok(None);
            }
            self.response = Some(self.open().await?);
        }
        match &mut self.response {
            Some(response) => self.client.chunk(response).await,
            None => Ok(None),
        }
    }

    async fn open(&mut self) -> Result<Response, ClientError> {
        let id = self.job.to_string();
        let segments = ["jobs", &id, "artifacts", &segment(&self.name)];
        let mut call = self.client.api(Method::GET, &segments).within(None);
        if let Some(attempt) = &self.attempt {
            call = call.query(&[("attempt", attempt.clone())]);
        }
        if self.offset > 0 {
            call = call.header("range", format!("bytes={}-", self.offset));
        }
        let response = self.client.send_once(&call).await?;
        let part = response.status() == StatusCode::PARTIAL_CONTENT;
        let whole = whole(&response, self.offset)?;
        if (self.offset > 0) != part || self.whole.as_ref().is_some_and(|before| *before != whole) {
            let words = format!("artifact {} changed while it was read", self.name);
            return Err(ClientError::Protocol(words));
        }
        self.whole = Some(whole);
        Ok(response)
    }

    fn end(&self) -> Result<Option<Bytes>, ClientError> {
        let digest = self.hasher.finalize().to_hex();
        if self.whole.as_ref().is_some_and(|whole| whole.digest == digest.as_str()) {
            return Ok(None);
        }
        Err(ClientError::Protocol(format!("artifact {} did not arrive as it was kept", self.name)))
    }
}

fn whole(response: &Response, offset: u64) -> Result<Whole, ClientError> {
    let digest = response.headers().get(DIGEST_HEADER).and_then(|digest| digest.to_str().ok());
    match (digest, response.content_length()) {
        (Some(digest), Some(rest)) => Ok(Whole { digest: digest.to_owned(), size: offset + rest }),
        _ => Err(ClientError::Protocol("an artifact without digest or length".to_owned())),
    }
}

/// The media type that the ending of a name promises.
#[must_use]
pub fn media_type_of(name: &str) -> &'static str {
    match name.rsplit('/').next().and_then(|file| file.rsplit_once('.')).map(|(_, ending)| ending) {
        Some("txt" | "log" | "md") => "text/plain; charset=utf-8",
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("csv") => "text/csv",
        Some("json") => "application/json",
        Some("xml") => "application/xml",
        Some("pdf") => "application/pdf",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("svg") => "image/svg+xml",
        Some("gz" | "tgz") => "application/gzip",
        Some("zip") => "application/zip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::{media_type_of, segment};
    use crate::Client;

    #[test]
    fn no_part_of_a_name_is_lost_on_its_way() {
        let client = Client::new("http://hall", None).unwrap();
        for (name, path) in [
            ("a/b c", "/api/v1/x/a%2Fb%20c"),
            ("../up", "/api/v1/x/..%2Fup"),
            ("..", "/api/v1/x/..%2F"),
            (".", "/api/v1/x/.%2F"),
            ("", "/api/v1/x/%2F"),
            ("%2e%2e", "/api/v1/x/%252e%252e"),
        ] {
            assert_eq!(client.api(reqwest::Method::GET, &["x", &segment(name)]).url.path(), path);
        }
    }

    #[test]
    fn a_media_type_follows_the_ending_of_the_last_segment() {
        for (name, kind) in [
            ("a.txt", "text/plain; charset=utf-8"),
            ("report.html/data", "application/octet-stream"),
            ("x/y/junit.xml", "application/xml"),
            (".json", "application/json"),
            ("plain", "application/octet-stream"),
        ] {
            assert_eq!(media_type_of(name), kind, "{name}");
        }
    }
}
