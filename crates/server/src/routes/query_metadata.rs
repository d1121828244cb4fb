//! What is known of a query without evaluating it.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::Uri;
use jobhall_core::Job;
use jobhall_core::query::{Input, PlannedStep, Query, URL_BYTES_MAX};
use jobhall_protocol::{QueryMetadata, Timestamp, schema};
use jobhall_queries::{Planned, Warmth};
use schemars::JsonSchema;
use serde::Deserialize;

use super::queries::{check_scope, refused, wrong};
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::params;
use crate::server::app::{App, now};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MetadataQuery {
    /// The text of the query, as in a URL.
    #[schemars(with = "schema::QueryPath")]
    query: String,
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    check_scope(&who)?;
    let MetadataQuery { query: text } = params::query(&uri)?;
    let query = Query::parse(&text, URL_BYTES_MAX).map_err(|error| wrong(&error, &text))?;
    let planned = app.queries.plan(&query).await.map_err(|error| refused(error, &text))?;
    if let Input::Source(key, _) = &planned.plan.value {
        let detail = format!("a query without a command has no promise; see the source {:?}", key.as_str());
        return Err(ApiError::bad(detail));
    }
    let job = app.queries.newest_job(&planned).await.map_err(|error| refused(error, &text))?;
    Ok(error::ok(&metadata(&query, &planned, job.as_ref())))
}

fn metadata(query: &Query, planned: &Planned, job: Option<&Job>) -> QueryMetadata {
    let (last, steps) = (planned.plan.nodes.last(), planned.plan.nodes.iter().flat_map(|node| &node.steps));
    let command =
        |step: &PlannedStep| format!("{}@{}", step.declared.declaration.name, step.declared.version);
    let value = match planned.warmth.last() {
        Some(Warmth::Hit(_, value)) => Some(value),
        _ => None,
    };
    let lease = job.and_then(|job| job.status.state.lease());
    let started = lease.and_then(|lease| lease.started_at);
    let ended = job.and_then(|job| job.status.state.ended_at());
    QueryMetadata {
        query: query.text(),
        identity: last.map(|node| node.identity.to_string()).unwrap_or_default(),
        commands: steps.map(command).collect(),
        cache: if value.is_some() { "hit" } else { "missing" }.to_owned(),
        job: job.map(|job| job.id.get()),
        state: job.map(|job| job.status.name(now()).to_string()),
        media_type: value.map(|value| value.media_type.clone()),
        size: value.map(|value| value.size),
        created_at: job.map(|job| Timestamp(job.spec.created_at)),
        started_at: started.map(Timestamp),
        ended_at: ended.map(Timestamp),
        duration_ms: started.and_then(|started| Some(ended?.since(started))),
        worker: lease.map(|lease| lease.worker.to_string()),
    }
}
