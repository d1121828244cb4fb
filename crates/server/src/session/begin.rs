//! The handshake of a session: the server reads a hello in the first frame and answers it.

use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket, close_code};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_engine::Session;
use jobhall_protocol::{
    Encoding, Hello, SESSION_FEATURES, SESSION_VERSION, ToServer, ToWorker, Welcome, Word, read_frame,
};

use super::Caller;
use super::end::End;
use super::outlet::Outlet;
use super::present::{Given, Present};
use crate::app::App;
use crate::error::ApiError;

/// Maximum number of attempts in a hello.
const BROUGHT: usize = 10_000;

/// A session that has begun.
pub(super) struct Begun {
    pub session: Session,
    pub present: Arc<Present>,
    /// Messages after the hello in the first frame.
    pub rest: Vec<ToServer>,
    /// Features that both sides support.
    pub features: Vec<String>,
}

/// Reads the first frame and answers it.
pub(super) async fn begin(
    app: &App,
    caller: &Caller,
    outlet: &mut Outlet,
    stream: &mut SplitStream<WebSocket>,
) -> Result<Begun, End> {
    let mut messages = next_frame(caller.encoding, stream).await?.into_iter();
    let Some(ToServer::Hello(hello)) = messages.next() else {
        return Err(End::Wrong(close_code::PROTOCOL, "the first message must be hello".to_owned()));
    };
    match open(app, caller, hello).await {
        Ok((begun, welcome)) => {
            outlet.push(&ToWorker::Welcome(welcome)).await?;
            outlet.flush().await?;
            Ok(Begun { rest: messages.collect(), ..begun })
        }
        Err(trouble) => {
            if let Some(inside) = trouble.inside() {
                tracing::error!(worker = %caller.worker, "{inside}");
            }
            let (code, detail) = trouble.words();
            let refused =
                ToWorker::Refused { to: Word::Hello, attempt: None, code, detail: detail.to_owned() };
            outlet.push(&refused).await?;
            outlet.flush().await?;
            Err(End::Refused(detail.to_owned()))
        }
    }
}

/// The next frame of messages.
pub(super) async fn next_frame(
    encoding: Encoding,
    stream: &mut SplitStream<WebSocket>,
) -> Result<Vec<ToServer>, End> {
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Err(End::of_socket(error)),
            None => return Err(End::Gone),
        };
        let frame = match (&message, encoding) {
            (Message::Text(text), Encoding::Json) => read_frame(encoding, text.as_bytes()),
            (Message::Binary(bytes), Encoding::MessagePack) => read_frame(encoding, bytes),
            (Message::Ping(_) | Message::Pong(_), _) => continue,
            (Message::Close(_), _) => return Err(End::Gone),
            (Message::Text(_) | Message::Binary(_), _) => {
                let reason =
                    format!("subprotocol {} does not use this kind of frame", encoding.subprotocol());
                return Err(End::Wrong(close_code::UNSUPPORTED, reason));
            }
        };
        return frame.map_err(|error| End::of_frame(&error));
    }
}

async fn open(app: &App, caller: &Caller, hello: Hello) -> Result<(Begun, Welcome), ApiError> {
    if hello.version != SESSION_VERSION {
        let given = hello.version;
        return Err(ApiError::bad(format!("this server supports version {SESSION_VERSION}, not {given}")));
    }
    if hello.attempts.len() > BROUGHT {
        let given = hello.attempts.len();
        return Err(ApiError::bad(format!("attempts: {given} given, the limit is {BROUGHT}")));
    }
    let named = |field: &str, error: &dyn ToString| ApiError::bad(format!("{field}: {}", error.to_string()));
    let abilities = Abilities::parse(&hello.abilities).map_err(|error| named("abilities", &error))?;
    let accepts = Accepts::parse(&hello.accepts).map_err(|error| named("accepts", &error))?;
    let accepts = caller.who.takes(accepts);
    let known = |name: &&&str| hello.features.iter().any(|asked| asked == **name);
    let features: Vec<_> = SESSION_FEATURES.iter().filter(known).map(ToString::to_string).collect();
    let present = Present::new(caller.worker.clone(), abilities.to_string());
    let attempts: Vec<_> = hello.attempts.iter().map(|held| (held.attempt, held.lease)).collect();
    let session = app.engine.open_session(caller.worker.clone(), abilities, accepts, attempts).await?;
    for held in hello.attempts.iter().filter(|held| session.kept.contains(&held.attempt)) {
        let given = Given { lease: held.lease, logged: true };
        present.book().attempts.insert(held.attempt, given);
    }
    let welcome = Welcome {
        version: SESSION_VERSION,
        features: features.clone(),
        worker: caller.worker.to_string(),
        lease_ms: app.lease_ms,
        kept: session.kept.clone(),
        lost: session.lost.clone(),
    };
    Ok((Begun { session, present: Arc::new(present), rest: Vec::new(), features }, welcome))
}
