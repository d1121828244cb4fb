//! Objects of the blob store for async callers: whether the bytes of a value are there, and undamaged.

use std::sync::Arc;

use jobhall_blobs::{BlobError, Blobs, Digest};
use jobhall_core::Time;
use jobhall_core::query::SourceDigest;

use crate::Error;

pub(crate) struct Objects(Arc<Blobs>);

impl Objects {
    pub fn new(blobs: Arc<Blobs>) -> Objects {
        Objects(blobs)
    }

    /// Whether an object of this size is there and was verified a short time ago. A damaged one is moved aside, so that
    /// the same bytes can be stored again.
    pub async fn is_sound(&self, digest: SourceDigest, size: u64) -> Result<bool, Error> {
        self.blocking(move |blobs| {
            let digest = Digest::from(digest.0);
            match blobs.objects().open_recent(&digest) {
                Ok(object) => Ok(object.len() == size),
                Err(BlobError::Missing { .. }) => Ok(false),
                Err(BlobError::Damaged { .. }) => {
                    tracing::error!(%digest, "the stored bytes of a value are damaged; they are made again");
                    blobs.objects().quarantine(&digest).map(|_| false)
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Makes an object as old as a new one; returns whether it is there.
    pub async fn touch(&self, digest: SourceDigest, now: Time) -> Result<bool, Error> {
        let now_ms = u64::try_from(now.as_ms()).unwrap_or(0);
        self.blocking(move |blobs| blobs.objects().touch(&Digest::from(digest.0), now_ms)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Blobs) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, Error> {
        let blobs = self.0.clone();
        match tokio::task::spawn_blocking(move || work(&blobs)).await {
            Ok(done) => done.map_err(|error| Error::Blobs(error.to_string())),
            Err(error) => Err(Error::Blobs(error.to_string())),
        }
    }
}
