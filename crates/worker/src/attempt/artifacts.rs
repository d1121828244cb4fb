//! The end of an attempt's work: artifacts and result are uploaded before the outcome is reported, so that a client
//! that sees the end of a job can read all of them. A file that cannot be stored is mentioned in the job's log and
//! does not fail the job.

use std::io;
use std::path::Path;
use std::time::Duration;

use jobhall_client::{Client, ClientError, Upload, UploadError, media_type_of};
use jobhall_protocol::{ARTIFACT_BYTES, Artifact, Code, Failure, RESULT_ARTIFACT};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::attempt::contract;
use crate::attempt::result::{self, Left};
use crate::executor::reporter::{self, Order};
use crate::slots::ended::{Ended, Status};
use crate::workspace::Workspace;
use crate::workspace::outputs;

/// Maximum number of concurrent uploads of one attempt: each waits for the server's disk.
const AT_ONCE: usize = 4;
/// Maximum number of log lines about files that were not stored.
const NOTES: usize = 20;
/// Pause between two tries to reach the server.
const AGAIN: Duration = Duration::from_millis(500);
/// Maximum number of broken uploads of one file while the server answers; then the file is skipped.
const BROKEN: u32 = 10;

/// The value of a success, or why there is none.
pub(crate) type Value = Result<Option<Box<RawValue>>, Failure>;

/// How an upload ended.
pub(crate) enum Sent {
    Kept(Box<Artifact>),
    /// The server refused the file permanently.
    Refused(String),
    /// The attempt was cancelled or lost meanwhile.
    Stopped,
}

/// Uploads an attempt's files to the server.
#[derive(Clone)]
pub(crate) struct Uploads {
    pub(crate) client: Client,
    /// `{job}-{claim}`.
    pub(crate) attempt: String,
    pub(crate) lease: String,
    pub(crate) order: watch::Receiver<Order>,
}

impl Uploads {
    /// Uploads the output of the job; returns the value of its result, and lines for its log.
    pub(crate) async fn put_all(&self, ended: &Ended, left: &Workspace) -> (Value, String) {
        let notes = if self.goes_on() { self.put_output(&left.output()).await } else { Vec::new() };
        let value = match ended.status {
            Status::Exit(0) if self.goes_on() => self.put_result(&left.result()).await,
            _ => Ok(None),
        };
        (value, told(&notes))
    }

    fn goes_on(&self) -> bool {
        *self.order.borrow() == Order::Go
    }

    /// Uploads every file of the directory; returns which were not stored, and why.
    async fn put_output(&self, output: &Path) -> Vec<String> {
        let place = output.to_owned();
        let Ok(found) = tokio::task::spawn_blocking(move || outputs::look(&place)).await else {
            return vec!["artifacts were not kept: the directory could not be read".to_owned()];
        };
        let mut notes: Vec<_> = found.odd.iter().map(|(path, why)| note(path, why)).collect();
        let (mut files, mut puts) = (found.files.into_iter(), JoinSet::new());
        loop {
            while puts.len() < AT_ONCE
                && self.goes_on()
                && let Some(path) = files.next()
            {
                let (uploads, output) = (self.clone(), output.to_owned());
                puts.spawn(async move {
                    let put = uploads.put_file(&output, &path).await;
                    (path, put)
                });
            }
            match puts.join_next().await {
                Some(Ok((path, Sent::Refused(why)))) => notes.push(note(&path, &why)),
                Some(Ok((_, Sent::Kept(_)))) => {}
                // The other uploads stop too: they end with this set.
                Some(Ok((_, Sent::Stopped))) => break,
                Some(Err(error)) => notes.push(format!("an artifact was not kept: {error}")),
                None => break,
            }
        }
        notes
    }

    /// Uploads a file of the directory; its name is its path in the directory.
    async fn put_file(&self, output: &Path, path: &Path) -> Sent {
        match path.to_str() {
            None => Sent::Refused("its name is not UTF-8".to_owned()),
            Some(RESULT_ARTIFACT) => {
                Sent::Refused("the name is reserved: leave a result in the file JOBHALL_RESULT".to_owned())
            }
            Some(name) => self.put(output, path, name, media_type_of(name)).await,
        }
    }

