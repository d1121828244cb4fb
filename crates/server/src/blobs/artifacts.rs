//! Artifacts of attempts for async callers: file access runs on the blocking pool.

use std::sync::Arc;

use axum::body::Body;
use jobhall_blobs::{
    ARTIFACT_BYTES, Artifact, ArtifactName, BlobError, Blobs, Digest, MediaType, PutError, SoundObject,
    Stored,
};
use jobhall_core::{AttemptId, Job, State, Time, WorkerName};
use jobhall_engine::AttemptRef;
use jobhall_protocol::{self as wire, Code, Timestamp};
use tokio::sync::Semaphore;

use crate::auth::tokens::{Identity, Shares};
use crate::blobs::logs::{key, now_ms};
use crate::blobs::upload::upload;
use crate::error::ApiError;
use crate::response::stream::pipe;
use crate::server::app::now;

/// Maximum number of concurrent uploads: each occupies a thread.
const UPLOADS: usize = 128;
/// The same of one attempt, of one worker with all its jobs, and of one token, so that others can upload too: an
/// administrator's token can name many workers. Workers send at most 4 files of a job at once, and try again later when
/// they are refused.
const PER_ATTEMPT: usize = 8;
const PER_WORKER: usize = 64;
const PER_TOKEN: usize = 64;
/// Bytes read at once.
const PIECE: usize = 256 * 1024;

pub(crate) struct Artifacts {
    blobs: Arc<Blobs>,
    uploads: Semaphore,
    per_attempt: Shares<AttemptId>,
    per_worker: Shares<WorkerName>,
    per_token: Shares<String>,
}

impl Artifacts {
    pub(crate) fn new(blobs: Arc<Blobs>) -> Artifacts {
        let (per_attempt, per_worker) = (Shares::new(PER_ATTEMPT), Shares::new(PER_WORKER));
        let (uploads, per_token) = (Semaphore::new(UPLOADS), Shares::new(PER_TOKEN));
        Artifacts { blobs, uploads, per_attempt, per_worker, per_token }
    }

    /// Stores a body of an attempt as an object without a reference to it.
    pub(crate) async fn store(
        &self,
        who: &Identity,
        of: &AttemptRef,
        body: Body,
    ) -> Result<Stored, ApiError> {
        let full = |most: usize, whose: String| {
            ApiError::new(
                Code::Unavailable,
                format!("{most} uploads{whose} are under way, which is the limit"),
            )
        };
        let of_attempt = self.per_attempt.take(of.attempt);
        let _of_attempt =
            of_attempt.ok_or_else(|| full(PER_ATTEMPT, format!(" of attempt {}", of.attempt)))?;
        let of_worker = self.per_worker.take(of.worker.clone());
        let _of_worker = of_worker.ok_or_else(|| full(PER_WORKER, format!(" of worker {}", of.worker)))?;
        // The token of a job has no id; its uploads are those of its worker.
        let of_token = (!who.id.is_empty()).then(|| self.per_token.take(who.id.clone()));
        if matches!(of_token, Some(None)) {
            return Err(full(PER_TOKEN, format!(" of token {}", who.name)));
        }
        self.upload(body, too_large).await
    }

    /// Stores the data of a source as an object without a reference to it.
    pub(crate) async fn store_source(&self, who: &Identity, body: Body) -> Result<Stored, ApiError> {
        let _of_token = self.per_token.take(who.id.clone()).ok_or_else(|| {
            let whose = format!("{PER_TOKEN} uploads of token {} are under way", who.name);
            ApiError::new(Code::Unavailable, format!("{whose}, which is the limit"))
        })?;
        self.upload(body, too_large_source).await
    }

    async fn upload(&self, body: Body, too_large: fn() -> ApiError) -> Result<Stored, ApiError> {
        let _place = self.uploads.try_acquire().map_err(|_| {
            let detail = format!("{UPLOADS} uploads are under way, which is the limit");
            ApiError::new(Code::Unavailable, detail)
        })?;
        let (pump, mut reader) = upload(body);
        let put = self.blocking(move |blobs| blobs.objects().put(&mut reader, ARTIFACT_BYTES, now_ms()));
        let (pumped, put) = tokio::join!(pump.run(), put);
        pumped?;
        put?.map_err(|error| match error {
            PutError::TooLarge { .. } => too_large(),
            PutError::Source(_) => ApiError::bad("the body is incomplete"),
            PutError::Blob(error) => error.into(),
        })
    }

    /// Lists a stored object as an artifact.
    pub(crate) async fn keep(
        &self,
        attempt: AttemptId,
        name: ArtifactName,
        media_type: MediaType,
        stored: Stored,
    ) -> Result<Artifact, ApiError> {
        let (digest, size) = (stored.digest, stored.bytes);
        let artifact = Artifact { name, digest, size, media_type, at_ms: now_ms() };
        let kept = artifact.clone();
        self.blocking(move |blobs| blobs.keep(key(attempt), &kept)).await??;
        Ok(artifact)
    }

