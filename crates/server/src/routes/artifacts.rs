//! Artifacts: a worker uploads them under its lease; every token with read access can download them, verified.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::header;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Uri};
use jobhall_blobs::{ARTIFACT_BYTES, Artifact, ArtifactName, Digest, MediaType};
use jobhall_core::Leased;
use jobhall_engine::{AttemptRef, Rejected};
use jobhall_protocol::{Code, DIGEST_HEADER, Page, schema};
use schemars::JsonSchema;
use serde::Deserialize;

use super::attempts::{attempt_ref, check};
use super::history;
use super::openapi::ArtifactPath;
use crate::auth::tokens::Identity;
use crate::auth::visibility;
use crate::blobs::artifacts::{told, too_large};
use crate::blobs::upload::discard;
use crate::error::{self, Answer, ApiError};
use crate::request::params;
use crate::response::content::{self, About};
use crate::server::app::App;

/// How often an upload checks its lease.
const LOOK: Duration = Duration::from_secs(1);
/// Default and maximum page size.
const PAGE: usize = 1_000;

/// The lease is checked before the first byte is stored, and again before the artifact is listed: an upload
/// during which the worker lost its lease is not listed.
pub(super) async fn put(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path((id, name)): Path<(String, String)>,
    request: Request<Body>,
) -> Answer {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > ARTIFACT_BYTES) {
        return Err(too_large());
    }
    let given = given(&who, &id, &name, &request);
    let body = request.into_body();
    let checked = match given {
        Ok(given) => check(&app, &given.0).await.map(|()| given),
        refused => refused,
    };
    let (of, name, media_type, expected) = match checked {
        Ok(checked) => checked,
        Err(trouble) => {
            discard(body).await;
            return Err(trouble);
        }
    };
    let stored = tokio::select! {
        stored = app.artifacts.store(&who, &of, body) => stored?,
        lost = lease_lost(&app, &of) => return Err(lost),
    };
    if let Some(expected) = expected.filter(|expected| *expected != stored.digest) {
        let detail = format!("{DIGEST_HEADER} is {expected}, but the body has {}", stored.digest);
        return Err(ApiError::bad(detail));
    }
    check(&app, &of).await?;
    let artifact = app.artifacts.keep(of.attempt, name, media_type, stored).await?;
    Ok(error::ok(&told(of.attempt, &artifact)))
}

/// Returns once the attempt does not have its lease any more.
async fn lease_lost(app: &App, of: &AttemptRef) -> ApiError {
    loop {
        tokio::time::sleep(LOOK).await;
        let shown = app.engine.show(of.attempt.job).await;
        let holds = |leased: &Leased| leased.lease.id == of.lease;
        if !shown.is_ok_and(|shown| shown.job.status.state.leased().is_some_and(holds)) {
            return Rejected::LeaseLost(of.attempt).into();
        }
    }
}

/// Checks the request before the first byte of the body is read.
fn given(
    who: &Identity,
    id: &str,
    name: &str,
    request: &Request<Body>,
) -> Result<(AttemptRef, ArtifactName, MediaType, Option<Digest>), ApiError> {
    let of = attempt_ref(who, id, request)?;
    let name = ArtifactName::new(name).map_err(ApiError::bad)?;
    Ok((of, name, media_type(request.headers())?, digest(request.headers())?))
}

pub(super) fn media_type(headers: &HeaderMap) -> Result<MediaType, ApiError> {
    match headers.get(header::CONTENT_TYPE) {
        Some(text) => MediaType::new(text.to_str().unwrap_or_default()).map_err(ApiError::bad),
        None => Ok(MediaType::unknown()),
    }
}

