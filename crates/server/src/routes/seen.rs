//! The value of an attempt of a query, if it was made from the same bytes before. The lease authorizes the read.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use jobhall_core::query::NodeParams;
use jobhall_protocol::Code;
use jobhall_queries::QUERIES;

use super::attempts::attempt_ref;
use super::queries::refused;
use crate::auth::tokens::Identity;
use crate::decode::sub_job::held;
use crate::error::{self, Answer, ApiError};
use crate::server::app::App;

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let job = held(&app, &of).await?;
    if !job.spec.job_type.as_str().starts_with(QUERIES.0) {
        return Err(ApiError::new(Code::NotFound, format!("job {} is not a step of a query", job.id)));
    }
    let params: NodeParams = serde_json::from_str(job.spec.params.as_str()).map_err(ApiError::internal)?;
    let seen = app.queries.seen(&job, &params).await.map_err(|error| refused(error, ""))?;
    Ok(seen.map_or_else(error::nothing, |value| error::body("application/json", value)))
}
