//! Reasons for the end of a session, and the close frame that the worker receives.

use axum::extract::ws::{CloseFrame, close_code};
use jobhall_protocol::{FRAME_BYTES, FrameError};
use tokio_tungstenite::tungstenite::Error;

/// Maximum size of the reason in a close frame.
const REASON_BYTES: usize = 123;

/// Why a session is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The connection is lost, or the worker closed it.
    Gone,
    /// The worker does not read in time.
    Slow,
    /// The worker sent leave.
    Left,
    /// No hello was received in time.
    NoHello,
    /// An invalid frame, or a message that is not allowed now.
    Wrong(u16, String),
    Refused(String),
    /// The session was not renewed in time.
    Expired,
    /// The token is no longer valid.
    TokenRevoked,
    Drained,
    /// The engine has stopped, or an internal error occurred.
    Broken,
}

impl End {
    /// A frame that cannot be read.
    pub(super) fn of_frame(error: &FrameError) -> End {
        let code = match error {
            FrameError::Bytes(_) | FrameError::Messages(_) => close_code::SIZE,
            FrameError::Wrong(_) => close_code::INVALID,
        };
        End::Wrong(code, error.to_string())
    }

    /// An error of the connection.
    pub(super) fn of_socket(error: axum::Error) -> End {
        match error.into_inner().downcast_ref::<Error>() {
            Some(Error::Capacity(_)) => {
                End::Wrong(close_code::SIZE, format!("more than {FRAME_BYTES} bytes in one frame"))
            }
            Some(Error::Utf8(_)) => End::Wrong(close_code::INVALID, "the text frame is not UTF-8".to_owned()),
            Some(Error::Protocol(error)) => End::Wrong(close_code::PROTOCOL, error.to_string()),
            _ => End::Gone,
        }
    }

    /// The close frame for the worker; none if it cannot receive one.
    pub(super) fn close(&self) -> Option<CloseFrame> {
        let (code, reason) = match self {
            End::Gone | End::Slow => return None,
            End::Left => (close_code::NORMAL, "the worker left"),
            End::NoHello => (close_code::POLICY, "no hello was received in time"),
            End::Wrong(code, reason) => (*code, reason.as_str()),
            End::Refused(reason) => (close_code::POLICY, reason.as_str()),
            End::Expired => (close_code::POLICY, "the session was not renewed in time"),
            End::TokenRevoked => (close_code::POLICY, "the token is no longer valid"),
            End::Drained => (close_code::AWAY, "the server is stopping"),
            End::Broken => (close_code::ERROR, "internal server error"),
        };
        Some(CloseFrame { code, reason: shortened(reason, REASON_BYTES).into() })
    }
}

/// The prefix of a text with at most this many bytes.
pub(super) fn shortened(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(shortened("short", REASON_BYTES), "short");
        let long = "é".repeat(100);
        assert_eq!(shortened(&long, REASON_BYTES), "é".repeat(61));
    }
}
