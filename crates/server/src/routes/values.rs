//! Values that an attempt of a query receives, by identity, and stored data, by digest. The lease authorizes the read; only
//! the inputs of the attempt's own job can be read, and what the attempt has asked for.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use axum::http::request::Parts;
use jobhall_blobs::Digest;
use jobhall_core::query::{Identity as ValueIdentity, NodeParams, SourceDigest};
use jobhall_protocol::Code;
use jobhall_queries::{BY_DIGEST, EndedHow, QUERIES};

use super::attempts::attempt_ref;
use super::queries::refused;
use crate::auth::tokens::Identity;
use crate::decode::sub_job::held;
use crate::error::{Answer, ApiError};
use crate::request::params::shown;
use crate::response::content::{self, About};
use crate::server::app::App;

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path((id, identity)): Path<(String, String)>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let job = held(&app, &of).await?;
    let none =
        || ApiError::new(Code::NotFound, format!("{} is no input of job {}", shown(&identity), job.id));
    if !job.spec.job_type.as_str().starts_with(QUERIES.0) {
        return Err(ApiError::new(Code::NotFound, format!("job {} is not a step of a query", job.id)));
    }
    let params: NodeParams = serde_json::from_str(job.spec.params.as_str()).map_err(ApiError::internal)?;
    let (parts, _) = request.into_parts();
    if let Ok(digest) = identity.parse::<SourceDigest>() {
        if let Some(source) = params.sources.iter().find(|source| source.digest == digest) {
            return data(&app, digest, source.key.as_str(), &parts).await;
        }
        let asked = app.queries.asked_within(&of, &identity).await.map_err(|error| refused(error, ""))?;
        return match asked {
            Some(None) => data(&app, digest, &format!("{BY_DIGEST}{digest}"), &parts).await,
            _ => Err(none()),
        };
    }
    let wanted: ValueIdentity = identity.parse().map_err(|_| none())?;
    let position = params.inputs.iter().position(|input| *input == wanted);
    let input = match position.and_then(|position| job.spec.after.get(position)) {
        Some(input) => *input,
        None => {
            let asked = app.queries.asked_within(&of, &identity).await;
            asked.map_err(|error| refused(error, ""))?.flatten().ok_or_else(none)?
        }
    };
    let ended = app.queries.ended(input).await.map_err(|error| refused(error, ""))?;
    match ended.map(|ended| ended.how) {
        Some(EndedHow::Value(value)) => {
            content::value(&app, &value, &parts.method, &parts.headers).await?.ok_or_else(|| {
                ApiError::new(Code::Conflict, format!("the value of job {input} is damaged or missing"))
            })
        }
        _ => Err(ApiError::new(Code::Conflict, format!("job {input} has no value"))),
    }
}

/// Stored data: the bytes that the key named when the query was planned.
async fn data(app: &App, digest: SourceDigest, key: &str, parts: &Parts) -> Answer {
    let gone = || {
        let detail = format!(
            "the data that the source {key:?} had is not stored any more: it was replaced or removed before this step ran"
        );
        ApiError::new(Code::Conflict, detail)
    };
    let digest = Digest::from(digest.0);
    let size = app.artifacts.sound(digest).await?.ok_or_else(gone)?.len();
    let about = About { digest, size, media_type: "application/octet-stream" };
    content::object(app, &about, &parts.method, &parts.headers).await?.ok_or_else(gone)
}