pub(super) fn digest(headers: &HeaderMap) -> Result<Option<Digest>, ApiError> {
    let read = |text: &HeaderValue| text.to_str().unwrap_or_default().parse();
    let wrong = |error| ApiError::bad(format!("the header {DIGEST_HEADER}: {error}"));
    headers.get(DIGEST_HEADER).map(read).transpose().map_err(wrong)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ArtifactsQuery {
    /// Attempt id such as `17-2`, or attempt number starting at 1; default: the last attempt.
    #[schemars(with = "Option<schema::WhichAttempt>")]
    attempt: Option<String>,
    /// Page size.
    #[schemars(range(min = 1, max = PAGE))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<ArtifactPath>")]
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer {
    let asked: ArtifactsQuery = params::query(&uri)?;
    let limit = asked.limit.unwrap_or(PAGE);
    if !(1..=PAGE).contains(&limit) {
        return Err(ApiError::bad(format!("limit of {limit} is outside 1 to {PAGE}")));
    }
    let cursor = asked.cursor.as_deref().map(ArtifactName::new).transpose();
    let cursor = cursor.map_err(|error| ApiError::bad(format!("cursor: {error}")))?;
    let shown = visibility::shown(&app, &who, params::job_id(&id)?).await?;
    let Some(attempt) = history::attempt(&app, &shown.job, asked.attempt.as_deref()).await? else {
        return Ok(error::ok(&Page::<()> { items: Vec::new(), next_cursor: None }));
    };
    let mut found = app.artifacts.list(attempt, cursor, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|last| last.name.to_string());
    Ok(error::ok(&Page {
        items: found.iter().map(|artifact| told(attempt, artifact)).collect(),
        next_cursor,
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ArtifactQuery {
    /// Attempt id such as `17-2`, or attempt number starting at 1; default: the last attempt.
    #[schemars(with = "Option<schema::WhichAttempt>")]
    attempt: Option<String>,
}

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path((id, name)): Path<(String, String)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let (job, which): (_, ArtifactQuery) = (params::job_id(&id)?, params::query(&uri)?);
    let name = ArtifactName::new(&name).map_err(ApiError::bad)?;
    let shown = visibility::shown(&app, &who, job).await?;
    let found = match history::attempt(&app, &shown.job, which.attempt.as_deref()).await? {
        Some(attempt) => app.artifacts.find(attempt, name.clone()).await?,
        None => None,
    };
    match found {
        Some(artifact) => content(&app, &artifact, &method, &headers).await,
        None => Err(ApiError::new(Code::NotFound, format!("job {job} has no artifact {name}"))),
    }
}

/// The content of an artifact, or a part of it, which a browser downloads.
pub(super) async fn content(app: &App, artifact: &Artifact, method: &Method, headers: &HeaderMap) -> Answer {
    let Artifact { digest, size, media_type, .. } = artifact;
    let about = About { digest: *digest, size: *size, media_type: media_type.as_str() };
    let Some(mut response) = content::object(app, &about, method, headers).await? else {
        return Err(ApiError::new(Code::Internal, "the stored content of this artifact is damaged"));
    };
    if let Ok(value) = HeaderValue::from_str(&disposition(&artifact.name)) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// The last segment as the file name: in ASCII for old clients, and in full.
fn disposition(name: &ArtifactName) -> String {
    let file = name.segments().last().unwrap_or_default();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_. ".contains(character);
    let plain: String =
        file.chars().map(|character| if is_plain(character) { character } else { '_' }).collect();
    let full: String = file
        .bytes()
        .map(|byte| match byte {
            b'-' | b'_' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{full}")
}

#[cfg(test)]
mod tests {
    use super::{ArtifactName, disposition};

    #[test]
    fn a_file_name_cannot_leave_its_header() {
        for (name, header) in [
            ("a/b.txt", "attachment; filename=\"b.txt\"; filename*=UTF-8''b.txt"),
            ("x;y='z'.html", "attachment; filename=\"x_y__z_.html\"; filename*=UTF-8''x%3By%3D%27z%27.html"),
            ("ä b", "attachment; filename=\"_ b\"; filename*=UTF-8''%C3%A4%20b"),
        ] {
            assert_eq!(disposition(&ArtifactName::new(name).unwrap()), header);
        }
    }
}
