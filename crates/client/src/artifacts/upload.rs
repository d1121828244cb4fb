//! Uploads a file as an artifact. The file is hashed while it is sent, to verify that the server stored what was
//! sent.

use std::fs::File;
use std::io::{self, Read};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use jobhall_protocol::{Artifact, LEASE_HEADER};
use reqwest::Method;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::artifacts::segment;
use crate::error::ClientError;
use crate::http::call::{Call, Client, parse};

/// Size of one chunk.
const PIECE: usize = 256 * 1024;
/// Maximum number of chunks buffered for a slow connection; then reading waits.
const AHEAD: usize = 2;

/// A file that is being uploaded.
#[derive(Debug)]
pub struct Upload<'a> {
    /// `{job}-{claim}`.
    pub attempt: &'a str,
    /// The lease, unless the token itself identifies the attempt.
    pub lease: Option<&'a str>,
    /// The name of the artifact.
    pub name: &'a str,
    /// The media type.
    pub media_type: &'a str,
    /// The file, at its beginning.
    pub file: File,
    /// The size of the file.
    pub size: u64,
}

/// Why an upload failed.
#[derive(Debug, Error)]
pub enum UploadError {
    /// The file could not be read, or changed while it was read.
    #[error("failed to read the file: {0}")]
    File(io::Error),
    /// The server refused it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Client {
    /// Uploads a file as an artifact of an attempt. `passed` is called with the number of bytes sent.
    ///
    /// # Errors
    /// The lease is lost, the name or size is not allowed, or the server could not be reached. The upload is not
    /// repeated.
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
        let (answer, digest) = self.send_file(&call, file, size, passed).await?;
        let artifact: Artifact = parse(&answer)?;
        if digest.is_none_or(|digest| digest.to_hex().as_str() != artifact.digest) {
            let words = format!("artifact {name} did not arrive as it was sent");
            return Err(ClientError::Protocol(words).into());
        }
        Ok(artifact)
    }

    /// Sends a file as the body of a call; returns the answer, and the hash of what was sent.
    pub(super) async fn send_file(
        &self,
        call: &Call,
        file: File,
        size: u64,
        passed: impl Fn(u64) + Send + 'static,
    ) -> Result<(Bytes, Option<blake3::Hash>), UploadError> {
        let (pieces, source) = mpsc::channel(AHEAD);
        let reading = tokio::task::spawn_blocking(move || read(file, size, &pieces, &passed));
        let answer = match self.send_body(call, body(source)).await {
            // The server replied before it read the whole file.
            Err(error @ ClientError::Problem(_)) => return Err(error.into()),
            answer => answer,
        };
        let read = reading.await.map_err(io::Error::other).and_then(|read| read);
        // If reading the file fails, the connection is aborted too.
        let digest = read.map_err(UploadError::File)?;
        Ok((self.body(answer?).await?, digest))
    }
}

/// Reads a file in chunks; returns its hash, or none if the receiver was dropped.
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
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was read"));
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

/// A streamed body, which is never in memory as a whole.
fn body(source: Pieces) -> reqwest::Body {
    let frames = stream::unfold(source, |mut source: Pieces| async move {
        let piece = source.recv().await?;
        Some((piece.map(Frame::data), source))
    });
    reqwest::Body::wrap(StreamBody::new(frames))
}

/// The media type for the extension of a name.
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
    use super::media_type_of;

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
