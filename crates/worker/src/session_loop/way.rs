//! The state of the connection to the server, and its next event.

use std::pin::Pin;

use jobhall_client::{ClientError, Session};
use jobhall_protocol::ToWorker;
use tokio::time::{Instant, sleep_until};

use crate::session_loop::link::Link;

type Connecting = Pin<Box<dyn Future<Output = Result<Session, ClientError>> + Send>>;

/// The state of the connection to the server.
pub(super) enum Way {
    /// Disconnected until this time.
    Away(Instant),
    /// The server has refused this worker, which ends.
    Over,
    /// Connecting; the earliest time at which the hello was sent.
    Opening(Connecting, Instant),
    Open(Box<Link>),
}

/// Events of the connection.
pub(super) enum News {
    /// It is time to connect.
    Try,
    /// The response to a hello that was sent at this time.
    Answer(Result<Session, ClientError>, Instant),
    /// Messages of the server.
    Frame(Result<Vec<ToWorker>, ClientError>),
}

impl Way {
    /// The next event. Nothing is lost when the returned future is dropped.
    pub async fn next(&mut self) -> News {
        match self {
            Way::Away(until) => {
                sleep_until(*until).await;
                News::Try
            }
            Way::Over => std::future::pending().await,
            Way::Opening(connecting, since) => News::Answer(connecting.await, *since),
            Way::Open(link) => News::Frame(link.next().await),
        }
    }
}
