//! What is known of a query without evaluating it.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::Uri;
use jobhall_blobs::{ArtifactName, Channel, Digest, LogKey};
use jobhall_core::query::{Input, PlannedStep, Query, SourceDigest, SourceKey, StoredValue, URL_BYTES_MAX};
use jobhall_core::{AttemptId, Job};
use jobhall_protocol::{API, QueryDependency, QueryMetadata, QueryPreview, Timestamp, schema};
use jobhall_queries::{Planned, Warmth};
use schemars::JsonSchema;
use serde::Deserialize;

use super::history;
use super::queries::{check_scope, refused, wrong};
use crate::auth::tokens::Identity;
use crate::blobs::logs::key;
use crate::error::{self, Answer, ApiError};
use crate::request::params;
use crate::server::app::{App, now};

/// The artifact that a command may leave to show what it makes, also while it runs.
const PREVIEW: &str = "preview";
/// Maximum size of the text of a preview, in bytes.
const PREVIEW_BYTES: usize = 1 << 10;
/// Maximum size of a stored object that is opened for its beginning, because it is verified as a whole.
const LOOKED_AT_BYTES: u64 = 16 << 20;
/// How much of the end of a log is shown, in bytes.
const LOG_BYTES: u64 = 4 << 10;

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
    let attempt = match &job {
        Some(job) => history::attempt(&app, job, None).await?,
        None => None,
    };
    let log = match attempt {
        Some(attempt) => log_end(&app, attempt).await?,
        None => None,
    };
    let preview = preview(&app, value(&planned), attempt).await?;
    Ok(error::ok(&QueryMetadata { log, preview, ..metadata(&query, &planned, job.as_ref()) }))
}

fn value(planned: &Planned) -> Option<&StoredValue> {
    match planned.warmth.last() {
        Some(Warmth::Hit(_, value)) => Some(value),
        _ => None,
    }
}

fn metadata(query: &Query, planned: &Planned, job: Option<&Job>) -> QueryMetadata {
    let (last, steps) = (planned.plan.nodes.last(), planned.plan.nodes.iter().flat_map(|node| &node.steps));
    let value = value(planned);
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
        dependencies: dependencies(planned),
        log: None,
        preview: None,
    }
}

/// A command with its version.
fn command(step: &PlannedStep) -> String {
    format!("{}@{}", step.declared.declaration.name, step.declared.version)
}

/// The stored data, each once, and then the steps before the last one.
fn dependencies(planned: &Planned) -> Vec<QueryDependency> {
    let nodes = &planned.plan.nodes;
    let mut found: Vec<QueryDependency> = Vec::new();
    for (key, digest) in nodes.iter().flat_map(|node| &node.inputs).filter_map(source) {
        let query = format!("-R/{key}/-");
        if !found.iter().any(|known| known.query == query) {
            found.push(QueryDependency { query, identity: digest.to_string(), command: None });
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        let carried = node.steps.len() - usize::from(at + 1 == nodes.len());
        found.extend(node.steps.iter().take(carried).map(|step| QueryDependency {
            query: step.text.clone(),
            identity: step.identity.to_string(),
            command: Some(command(step)),
        }));
    }
    found
}

fn source(input: &Input) -> Option<(&SourceKey, &SourceDigest)> {
    match input {
        Input::Source(key, digest) => Some((key, digest)),
        Input::Node(_) => None,
    }
}

/// The end of the log of an attempt; none if it has none.
async fn log_end(app: &App, attempt: AttemptId) -> Result<Option<String>, ApiError> {
    let log = LogKey { attempt: key(attempt), channel: Channel::Output };
    let end = app.logs.info(log).await?.len;
    if end == 0 {
        return Ok(None);
    }
    let bytes = app.logs.read(log, end.saturating_sub(LOG_BYTES), end).await?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// What can be shown of a value: the artifact that its command has left for this, or the beginning of a text.
async fn preview(
    app: &App,
    value: Option<&StoredValue>,
    attempt: Option<AttemptId>,
) -> Result<Option<QueryPreview>, ApiError> {
    let text = match value {
        Some(value) if is_text(&value.media_type) => beginning(app, value).await?,
        _ => None,
    };
    let name = ArtifactName::new(PREVIEW).map_err(ApiError::internal)?;
    let artifact = match attempt {
        Some(attempt) => app.artifacts.find(attempt, name).await?.map(|artifact| (attempt, artifact)),
        None => None,
    };
    Ok(match (artifact, value, text) {
        (Some((attempt, artifact)), _, text) => Some(QueryPreview {
            media_type: artifact.media_type.to_string(),
            text,
            url: Some(format!("{API}/jobs/{}/artifacts/{PREVIEW}", attempt.job)),
        }),
        (None, Some(value), Some(text)) => {
            Some(QueryPreview { media_type: value.media_type.clone(), text: Some(text), url: None })
        }
        _ => None,
    })
}

fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.starts_with("text/") || essence == "application/json" || essence.ends_with("+json")
}

/// The first characters of a value; none if its bytes are damaged, missing, or not in UTF-8.
async fn beginning(app: &App, value: &StoredValue) -> Result<Option<String>, ApiError> {
    let bytes = match (value.bytes(), value.digest()) {
        (Some(bytes), _) => bytes,
        (None, Some(digest)) if value.size <= LOOKED_AT_BYTES => {
            let Some(object) = app.artifacts.sound(Digest::from(digest.0)).await? else { return Ok(None) };
            let read = tokio::task::spawn_blocking(move || object.read_at(0, PREVIEW_BYTES));
            read.await.map_err(ApiError::internal)?.map_err(ApiError::from)?
        }
        _ => return Ok(None),
    };
    let first = &bytes[..bytes.len().min(PREVIEW_BYTES)];
    // The last character may be cut.
    Ok(match std::str::from_utf8(first) {
        Ok(text) => Some(text.to_owned()),
        Err(error) if error.error_len().is_none() => {
            Some(String::from_utf8_lossy(&first[..error.valid_up_to()]).into_owned())
        }
        Err(_) => None,
    })
}
