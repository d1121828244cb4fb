//! Error codes, HTTP statuses and responses. This is the only module that maps a code to a status.
//!
//! An [`ApiError`] travels inside the response to the guard, which knows the request id and writes the error as an
//! RFC 9457 problem. The guard logs internal details; the client receives only what it can act on.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use jobhall_blobs::{AppendError, BlobError, KeepError};
use jobhall_core::IllegalTransition;
use jobhall_engine::Rejected;
use jobhall_protocol::{Code, Problem, QueryProblem};
use jobhall_store::{CommitError, StoreError};
use serde::Serialize;

/// Seconds after which a client may retry a request that was refused.
const RETRY_AFTER_S: u64 = 2;

/// The result of a route.
pub(crate) type Answer = Result<Response, ApiError>;

/// A request that failed.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    code: Code,
    detail: String,
    /// Internal detail, for the log only.
    inside: Option<String>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
    query: Option<Box<QueryProblem>>,
}

impl ApiError {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> ApiError {
        ApiError { code, detail: detail.into(), inside: None, header: None, query: None }
    }

    #[expect(clippy::needless_pass_by_value, reason = "so that it fits map_err")]
    pub(crate) fn bad(detail: impl ToString) -> ApiError {
        ApiError::new(Code::BadRequest, detail.to_string())
    }

    /// An internal error: the client receives a generic message, the log receives the cause.
    #[expect(clippy::needless_pass_by_value, reason = "so that it fits map_err")]
    pub(crate) fn internal(inside: impl ToString) -> ApiError {
        let trouble = ApiError::new(Code::Internal, "internal error; see the log of the server");
        ApiError { inside: Some(inside.to_string()), ..trouble }
    }

    pub(crate) fn with_header(self, name: HeaderName, value: &str) -> ApiError {
        ApiError { header: HeaderValue::from_str(value).ok().map(|value| Box::new((name, value))), ..self }
    }

    /// Says what is wrong with a query.
    pub(crate) fn with_query(self, query: QueryProblem) -> ApiError {
        ApiError { query: Some(Box::new(query)), ..self }
    }

    /// The code, and the detail for the client.
    pub(crate) fn words(&self) -> (Code, &str) {
        (self.code, &self.detail)
    }

    /// The detail for the client.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The same error with another detail.
    pub(crate) fn saying(self, detail: &str) -> ApiError {
        ApiError { detail: detail.to_owned(), ..self }
    }

    /// The internal detail, for the log only.
    pub(crate) fn inside(&self) -> Option<&str> {
        self.inside.as_deref()
    }

    /// Writes the problem for the client.
    pub(crate) fn render(&self, request_id: &str) -> Response {
        let (status, title) = meaning(self.code);
        let problem = Problem {
            kind: format!("/problems/{}", word(self.code)),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: self.detail.clone(),
            code: self.code,
            request_id: request_id.to_owned(),
            query: self.query.clone(),
        };
        let mut response = with_json(status, &problem);
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&status) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        if let Some((name, value)) = self.header.as_deref() {
            response.headers_mut().insert(name.clone(), value.clone());
        }
        response
    }
}

fn meaning(code: Code) -> (StatusCode, &'static str) {
    match code {
        Code::BadRequest => (StatusCode::BAD_REQUEST, "Bad request"),
        Code::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        Code::Forbidden => (StatusCode::FORBIDDEN, "Forbidden"),
        Code::NotFound => (StatusCode::NOT_FOUND, "Not found"),
        Code::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "Method not allowed"),
        Code::KeyHeld => (StatusCode::CONFLICT, "Conflict"),
        Code::IdempotencyKeyReused => (StatusCode::CONFLICT, "Conflict"),
        Code::LeaseLost => (StatusCode::CONFLICT, "Conflict"),
        Code::DependencyUnmet => (StatusCode::CONFLICT, "Conflict"),
        Code::GroupClosed => (StatusCode::CONFLICT, "Conflict"),
        Code::Conflict => (StatusCode::CONFLICT, "Conflict"),
        Code::NotComputed | Code::StepCancelled | Code::VersionChanged | Code::QueryCycle => {
            (StatusCode::CONFLICT, "Conflict")
        }
        Code::StepFailed | Code::StepCrashed => (StatusCode::UNPROCESSABLE_ENTITY, "Unprocessable content"),
        Code::QuerySyntax
        | Code::QueryTooLarge
        | Code::UnknownCommand
        | Code::WrongArgument
        | Code::WrongPlace
        | Code::RecipeCycle
        | Code::UnknownSource => (StatusCode::BAD_REQUEST, "Bad request"),
        Code::QueryTooLong => (StatusCode::URI_TOO_LONG, "URI too long"),
        Code::FormatNotOffered | Code::NotSerialisable => (StatusCode::NOT_ACCEPTABLE, "Not acceptable"),
        Code::PreconditionFailed => (StatusCode::PRECONDITION_FAILED, "Precondition failed"),
        Code::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "Content too large"),
        Code::Timeout => (StatusCode::REQUEST_TIMEOUT, "Request timeout"),
        Code::RangeNotSatisfiable => (StatusCode::RANGE_NOT_SATISFIABLE, "Range not satisfiable"),
        Code::Misdirected => (StatusCode::MISDIRECTED_REQUEST, "Misdirected request"),
        Code::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, "Too many requests"),
        Code::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "Service unavailable"),
        Code::NoLeader => (StatusCode::SERVICE_UNAVAILABLE, "Service unavailable"),
        Code::OutcomeUnknown => (StatusCode::BAD_GATEWAY, "Bad gateway"),
        Code::StorageFull => (StatusCode::INSUFFICIENT_STORAGE, "Insufficient storage"),
        Code::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error"),
    }
}

