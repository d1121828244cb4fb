//! Sessions: one WebSocket per worker, with frames of many messages in both directions.
//!
//! ```text
//!   socket ─▶ Reader: frame ─▶ requests ─▶ engine (in order, several frames in progress)
//!                │                             │ answers        │ assignments, cancels, revocations
//!                └──▶ what they are answers to ▼                ▼
//!   socket ◀── Outlet: one frame, one flush ◀── Writer: everything that is ready
//! ```
//!
//! All buffers are bounded: frames have a size limit, the reader pauses while too many frames are unanswered, and a
//! worker that does not read is disconnected. Its engine session is then disconnected too; its leases remain until
//! they expire or the worker reconnects and names them.
//!
//! A peer that vanishes is detected within one lease (30 s): without a renewal the engine ends the session. Pings keep
//! the connection open through proxies and firewalls.

mod begin;
mod end;
mod frame;
mod outlet;
mod present;
mod reader;
mod words;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use jobhall_core::WorkerName;
use jobhall_engine::SessionId;
use jobhall_protocol::{Encoding, FEATURE_MOVED};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::auth::tokens::{Identity, TokenShare};
use crate::server::app::App;

pub(crate) use present::Sessions;
use present::{HeldName, Present};

use end::End;
use outlet::Outlet;
use reader::Reader;
use writer::Writer;

/// Maximum number of unanswered frames; the reader then waits.
const UNDER_WAY: usize = 16;
/// Time limit for a worker to receive a frame, to send hello, and to answer a close.
const PATIENCE_MS: u64 = 10_000;
/// How long the server reads after a close, so that the worker receives the close reason.
const LINGER: Duration = Duration::from_secs(2);

/// The worker that opens a session.
pub(crate) struct Caller {
    pub worker: WorkerName,
    pub who: Identity,
    pub token: String,
    pub encoding: Encoding,
}

/// The place of a session among all, and among those of its token.
type Place = (OwnedSemaphorePermit, TokenShare);

/// Serves one worker until either side ends the session.
pub(crate) async fn serve(app: Arc<App>, caller: Caller, socket: WebSocket, _place: Place) {
    let (sink, mut stream) = socket.split();
    let patience = Duration::from_millis(app.lease_ms.min(PATIENCE_MS));
    let mut outlet = Outlet::new(sink, caller.encoding, patience);
    let end = speak(&app, &caller, &mut outlet, &mut stream, patience).await;
    tracing::debug!(worker = %caller.worker, ?end, "session ended");
    if outlet.close(&end).await {
        let rest = async {
            while let Some(Ok(message)) = stream.next().await
                && !is_close(&message)
            {}
        };
        let _ = tokio::time::timeout(LINGER, rest).await;
    }
}

fn is_close(message: &Message) -> bool {
    matches!(message, Message::Close(_))
}

async fn speak(
    app: &Arc<App>,
    caller: &Caller,
    outlet: &mut Outlet,
    stream: &mut SplitStream<WebSocket>,
    patience: Duration,
) -> End {
    let begun = tokio::time::timeout(patience, begin::begin(app, caller, outlet, stream));
    let begun = match begun.await.unwrap_or(Err(End::NoHello)) {
        Ok(begun) => begun,
        Err(end) => return end,
    };
    let begin::Begun { session, present, rest, features, guard, name } = begun;
    let (to_writer, told) = mpsc::channel(UNDER_WAY);
    let all = features.iter().any(|feature| feature == FEATURE_MOVED);
    let mut reader = Reader::new(app, caller, session.id(), &present, to_writer, all);
    let mut writer = Writer::new(app, caller, session, &present, told, all);
    let end = tokio::select! {
        end = reader.run(rest, stream) => end,
        end = writer.run(outlet) => end,
    };
    // A session that began while its token was being revoked ends with it.
    if end == End::TokenRevoked {
        let _ = app.engine.end_worker(caller.worker.clone()).await;
    }
    drop(guard.holding(name));
    end
}

/// Removes a session from the list and disconnects it when dropped.
struct Guard {
    app: Arc<App>,
    session: SessionId,
    /// The name of the worker. It is released when the engine knows that the session is disconnected: the next process
    /// may end the sessions without a connection.
    name: Option<HeldName>,
}

impl Guard {
    fn enter(app: &Arc<App>, session: SessionId, present: Arc<Present>) -> Guard {
        app.sessions.enter(session, present);
        Guard { app: app.clone(), session, name: None }
    }

    /// The same, which holds the name of the worker until the session is disconnected.
    fn holding(mut self, name: Option<HeldName>) -> Guard {
        self.name = name;
        self
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.app.sessions.leave(self.session);
        // Without a runtime the process is exiting, and sessions end with it.
        if let Ok(runtime) = Handle::try_current() {
            let (engine, session, name) = (self.app.engine.clone(), self.session, self.name.take());
            runtime.spawn(async move {
                let _ = engine.disconnect(session).await;
                drop(name);
            });
        }
    }
}
