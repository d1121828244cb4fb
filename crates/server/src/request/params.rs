//! Validation of path parameters, queries and headers.

use axum::extract::Query;
use axum::http::{HeaderMap, HeaderName, Uri};
use jobhall_core::{AttemptId, GroupId, JobId, LeaseId, WorkerName};
use jobhall_protocol::{Code, LEASE_HEADER, WORKER_HEADER};
use serde::de::DeserializeOwned;

use crate::auth::tokens::Identity;
use crate::error::ApiError;
use crate::node::leader::internal_jobs;

/// Size at which a page of a list ends, in bytes of its documents. The item that exceeds it is the last one.
pub(crate) const PAGE_BYTES: usize = 4 << 20;
const WORKER: HeaderName = HeaderName::from_static(WORKER_HEADER);

/// Client text as shown in an error.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

/// A job id in a path.
pub(crate) fn job_id(text: &str) -> Result<JobId, ApiError> {
    let wrong = |_| ApiError::bad(format!("{} is not a job number", shown(text)));
    JobId::new(text.parse().map_err(wrong)?).map_err(ApiError::bad)
}

/// A group id in a path.
pub(crate) fn group_id(text: &str) -> Result<GroupId, ApiError> {
    let wrong = |_| ApiError::bad(format!("{} is not a group number", shown(text)));
    GroupId::new(text.parse().map_err(wrong)?).map_err(ApiError::bad)
}

/// An attempt id in a path or body.
pub(crate) fn attempt_id(text: &str) -> Result<AttemptId, ApiError> {
    text.parse().map_err(ApiError::bad)
}

/// 32 hex digits.
pub(crate) fn lease(text: &str) -> Result<LeaseId, ApiError> {
    let hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| hex);
    number.map(LeaseId).ok_or_else(|| ApiError::bad("a lease must have 32 hex digits"))
}

/// The lease, which every message about an attempt must include.
pub(crate) fn lease_header(headers: &HeaderMap) -> Result<LeaseId, ApiError> {
    let value = headers.get(LEASE_HEADER);
    let value = value.ok_or_else(|| ApiError::bad(format!("the header {LEASE_HEADER} is missing")))?;
    lease(value.to_str().unwrap_or_default())
}

/// The worker that an administrator names in a header.
pub(crate) fn named_worker(headers: &HeaderMap) -> Result<Option<WorkerName>, ApiError> {
    let Some(value) = headers.get(WORKER) else { return Ok(None) };
    let name = WorkerName::new(value.to_str().unwrap_or_default());
    name.map(Some).map_err(|error| ApiError::bad(format!("header {WORKER_HEADER}: {error}")))
}

/// The worker name comes from the token, not from the body. Only an administrator can name another one.
pub(crate) fn worker(who: &Identity) -> Result<WorkerName, ApiError> {
    let worker = match &who.worker {
        Some(worker) => worker.clone(),
        None => WorkerName::new(&who.name)
            .map_err(|error| ApiError::new(Code::Forbidden, format!("this token: {error}")))?,
    };
    internal_jobs::check_name(worker.as_str())?;
    Ok(worker)
}

/// Parses the query as this type; an error names the unknown field.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    let Query(query) = Query::try_from_uri(uri)
        .map_err(|error| ApiError::bad(format!("the query is wrong: {}", source(&error))))?;
    Ok(query)
}

/// The requested page size.
pub(crate) fn limit(asked: Option<usize>, usual: usize, most: usize) -> Result<usize, ApiError> {
    let limit = asked.unwrap_or(usual);
    if (1..=most).contains(&limit) {
        return Ok(limit);
    }
    Err(ApiError::bad(format!("limit of {limit} is outside 1 to {most}")))
}

/// The number in a cursor; the letter before it identifies the list.
pub(crate) fn cursor(letter: char, text: &str) -> Result<u64, ApiError> {
    let hex = text.strip_prefix(letter).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let wrong = || ApiError::bad(format!("cursor: {} is not a cursor of this list", shown(text)));
    hex.and_then(|hex| u64::from_str_radix(hex, 16).ok()).ok_or_else(wrong)
}

/// The address of the next page of a list: the address of the request with another cursor.
pub(crate) fn next_page(uri: &Uri, cursor: &str) -> String {
    let query = uri.query().unwrap_or_default();
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("cursor="));
    let cursor = format!("cursor={cursor}");
    let pairs: Vec<_> = kept.chain([cursor.as_str()]).collect();
    format!("{}?{}", uri.path(), pairs.join("&"))
}

/// The innermost error, which names the field.
fn source(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(inner) = error.source() {
        error = inner;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_32_hex_digits_and_nothing_else() {
        assert_eq!(lease(&format!("{:032x}", 7)).unwrap(), LeaseId(7));
        for bad in ["", "7", &"g".repeat(32), &"0".repeat(33), &format!("+{}", "0".repeat(31))] {
            assert!(lease(bad).is_err(), "{bad}");
        }
    }
}