/// The HTTP status of a code.
pub(crate) fn status(code: Code) -> u16 {
    meaning(code).0.as_u16()
}

/// The name of the code in JSON.
pub(crate) fn word(code: Code) -> String {
    serde_json::to_string(&code).unwrap_or_default().trim_matches('"').to_owned()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = meaning(self.code).0;
        response.extensions_mut().insert(self);
        response
    }
}

/// The error for a response that no route produced, for example for a path that is not UTF-8.
pub(crate) fn foreign(response: &Response) -> Option<ApiError> {
    let status = response.status();
    let trouble = match status.as_u16() {
        ..400 => return None,
        404 => ApiError::new(Code::NotFound, "there is no such route"),
        405 => ApiError::new(Code::MethodNotAllowed, "this route does not support the method"),
        413 => ApiError::new(Code::TooLarge, "the body is too large"),
        400..500 => ApiError::bad("the request is malformed"),
        _ => ApiError::internal(format!("a response with status {status} from outside the routes")),
    };
    match response.headers().get(header::ALLOW).and_then(|allow| allow.to_str().ok()) {
        Some(allow) => Some(trouble.with_header(header::ALLOW, allow)),
        None => Some(trouble),
    }
}

impl From<Rejected> for ApiError {
    fn from(refused: Rejected) -> ApiError {
        let code = match &refused {
            Rejected::KeyHeld { .. } => Code::KeyHeld,
            Rejected::Reserved { .. } => Code::Forbidden,
            Rejected::IdempotencyKeyReused => Code::IdempotencyKeyReused,
            Rejected::KeyTwice { .. }
            | Rejected::Circle(_)
            | Rejected::NotEarlier { .. }
            | Rejected::NotInGroup { .. }
            | Rejected::Bound { .. }
            | Rejected::Retry(_)
            | Rejected::Timeouts(_)
            | Rejected::Limit(_)
            | Rejected::Delay(_)
            | Rejected::NotSubJob { .. }
            | Rejected::CallTwice(_)
            | Rejected::BadRecord { .. }
            | Rejected::Schedule(_)
            | Rejected::NotScheduled(_) => Code::BadRequest,
            Rejected::NoSuchJob(_) | Rejected::NoSuchGroup(_) | Rejected::NoSuchSchedule(_) => Code::NotFound,
            Rejected::NoSuchDependency(_) | Rejected::DependencyEnded { .. } => Code::DependencyUnmet,
            Rejected::GroupClosed(_) => Code::GroupClosed,
            Rejected::NotExternal(_)
            | Rejected::GroupEnded(_)
            | Rejected::GroupOpen(_)
            | Rejected::NothingToRetry(_) => Code::Conflict,
            Rejected::Changed { .. }
            | Rejected::RecordChanged(_)
            | Rejected::QueueChanged { .. }
            | Rejected::RetentionChanged { .. }
            | Rejected::ScheduleChanged { .. } => Code::PreconditionFailed,
            Rejected::LeaseLost(_)
            | Rejected::NoSuchSession
            | Rejected::Event(IllegalTransition::LeaseLost { .. }) => Code::LeaseLost,
            Rejected::Event(_) | Rejected::Contended | Rejected::SchedulesFull(_) => Code::Conflict,
            Rejected::Full { .. } | Rejected::QueueFull { .. } | Rejected::GroupsFull(_) => Code::Unavailable,
            Rejected::Storage { full, message } => return storage(*full, message),
            Rejected::Unknown(inside) => return unknown(inside),
            Rejected::Stopped(inside) => {
                let trouble = ApiError::new(Code::Unavailable, "the server is stopping");
                return ApiError { inside: Some(inside.clone()), ..trouble };
            }
        };
        ApiError::new(code, refused.to_string())
    }
}

fn storage(full: bool, inside: &str) -> ApiError {
    let trouble = if full {
        ApiError::new(Code::StorageFull, "the server's disk is full; nothing was stored")
    } else {
        ApiError::new(Code::Unavailable, "the store could not commit; nothing was changed")
    };
    ApiError { inside: Some(inside.to_owned()), ..trouble }
}

/// A commit was in progress when this node lost the leadership or stopped. The client may retry an idempotent request.
fn unknown(inside: &str) -> ApiError {
    let words = "this node stopped before it answered; it is not known whether the request was executed";
    ApiError { inside: Some(inside.to_owned()), ..ApiError::new(Code::OutcomeUnknown, words) }
}

