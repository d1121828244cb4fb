//! Health checks and metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use jobhall_protocol::Code;
use schemars::JsonSchema;
use serde::Deserialize;

use super::stats::disk;
use crate::error::{self, Answer, ApiError};
use crate::metrics::disk_usage;
use crate::metrics::exposition::Exposition;
use crate::metrics::queries::CacheFigures;
use crate::request::params;
use crate::server::app::{App, now};

/// Time limit for the store to answer a read: less than a follower waits for the response.
const LOOK: Duration = Duration::from_secs(2);
const TEXT: &str = "text/plain; charset=utf-8";

/// The level of detail.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadyQuery {
    /// `true` or without a value: list every check.
    #[schemars(extend("enum" = ["", "true", "1"]))]
    verbose: Option<String>,
}

/// Liveness: the process responds.
pub(super) async fn livez() -> Answer {
    Ok(error::body(TEXT, "ok\n"))
}

/// Readiness: every check passes. The route needs no token, so the response names the failed check but not the cause,
/// which is logged.
pub(super) async fn readyz(State(app): State<Arc<App>>, uri: Uri) -> Answer {
    let asked: ReadyQuery = params::query(&uri)?;
    if let Some(other) = asked.verbose.as_deref().filter(|word| !["", "true", "1"].contains(word)) {
        return Err(ApiError::bad(format!("verbose must be true or empty, not {}", params::shown(other))));
    }
    let checks = checks(&app).await;
    let line = |(check, found): &(&str, Result<(), String>)| match found {
        Ok(()) => format!("{check}: ok"),
        Err(_) => format!("{check}: failed"),
    };
    let lines: Vec<_> = checks.iter().map(line).collect();
    let mut failed = false;
    for (check, why) in checks.iter().filter_map(|(check, found)| Some((check, found.as_ref().err()?))) {
        tracing::warn!(check, why, "not ready");
        failed = true;
    }
    match (failed, asked.verbose.is_some()) {
        (true, _) => Err(ApiError::new(Code::Unavailable, lines.join("; "))),
        (false, true) => Ok(error::body(TEXT, lines.join("\n") + "\n")),
        (false, false) => Ok(error::body(TEXT, "ok\n")),
    }
}

async fn checks(app: &App) -> [(&'static str, Result<(), String>); 4] {
    let draining = if app.is_draining() { Err("the server is stopping".to_owned()) } else { Ok(()) };
    let reads = match tokio::time::timeout(LOOK, app.store.blocks()).await {
        Ok(read) => read.map(drop).map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", LOOK.as_secs())),
    };
    let writes = match app.engine.counts().await {
        Ok(counts) => counts.storage_trouble.map_or(Ok(()), Err),
        Err(refused) => Err(refused.to_string()),
    };
    let room = match app.disk_usage.look().await {
        Ok(disk) if disk_usage::has_room(&disk) => Ok(()),
        Ok(disk) => Err(format!("{} bytes are free", disk.free_bytes)),
        Err(error) => Err(error.to_string()),
    };
    [("not draining", draining), ("store reads", reads), ("store writes", writes), ("disk room", room)]
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Answer {
    let (counts, disk) = (app.engine.counts().await?, disk(&app).await);
    let (values, bytes, evictions) = app.queries.cache_figures();
    let cache = CacheFigures { values, bytes, evictions };
    let text = app.metrics.text(Exposition { counts, disk, cache, now: now() });
    Ok(error::numbers(text))
}
