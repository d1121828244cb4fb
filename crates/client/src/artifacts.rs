//! Lists and reads artifacts. The client also hashes the content, to verify that it is what was stored.

mod inputs;
pub(crate) mod sources;
pub(crate) mod upload;

use std::borrow::Cow;

use bytes::Bytes;
use jobhall_protocol::{Artifact, DIGEST_HEADER, LEASE_HEADER, Page};
use reqwest::{Method, Response, StatusCode};

use crate::error::ClientError;
use crate::http::backoff::Backoff;
use crate::http::call::Client;

impl Client {
    /// A page of the artifacts of an attempt, given by its id or number; by default the last attempt.
    ///
    /// # Errors
    /// The job or attempt does not exist, or the server could not be reached.
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
        let path = ["jobs", &job.to_string(), "artifacts", &segment(name)].map(str::to_owned).to_vec();
        let (attempt, name) = (attempt.map(str::to_owned), name.to_owned());
        ArtifactReader::new(self.clone(), Source { attempt, ..Source::hashed(path, name) })
    }
}

/// What is read.
#[derive(Debug)]
pub(crate) struct Source {
    /// The segments of its path.
    pub path: Vec<String>,
    /// The attempt in the query.
    pub attempt: Option<String>,
    /// What it is called in errors.
    pub name: String,
    /// Whether it always has a digest; a result has one if it is an artifact.
    pub is_hashed: bool,
    /// The lease of the attempt that reads it.
    pub lease: Option<String>,
    /// Whether the path begins at the top, and not below the prefix of the API.
    pub is_at_top: bool,
}

impl Source {
    pub fn hashed(path: Vec<String>, name: String) -> Source {
        Source { path, attempt: None, name, is_hashed: true, lease: None, is_at_top: false }
    }
}

/// A name as one segment of a path. Its slashes are escaped, so that a segment such as `..` is not resolved before
/// the server can refuse it. Only a name that consists of dots needs more escaping.
pub(crate) fn segment(name: &str) -> Cow<'_, str> {
    if matches!(name, "" | "." | "..") { Cow::Owned(format!("{name}/")) } else { Cow::Borrowed(name) }
}

/// The content of an artifact in chunks, verified at its end. After a lost connection it continues from the same
/// position.
#[derive(Debug)]
pub struct ArtifactReader {
    client: Client,
    source: Source,
    offset: u64,
    whole: Option<Whole>,
    hasher: blake3::Hasher,
    response: Option<Response>,
    patience: Backoff,
}

/// Digest and size of the whole artifact, as the server announced them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Whole {
    digest: Option<String>,
    size: u64,
}

impl ArtifactReader {
    pub(crate) fn new(client: Client, source: Source) -> ArtifactReader {
        let (hasher, patience) = (blake3::Hasher::new(), Backoff::of_a_stream());
        ArtifactReader { client, source, offset: 0, whole: None, hasher, response: None, patience }
    }

    /// Begins with a response that has already arrived.
    pub(crate) fn begun(
        client: Client,
        source: Source,
        response: Response,
    ) -> Result<ArtifactReader, ClientError> {
        let whole = whole(&response, 0, source.is_hashed)?;
        let reader = ArtifactReader::new(client, source);
        Ok(ArtifactReader { whole: Some(whole), response: Some(response), ..reader })
    }

    /// The next bytes, or none at the end, after all of them were verified.
    ///
    /// # Errors
    /// The artifact does not exist, the bytes do not match its digest, or the server was unreachable for too long.
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

    /// The total size, once the first bytes were received.
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
        let segments: Vec<&str> = self.source.path.iter().map(String::as_str).collect();
        let mut call = match self.source.is_at_top {
            true => self.client.top(Method::GET, &segments),
            false => self.client.api(Method::GET, &segments),
        };
        call = call.within(None);
        if let Some(lease) = &self.source.lease {
            call = call.header(LEASE_HEADER, lease.clone());
        }
        if let Some(attempt) = &self.source.attempt {
            call = call.query(&[("attempt", attempt.clone())]);
        }
        if self.offset > 0 {
            call = call.header("range", format!("bytes={}-", self.offset));
        }
        let response = self.client.send_once(&call).await?;
        let part = response.status() == StatusCode::PARTIAL_CONTENT;
        let whole = whole(&response, self.offset, self.source.is_hashed)?;
        if (self.offset > 0) != part || self.whole.as_ref().is_some_and(|before| *before != whole) {
            let words = format!("artifact {} changed while it was read", self.source.name);
            return Err(ClientError::Protocol(words));
        }
        self.whole = Some(whole);
        Ok(response)
    }

    fn end(&self) -> Result<Option<Bytes>, ClientError> {
        let digest = self.hasher.finalize().to_hex();
        let expected = self.whole.as_ref().map(|whole| whole.digest.as_deref());
        if expected.is_some_and(|expected| expected.is_none_or(|expected| expected == digest.as_str())) {
            return Ok(None);
        }
        Err(ClientError::Protocol(format!("artifact {} does not match its digest", self.source.name)))
    }
}

fn whole(response: &Response, offset: u64, is_hashed: bool) -> Result<Whole, ClientError> {
    let digest = response.headers().get(DIGEST_HEADER).and_then(|digest| digest.to_str().ok());
    match response.content_length() {
        Some(rest) if digest.is_some() || !is_hashed => {
            Ok(Whole { digest: digest.map(str::to_owned), size: offset + rest })
        }
        _ => Err(ClientError::Protocol("an artifact has no digest or no length".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::segment;
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
}
