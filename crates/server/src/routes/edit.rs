//! Changes to a waiting job: edit, hold, release, run now.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use jobhall_core::{JobId, RetryPolicy};
use jobhall_engine::Edit;
use jobhall_protocol::{EditJob, FieldError};

use super::history;
use crate::auth::tokens::Identity;
use crate::auth::{audit, visibility};
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::server::app::App;

pub(super) async fn edit(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let id = params::job_id(&id)?;
    let shown = visibility::shown(&app, &who, id).await?;
    let given: EditJob = body::json(request).await?;
    if given.is_empty() {
        return Err(ApiError::bad("no change given: set at least one field"));
    }
    let edit = checked(&given, shown.job.spec.retry).map_err(ApiError::bad)?;
    let shown = app.engine.edit(id, edit).await?;
    changed(&app, &who, &shown, "job_edited", &audit::change(&given)).await
}

fn checked(given: &EditJob, retry: RetryPolicy) -> Result<Edit, FieldError> {
    Ok(Edit {
        params: given.checked_params()?,
        needs: given.checked_needs()?,
        uses: given.checked_uses()?,
        avoid: given.avoid,
        windows: given.checked_windows()?,
        priority: given.priority,
        run_at: given.run_at.map(|at| at.0),
        retry: given.retry.as_ref().map(|given| given.over(retry)),
        throttle_factor: given.throttle_factor,
        timeouts: given.timeouts(),
        owner: given.checked_owner()?,
        tags: given.checked_tags()?,
    })
}

pub(super) async fn hold(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    let id = reached(&app, &who, &id).await?;
    let shown = app.engine.hold(id).await?;
    changed(&app, &who, &shown, "job_held", "").await
}

pub(super) async fn release(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    let id = reached(&app, &who, &id).await?;
    let shown = app.engine.release(id).await?;
    changed(&app, &who, &shown, "job_released", "").await
}

pub(super) async fn run_now(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    let id = reached(&app, &who, &id).await?;
    let shown = app.engine.run_now(id).await?;
    changed(&app, &who, &shown, "job_run_now", "").await
}

async fn reached(app: &App, who: &Identity, id: &str) -> Result<JobId, ApiError> {
    let id = params::job_id(id)?;
    visibility::check(app, who, id).await?;
    Ok(id)
}

/// Records the change, and answers with the job after it.
async fn changed(
    app: &App,
    who: &Identity,
    shown: &jobhall_engine::Shown,
    what: &'static str,
    detail: &str,
) -> Answer {
    app.acted(who, what, shown.job.id, detail).await;
    Ok(error::ok(&history::job(app, shown).await?))
}
