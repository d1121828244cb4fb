//! Sessions: one WebSocket per worker, with frames of many messages in both directions.
//!
//! ```text
//!   socket ─▶ Reader: frame ─▶ requests ─▶ engine (in order, several frames under way)
//!                │                             │ answers        │ assignments, cancels, revocations
//!                └──▶ what they are answers to ▼                ▼
//!   socket ◀── Outlet: one frame, one flush ◀── Writer: all that is ready
//! ```
//!
//! Nothing grows without end: a frame has its bounds, a few frames may wait for their answers and then no more are
//! read, and a worker that does not take what it is sent is cut. Then its engine session is disconnected, and its
//! leases live on until they end or it comes back and names them.
//!
//! A peer that is gone without a word is noticed within one lease (30 s): no renewal comes, and the engine ends the
//! session. Pings in between keep the way open through whatever stands on it.

mod begin;
mod end;
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
use jobhall_engine::{Request, SessionId};
use jobhall_protocol::{Encoding, FEATURE_MOVED};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::app::App;
use crate::tokens::Identity;

pub(crate) use present::Sessions;

use end::End;
use outlet::Outlet;
use reader::Reader;
use writer::Writer;

/// Frames whose answers may be due before no more are read.
const UNDER_WAY: usize = 16;
/// The longest time a worker has to take what it is sent, to say hello, and to answer a close.
const PATIENCE_MS: u64 = 10_000;
/// How long what a worker still sends is read after the end, so that it learns why.
const LINGER: Duration = Duration::from_secs(2);

/// Who wants a session.
pub(crate) struct Caller {
    pub worker: WorkerName,
    pub who: Identity,
    pub token: String,
    pub encoding: Encoding,
}

/// Speaks with one worker until either has enough.
pub(crate) async fn serve(app: Arc<App>, caller: Caller, socket: WebSocket, _place: OwnedSemaphorePermit) {
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
    let begin::Begun { session, present, rest, features } = begun;
    let guard = Guard { app: app.clone(), session: session.id() };
    app.sessions.enter(session.id(), present.clone());
    let (to_writer, told) = mpsc::channel(UNDER_WAY);
    let all = features.iter().any(|feature| feature == FEATURE_MOVED);
    let mut reader = Reader::new(app, caller, session.id(), &present, to_writer, all);
    let mut writer = Writer::new(app, caller, session, &present, told, all);
    let end = tokio::select! {
        end = reader.run(rest, stream) => end,
        end = writer.run(outlet) => end,
    };
    drop(guard);
    end
}

/// Takes a session off the list and disconnects it, whichever way it ends.
struct Guard {
    app: Arc<App>,
    session: SessionId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.app.sessions.leave(self.session);
        // Without a runtime the process is ending, and sessions end by themselves.
        if let Ok(runtime) = Handle::try_current() {
            let (engine, session) = (self.app.engine.clone(), self.session);
            runtime.spawn(async move { engine.ask(Request::Disconnect(session)).await });
        }
    }
}
