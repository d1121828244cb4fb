//! The server's rule for completed jobs.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Request};
use jobhall_core::Retention;
use jobhall_engine::Rejected;
use jobhall_protocol::{self as wire, Code, SetRetention};

use super::versions::{self, ROUNDS, Wanted};
use crate::auth::audit;
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::body;
use crate::server::app::App;

pub(super) async fn show(State(app): State<Arc<App>>, headers: HeaderMap) -> Answer {
    let (rev, rule) = app.engine.retention().await?;
    let tag = versions::tag(rev, &rule)?;
    if Wanted::of(&headers)?.has(Some(&tag)) {
        return Ok(error::unchanged(&tag));
    }
    Ok(error::tagged(error::ok(&shown(rev, rule)), &tag))
}

/// Without `If-Match` a conflicting change is retried on the new version.
pub(super) async fn set(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    let wanted = Wanted::of(request.headers())?;
    let given: SetRetention = body::json(request).await?;
    for _ in 0..ROUNDS {
        let (rev, before) = app.engine.retention().await?;
        let tag = versions::tag(rev, &before)?;
        if !wanted.allows(Some(&tag)) {
            let detail = format!("the rule for completed jobs has version {tag}");
            return Err(ApiError::new(Code::PreconditionFailed, detail));
        }
        let rule = Retention {
            keep_ms: given.keep_ms.unwrap_or(before.keep_ms),
            keep_count: given.keep_count.unwrap_or(before.keep_count),
        };
        match app.engine.set_retention(rule, Some(rev)).await {
            Ok(rev) => {
                app.acted(&who, "retention_set", "server", &audit::change(&given)).await;
                return Ok(error::tagged(error::ok(&shown(rev, rule)), &versions::tag(rev, &rule)?));
            }
            Err(Rejected::RetentionChanged { .. }) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Err(Rejected::Contended.into())
}

pub(super) fn shown(rev: u32, Retention { keep_ms, keep_count }: Retention) -> wire::Retention {
    wire::Retention { keep_ms, keep_count, is_set: rev > 0 }
}
