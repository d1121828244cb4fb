//! Errors of the client.

use jobhall_protocol::{Code, Problem};
use serde::Deserialize;
use thiserror::Error;

use crate::http::trust;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// No server answered at the address.
    #[error("no server answers at {url}: {why}")]
    Unreachable {
        /// The address that was tried.
        url: String,
        /// The error of the network.
        why: String,
    },
    /// The certificate of the server is not trusted.
    #[error("the certificate of {url} is not trusted: {why}")]
    Untrusted {
        /// The address that was tried.
        url: String,
        /// What is wrong with the certificate.
        why: String,
    },
    /// The trusted certificates could not be loaded.
    #[error("{0}")]
    Trust(String),
    /// The server refused the request.
    #[error(transparent)]
    Problem(Problem),
    /// The reply did not come from a Jobhall server.
    #[error("the reply did not come from a Jobhall server: {0}")]
    Protocol(String),
}

impl ClientError {
    /// The code of a problem, if the server returned one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            ClientError::Problem(problem) => Some(problem.code),
            _ => None,
        }
    }

    /// The error for a refused session request. The body may be truncated.
    pub(crate) fn from_upgrade(status: u16, body: &[u8]) -> ClientError {
        match (ClientError::from_answer(status, body), code_of(status)) {
            (ClientError::Protocol(_), Some(code)) if status < 500 => {
                ClientError::refused(code, format!("the server opened no session: status {status}"))
            }
            (error, _) => error,
        }
    }

    /// A refusal in a session, as the problem that a request would have received.
    pub(crate) fn refused(code: Code, detail: String) -> ClientError {
        let (title, status, request_id) = (detail.clone(), 409, String::new());
        ClientError::Problem(Problem {
            kind: "about:blank".to_owned(),
            title,
            status,
            detail,
            code,
            request_id,
            query: None,
        })
    }

    /// Whether a retry may succeed soon: no server answers, or the server is stopping, overloaded or without a leader.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        let passes = |code| matches!(code, Code::Unavailable | Code::NoLeader | Code::OutcomeUnknown);
        matches!(self, ClientError::Unreachable { .. }) || self.code().is_some_and(passes)
    }

    /// An error of the transport: the request may or may not have arrived.
    pub(crate) fn transport(url: &str, error: &reqwest::Error) -> ClientError {
        ClientError::of_way(url, error, deepest(error))
    }

    /// An error of the connection to the server; the cause may be the certificate.
    pub(crate) fn of_way(url: &str, error: &(dyn std::error::Error + 'static), why: String) -> ClientError {
        let url = url.to_owned();
        match trust::distrust(error) {
            Some(why) => ClientError::Untrusted { url, why },
            None if trust::no_tls_there(error) => {
                ClientError::Unreachable { url, why: "the server there does not speak TLS".to_owned() }
            }
            None => ClientError::Unreachable { url, why },
        }
    }

    /// The problem in a response with this status.
    pub(crate) fn from_answer(status: u16, body: &[u8]) -> ClientError {
        if let Ok(problem) = serde_json::from_slice::<Problem>(body) {
            return ClientError::Problem(problem);
        }
        match (serde_json::from_slice::<Loose>(body), code_of(status)) {
            (Ok(loose), Some(code)) => ClientError::Problem(loose.with(status, code)),
            _ => ClientError::Protocol(format!("status {status}{}", excerpt(body))),
        }
    }
}

/// A problem with a code that this version of the client does not know.
#[derive(Deserialize)]
struct Loose {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    title: String,
    detail: String,
    #[serde(default)]
    request_id: String,
}

impl Loose {
    fn with(self, status: u16, code: Code) -> Problem {
        let Loose { kind, title, detail, request_id } = self;
        Problem { kind, title, status, detail, code, request_id, query: None }
    }
}

/// The closest known code for a status.
fn code_of(status: u16) -> Option<Code> {
    Some(match status {
        401 => Code::Unauthorized,
        403 => Code::Forbidden,
        404 | 410 => Code::NotFound,
        405 => Code::MethodNotAllowed,
        412 => Code::PreconditionFailed,
        409 | 428 => Code::Conflict,
        413 => Code::TooLarge,
        429 => Code::TooManyRequests,
        503 => Code::Unavailable,
        507 => Code::StorageFull,
        400..=499 => Code::BadRequest,
        500..=599 => Code::Internal,
        _ => return None,
    })
}

/// The innermost cause: outer ones only repeat that a request failed.
fn deepest(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The beginning of a body, for a message.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { String::new() } else { format!(": {line}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_keeps_its_code_and_words() {
        let body = br#"{"type":"x","title":"t","status":409,"detail":"job 7 has the key","code":"key_held"}"#;
        let error = ClientError::from_answer(409, body);
        assert_eq!(error.code(), Some(Code::KeyHeld));
        assert_eq!(error.to_string(), "job 7 has the key");
    }

    #[test]
    fn a_code_from_the_future_falls_back_to_the_status() {
        let body = br#"{"type":"x","title":"t","status":404,"detail":"gone","code":"expired_by_retention"}"#;
        assert_eq!(ClientError::from_answer(404, body).code(), Some(Code::NotFound));
    }

    #[test]
    fn a_page_of_a_proxy_is_no_problem_of_a_hall() {
        let error = ClientError::from_answer(502, b"<html>\n bad gateway </html>");
        assert_eq!(
            error,
            ClientError::Protocol("status 502: <html> bad gateway </html>".to_owned()),
            "{error}"
        );
        assert_eq!(ClientError::from_answer(502, b""), ClientError::Protocol("status 502".to_owned()));
    }
}