    pub(crate) async fn find(
        &self,
        attempt: AttemptId,
        name: ArtifactName,
    ) -> Result<Option<Artifact>, ApiError> {
        Ok(self.blocking(move |blobs| blobs.artifacts().find(key(attempt), &name)).await??)
    }

    /// The artifact that is the result of a job, if it succeeded without a value.
    pub(crate) async fn large_result(&self, job: &Job) -> Result<Option<Artifact>, ApiError> {
        match &job.status.state {
            State::Succeeded(success) if success.value.as_str() == "null" => {
                self.result(AttemptId { job: job.id, claim: job.status.claim }).await
            }
            _ => Ok(None),
        }
    }

    /// The artifact that is the result of this attempt, if any.
    async fn result(&self, attempt: AttemptId) -> Result<Option<Artifact>, ApiError> {
        // Every read of a job that succeeded without a value comes here, and few jobs have artifacts. Checking
        // whether a name exists is much cheaper than switching to another thread.
        if !self.blobs.artifacts().has_any(key(attempt))? {
            return Ok(None);
        }
        let name = ArtifactName::new(wire::RESULT_ARTIFACT).map_err(ApiError::internal)?;
        self.find(attempt, name).await
    }

    /// Lists artifacts after a name, up to a limit.
    pub(crate) async fn list(
        &self,
        attempt: AttemptId,
        behind: Option<ArtifactName>,
        most: usize,
    ) -> Result<Vec<Artifact>, ApiError> {
        if !self.blobs.artifacts().has_any(key(attempt))? {
            return Ok(Vec::new());
        }
        Ok(self.blocking(move |blobs| blobs.artifacts().list(key(attempt), behind.as_ref(), most)).await??)
    }

    /// An object that was verified completely before its first byte is sent, or a short time ago; none if it is damaged or
    /// missing. A damaged object is moved aside, so that the same content can be stored again.
    pub(crate) async fn sound(&self, digest: Digest) -> Result<Option<Arc<SoundObject>>, ApiError> {
        let opened = self.blocking(move |blobs| {
            let opened = blobs.objects().open_recent(&digest);
            if let Err(BlobError::Damaged { .. }) = opened {
                blobs.objects().quarantine(&digest)?;
            }
            opened
        });
        match opened.await? {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(error @ (BlobError::Damaged { .. } | BlobError::Missing { .. })) => {
                tracing::error!("failed to {error}");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether an object is there; it may be damaged.
    pub(crate) async fn exists(&self, digest: Digest) -> Result<bool, ApiError> {
        Ok(self.blocking(move |blobs| blobs.objects().exists(&digest)).await??)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Blobs) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let blobs = self.blobs.clone();
        tokio::task::spawn_blocking(move || work(&blobs)).await.map_err(ApiError::internal)
    }
}

/// The error for an artifact that exceeds the size limit.
pub(crate) fn too_large() -> ApiError {
    let detail = format!("the artifact has more than {ARTIFACT_BYTES} bytes, which is the limit");
    ApiError::new(Code::TooLarge, detail)
}

/// The error for the data of a source that exceeds the size limit.
pub(crate) fn too_large_source() -> ApiError {
    let detail = format!("the data has more than {ARTIFACT_BYTES} bytes, which is the limit of a source");
    ApiError::new(Code::TooLarge, detail)
}

/// Streams the bytes between two offsets in chunks, so that a large object is never in memory as a whole.
pub(crate) fn pieces(object: Arc<SoundObject>, mut from: u64, to: u64) -> Body {
    let (writer, body) = pipe();
    tokio::spawn(async move {
        while from < to {
            let most = usize::try_from(to - from).map_or(PIECE, |left| left.min(PIECE));
            let source = object.clone();
            match tokio::task::spawn_blocking(move || source.read_at(from, most)).await {
                Ok(Ok(bytes)) if !bytes.is_empty() => {
                    from += bytes.len() as u64;
                    if writer.write(bytes).await.is_err() {
                        return;
                    }
                }
                broken => {
                    tracing::error!("an artifact download was aborted: {broken:?}");
                    return writer.fail().await;
                }
            }
        }
    });
    body
}

/// The wire form of an artifact.
pub(crate) fn told(attempt: AttemptId, artifact: &Artifact) -> wire::Artifact {
    let at = i64::try_from(artifact.at_ms).ok().and_then(|ms| Time::from_ms(ms).ok()).unwrap_or_else(now);
    wire::Artifact {
        name: artifact.name.to_string(),
        digest: artifact.digest.hex(),
        size: artifact.size,
        media_type: artifact.media_type.to_string(),
        at: Timestamp(at),
        attempt: attempt.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limits_that_are_told_are_those_that_hold() {
        assert_eq!(jobhall_protocol::ARTIFACT_BYTES, jobhall_blobs::ARTIFACT_BYTES);
        assert_eq!(jobhall_protocol::ARTIFACTS, jobhall_blobs::ARTIFACTS);
    }
}
