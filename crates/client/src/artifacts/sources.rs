//! Sources: stored data that queries begin with.

use std::fs::File;

use jobhall_protocol::{DIGEST_HEADER, Page, Source as StoredSource};
use reqwest::{Method, StatusCode};

use super::upload::UploadError;
use super::{ArtifactReader, Source, segment};
use crate::error::ClientError;
use crate::http::call::{Client, parse};

/// A file that is put under a key.
#[derive(Debug)]
pub struct SourceUpload<'a> {
    /// The key.
    pub key: &'a str,
    /// The media type.
    pub media_type: &'a str,
    /// The file, at its beginning.
    pub file: File,
    /// The size of the file.
    pub size: u64,
    /// The BLAKE3 hash that the data must have, in hexadecimal digits.
    pub digest: Option<&'a str>,
}

impl Client {
    /// The sources whose keys begin with this text, by key.
    ///
    /// # Errors
    /// The token does not reach queries, or the server could not be reached.
    pub async fn sources(&self, prefix: &str) -> Result<Vec<StoredSource>, ClientError> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let mut pairs: Vec<_> = cursor.map(|cursor| ("cursor", cursor)).into_iter().collect();
            if !prefix.is_empty() {
                pairs.push(("prefix", prefix.to_owned()));
            }
            let page: Page<StoredSource> =
                self.read(&self.api(Method::GET, &["sources"]).query(&pairs)).await?;
            all.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// Whether there is data under a key.
    ///
    /// # Errors
    /// The token does not reach queries, or the server could not be reached.
    pub async fn has_source(&self, key: &str) -> Result<bool, ClientError> {
        let call = self.api(Method::HEAD, &["sources", &segment(key)]);
        match self.status(&call).await? {
            StatusCode::OK => Ok(true),
            // There is no such source, or its data is damaged or missing.
            StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(false),
            // An answer to HEAD has no body that says why; the list is refused for the same reason.
            status => {
                let call = self.api(Method::GET, &["sources"]).query(&[("limit", "1".to_owned())]);
                self.read::<Page<StoredSource>>(&call).await?;
                Err(ClientError::Protocol(format!("status {status}")))
            }
        }
    }

    /// The data of a source.
    #[must_use]
    pub fn read_source(&self, key: &str) -> ArtifactReader {
        let path = vec!["sources".to_owned(), segment(key).into_owned()];
        ArtifactReader::new(self.clone(), Source::hashed(path, key.to_owned()))
    }

    /// Puts a file under a key. `passed` is called with the number of bytes sent.
    ///
    /// # Errors
    /// The key or size is not allowed, or the server could not be reached. The upload is not repeated.
    pub async fn put_source(
        &self,
        upload: SourceUpload<'_>,
        passed: impl Fn(u64) + Send + 'static,
    ) -> Result<StoredSource, UploadError> {
        let SourceUpload { key, media_type, file, size, digest } = upload;
        let call = self.api(Method::PUT, &["sources", &segment(key)]).within(None);
        let mut call = call.header("content-type", media_type).header("content-length", size.to_string());
        if let Some(digest) = digest {
            call = call.header(DIGEST_HEADER, digest);
        }
        let (answer, sent) = self.send_file(&call, file, size, passed).await?;
        let source: StoredSource = parse(&answer)?;
        if sent.is_none_or(|sent| sent.to_hex().as_str() != source.digest) {
            let words = format!("the source {key} did not arrive as it was sent");
            return Err(ClientError::Protocol(words).into());
        }
        Ok(source)
    }

    /// Removes a source.
    ///
    /// # Errors
    /// There is no such source, or the server could not be reached.
    pub async fn remove_source(&self, key: &str) -> Result<(), ClientError> {
        self.send(&self.api(Method::DELETE, &["sources", &segment(key)])).await.map(drop)
    }
}
