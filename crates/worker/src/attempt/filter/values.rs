//! The values of a node: what its steps receive is streamed to files, and what the last one leaves is sent as an artifact
//! if it is too large for the row of the job.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jobhall_client::{ArtifactReader, ClientError};
use jobhall_core::query::{INLINE_VALUE_BYTES, NodeParams, SourceDigest, StoredValue};
use jobhall_protocol::{ARTIFACT_BYTES, Artifact, OutcomeReport};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Files, refused};
use crate::attempt::Attempt;
use crate::attempt::artifacts::Sent;
use crate::executor::reporter::{AGAIN, Order, broken, is_passing};
use crate::slots::running::Stopper;
use crate::workspace::outputs;

/// How often the size of a value is looked at while it is being written.
const LOOK: Duration = Duration::from_millis(250);

/// What the last step of a node has left.
pub(super) enum Left {
    /// It fits the row of the job.
    Bytes(Vec<u8>),
    /// It does not fit.
    Large,
}

/// Why a step cannot have its input.
enum Untaken {
    /// This worker could not write it.
    Here(String),
    /// The server does not have it.
    There(String),
}

/// Why an input was not read.
enum Unread {
    /// The file could not be written.
    File(io::Error),
    Client(ClientError),
}

impl Attempt {
    /// Reads all that the steps of a node receive. The report is that of an attempt that cannot go on; none in it means
    /// that the attempt was lost.
    pub(super) async fn take_inputs_of_node(
        &mut self,
        params: &NodeParams,
        files: &Files<'_>,
    ) -> Result<(), Option<OutcomeReport>> {
        for (at, identity) in params.inputs.iter().enumerate() {
            match self.take(&identity.to_string(), &files.input(at), files).await {
                Ok(true) => {}
                Ok(false) => return Err(self.stopped()),
                Err(Untaken::Here(why) | Untaken::There(why)) => {
                    return Err(Some(broken("no_inputs", &why)));
                }
            }
        }
        for (at, source) in params.sources.iter().enumerate() {
            match self.take(&source.digest.to_string(), &files.source(at), files).await {
                Ok(true) => {}
                Ok(false) => return Err(self.stopped()),
                Err(Untaken::Here(why)) => return Err(Some(broken("no_inputs", &why))),
                Err(Untaken::There(why)) => return Err(Some(refused("source_gone", &why))),
            }
        }
        Ok(())
    }

    /// Streams a value from the server to a file. The server is waited for as long as the attempt goes on; false if it
    /// does not.
    async fn take(&mut self, name: &str, path: &Path, files: &Files<'_>) -> Result<bool, Untaken> {
        let (attempt, lease) = (self.attempt.to_string(), format!("{:032x}", self.lease.0));
        while *self.reporter.order.borrow_and_update() == Order::Go {
            // An earlier try may have left a part.
            let _may_be_gone = std::fs::remove_file(path);
            let file = files.left.create_file(path, files.user.as_ref());
            let file = file.map_err(|error| Untaken::Here(error.to_string()))?;
            let read = tokio::select! {
                read = copy(self.client.read_value(&attempt, &lease, name), file) => read,
                Ok(()) = self.reporter.order.changed() => continue,
            };
            match read {
                Ok(()) => return Ok(true),
                Err(Unread::File(error)) => return Err(Untaken::Here(error.to_string())),
                Err(Unread::Client(ClientError::Problem(problem))) if !is_passing(problem.code) => {
                    return Err(Untaken::There(problem.detail));
                }
                Err(Unread::Client(ClientError::Protocol(why))) => return Err(Untaken::There(why)),
                Err(Unread::Client(error)) => {
                    tracing::warn!(%attempt, "failed to read an input, trying again: {error}");
                    let _ = timeout(AGAIN, self.reporter.order.changed()).await;
                }
            }
        }
        Ok(false)
    }

    /// Sends a large value as an artifact; the report says why it could not be stored.
    pub(super) async fn send_value(
        &self,
        path: &Path,
        media_type: &str,
    ) -> Result<StoredValue, Option<OutcomeReport>> {
        let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
        match self.uploads().put_value(folder, Path::new(name), media_type).await {
            Sent::Kept(artifact) => match digest(&artifact) {
                Some(digest) => Ok(StoredValue::artifact(media_type, artifact.size, digest)),
                None => Err(Some(broken("no_value", &"the server answered without a digest"))),
            },
            Sent::Refused(why) => Err(Some(broken("value_not_stored", &why))),
            Sent::Stopped => Err(self.stopped()),
        }
    }
}

fn digest(artifact: &Artifact) -> Option<SourceDigest> {
    artifact.digest.parse().ok()
}

/// The whole content, in chunks.
async fn copy(mut reader: ArtifactReader, file: File) -> Result<(), Unread> {
    let mut file = Some(file);
    while let Some(bytes) = reader.next().await.map_err(Unread::Client)? {
        let Some(mut to) = file.take() else { break };
        let written = tokio::task::spawn_blocking(move || to.write_all(&bytes).map(|()| to)).await;
        file = Some(written.map_err(io::Error::other).and_then(|written| written).map_err(Unread::File)?);
    }
    Ok(())
}

/// What a step has left. The file was the job's to write, so no link is followed.
pub(super) fn look(path: &Path) -> io::Result<Left> {
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let (file, size) = match outputs::open(folder, Path::new(name)) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Left::Bytes(Vec::new())),
        Err(error) => return Err(error),
    };
    if size > INLINE_VALUE_BYTES as u64 {
        return Ok(Left::Large);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(INLINE_VALUE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    // A process that is still there has written more.
    Ok(if bytes.len() > INLINE_VALUE_BYTES { Left::Large } else { Left::Bytes(bytes) })
}

/// The digest of what a check has written; none if it is too large or cannot be read.
pub(super) fn digest_of(path: &Path) -> Option<SourceDigest> {
    match look(path) {
        Ok(Left::Bytes(bytes)) => Some(SourceDigest(*blake3::hash(&bytes).as_bytes())),
        Ok(Left::Large) | Err(_) => None,
    }
}

/// Stops a step whose value grows above the limit.
pub(super) struct SizeLimit {
    path: PathBuf,
    exceeded: Arc<Mutex<Option<u64>>>,
    task: JoinHandle<()>,
}

impl SizeLimit {
    pub fn new(path: PathBuf, stopper: Stopper) -> SizeLimit {
        let exceeded = Arc::new(Mutex::new(None));
        let (watched, seen) = (path.clone(), exceeded.clone());
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                if let Some(size) = above(&watched) {
                    *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(size);
                    return stopper.stop(Duration::ZERO).await;
                }
            }
        });
        SizeLimit { path, exceeded, task }
    }

    /// The failure of a step whose value has, or had while it ran, more bytes than the limit.
    pub fn end(self) -> Option<OutcomeReport> {
        let exceeded = *self.exceeded.lock().unwrap_or_else(PoisonError::into_inner);
        let size = exceeded.or_else(|| above(&self.path))?;
        let why = format!(
            "the value has {size} bytes so far, the limit is {ARTIFACT_BYTES}; write it elsewhere and hand on where it is"
        );
        Some(refused("value_too_large", &why))
    }
}

impl Drop for SizeLimit {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn above(path: &Path) -> Option<u64> {
    let about = std::fs::symlink_metadata(path).ok()?;
    Some(about.len()).filter(|size| *size > ARTIFACT_BYTES)
}