impl From<CommitError> for ApiError {
    fn from(error: CommitError) -> ApiError {
        match error {
            CommitError::NotCommitted { full, message } => storage(full, &message),
            CommitError::Unknown { message } => unknown(&message),
            CommitError::Stopped { .. } => {
                let trouble = ApiError::new(Code::Unavailable, "the server is stopping");
                ApiError { inside: Some(error.to_string()), ..trouble }
            }
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        if error.away {
            return ApiError { inside: Some(error.message), ..away() };
        }
        ApiError::internal(error)
    }
}

/// The store is unreachable.
fn away() -> ApiError {
    ApiError::new(Code::Unavailable, "the database does not respond; try again")
}

impl From<BlobError> for ApiError {
    fn from(error: BlobError) -> ApiError {
        match error {
            BlobError::Full { .. } => storage(true, &error.to_string()),
            BlobError::Overtaken { .. } => {
                ApiError::new(Code::Unavailable, "another node is the leader now; try again")
            }
            BlobError::Away { .. } => {
                tracing::warn!("logs and artifacts are unavailable: {error}");
                away()
            }
            BlobError::TooManyWatchers { .. } => {
                ApiError::new(Code::Unavailable, "too many clients follow this log")
            }
            _ => ApiError::internal(error),
        }
    }
}

impl From<AppendError> for ApiError {
    fn from(error: AppendError) -> ApiError {
        match error {
            AppendError::Gap { .. } | AppendError::Conflict { .. } | AppendError::Finished { .. } => {
                ApiError::new(Code::Conflict, error.to_string())
            }
            AppendError::ChunkTooLarge { .. }
            | AppendError::NoteTooLarge { .. }
            | AppendError::NotesFull { .. } => ApiError::new(Code::TooLarge, error.to_string()),
            AppendError::NotOneLine => ApiError::bad(error.to_string()),
            AppendError::Blob(error) => error.into(),
        }
    }
}

impl From<KeepError> for ApiError {
    fn from(error: KeepError) -> ApiError {
        match error {
            KeepError::Blob(error) => error.into(),
            _ => ApiError::new(Code::TooLarge, error.to_string()),
        }
    }
}

fn with_json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => with_text(status, "application/json", bytes),
        Err(error) => ApiError::internal(error).into_response(),
    }
}

fn with_text(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// 200 with JSON.
pub(crate) fn ok(value: &impl Serialize) -> Response {
    with_json(StatusCode::OK, value)
}

/// 201, or 200 if nothing was created, with the address of the resource.
pub(crate) fn made(new: bool, location: &str, value: &impl Serialize) -> Response {
    let mut response = with_json(if new { StatusCode::CREATED } else { StatusCode::OK }, value);
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Adds the entity tag of this version.
pub(crate) fn tagged(mut response: Response, tag: &str) -> Response {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Adds the address of the next page, if there is one.
pub(crate) fn linked(mut response: Response, next: Option<&str>) -> Response {
    let link = next.and_then(|next| HeaderValue::from_str(&format!("<{next}>; rel=\"next\"")).ok());
    if let Some(link) = link {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

/// 304: the client already has this version.
pub(crate) fn unchanged(tag: &str) -> Response {
    tagged(StatusCode::NOT_MODIFIED.into_response(), tag)
}

/// 202, with the address where the result can be read.
pub(crate) fn accepted(location: &str, value: &impl Serialize) -> Response {
    let mut response = made(true, location, value);
    if response.status() == StatusCode::CREATED {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    response
}

/// 303 to another page, with a cookie.
pub(crate) fn see_other(location: &'static str, cookie: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(location));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// 204.
pub(crate) fn nothing() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// 200 with a body of this media type.
pub(crate) fn body(kind: &'static str, body: impl Into<Body>) -> Response {
    with_text(StatusCode::OK, kind, body)
}

/// 200 with metrics for Prometheus.
pub(crate) fn numbers(text: String) -> Response {
    body("application/openmetrics-text; version=1.0.0; charset=utf-8", text)
}

/// 200 with bytes whose media type is a header already, without a copy of the bytes. A browser runs none of them.
pub(crate) fn value(media_type: HeaderValue, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type);
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    response
}

/// 206 with a part of the content.
pub(crate) fn part(kind: &'static str, range: &str, body: Body) -> Response {
    let mut response = with_text(StatusCode::PARTIAL_CONTENT, kind, body);
    if let Ok(range) = HeaderValue::from_str(range) {
        response.headers_mut().insert(header::CONTENT_RANGE, range);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_stored_is_unknown_and_no_fault_so_that_it_is_asked_for_again() {
        let refused = ApiError::from(Rejected::Unknown("fenced".to_owned()));
        let failed = ApiError::from(CommitError::Unknown { message: "fenced".to_owned() });
        for trouble in [refused, failed] {
            assert_eq!((trouble.code, trouble.inside()), (Code::OutcomeUnknown, Some("fenced")));
            assert!(
                trouble.detail().ends_with("it is not known whether the request was executed"),
                "{trouble:?}"
            );
        }
    }
}