    /// The value of a success. A result that is not a small JSON document becomes an artifact, and the value is null.
    async fn put_result(&self, path: &Path) -> Value {
        let bad = |why: String| contract::refused("bad_result", why);
        let place = path.to_owned();
        let looked = tokio::task::spawn_blocking(move || result::look(&place)).await;
        let left =
            looked.map_err(io::Error::other).and_then(|left| left).map_err(|error| bad(error.to_string()))?;
        let kind = match left {
            Left::Nothing => return Ok(None),
            Left::Value(value) => return Ok(Some(value)),
            Left::File(kind) => kind,
        };
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        match self.put(folder, Path::new(name), RESULT_ARTIFACT, kind).await {
            Sent::Refused(why) => Err(bad(format!("the result was not kept: {why}"))),
            Sent::Kept(_) | Sent::Stopped => Ok(None),
        }
    }

    /// Uploads the value of a query.
    pub(crate) async fn put_value(&self, folder: &Path, path: &Path, media_type: &str) -> Sent {
        self.put(folder, path, RESULT_ARTIFACT, media_type).await
    }

    /// Uploads one file. Retries while the server is unreachable, until the attempt is cancelled or lost.
    async fn put(&self, folder: &Path, path: &Path, name: &str, media_type: &str) -> Sent {
        let mut broken = 0;
        while self.goes_on() {
            let (file, size) = match outputs::open(folder, path) {
                Ok((_, size)) if size > ARTIFACT_BYTES => {
                    return Sent::Refused(format!("it has {size} bytes, the limit is {ARTIFACT_BYTES}"));
                }
                Ok(opened) => opened,
                Err(error) => return Sent::Refused(error.to_string()),
            };
            let (attempt, lease) = (self.attempt.as_str(), Some(self.lease.as_str()));
            let upload = Upload { attempt, lease, name, media_type, file, size };
            let mut order = self.order.clone();
            let put = tokio::select! {
                put = self.client.put_artifact(upload, |_| {}) => put,
                _ = order.wait_for(|order| *order != Order::Go) => return Sent::Stopped,
            };
            match put {
                Ok(artifact) => return Sent::Kept(Box::new(artifact)),
                Err(UploadError::File(error)) => return Sent::Refused(error.to_string()),
                // The session reports the same, or the outcome will be refused.
                Err(UploadError::Client(error)) if is_lost(&error) => return Sent::Stopped,
                Err(UploadError::Client(error)) if is_passing(&error) => {
                    broken += u32::from(self.is_broken(&error).await);
                    if broken >= BROKEN {
                        return Sent::Refused(error.to_string());
                    }
                    tokio::time::sleep(AGAIN).await;
                }
                Err(UploadError::Client(error)) => return Sent::Refused(error.to_string()),
            }
        }
        Sent::Stopped
    }

    /// Whether only this upload failed while the server answers.
    async fn is_broken(&self, error: &ClientError) -> bool {
        matches!(error, ClientError::Unreachable { .. }) && self.client.livez().await.is_ok()
    }
}

/// Whether the server replied that this worker no longer has the attempt.
fn is_lost(error: &ClientError) -> bool {
    matches!(error, ClientError::Problem(problem) if matches!(problem.code, Code::LeaseLost | Code::NotFound))
}

/// Whether a retry may succeed.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Untrusted { .. } => true,
        ClientError::Problem(problem) => reporter::is_passing(problem.code),
        _ => false,
    }
}

fn note(path: &Path, why: &str) -> String {
    match path.as_os_str().is_empty() {
        true => format!("artifacts were not kept: {why}"),
        false => format!("artifact {path:?} was not kept: {why}"),
    }
}

/// Lines for the job's log.
fn told(notes: &[String]) -> String {
    let more = notes.len().saturating_sub(NOTES);
    let rest = (more > 0).then(|| format!("{more} more artifacts were not kept"));
    let lines = notes.iter().take(NOTES).chain(&rest);
    lines.map(|line| format!("[jobhall: {line}]\n")).collect()
}

#[cfg(test)]
mod tests;
