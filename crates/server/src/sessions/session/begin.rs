//! The handshake of a session: the server reads a hello in the first frame and answers it.

use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket, close_code};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_engine::{Opening, Session, WorkerChange};
use jobhall_protocol::{
    Code, Encoding, FEATURE_FINISH, Hello, SESSION_FEATURES, SESSION_VERSION, ToServer, ToWorker, Welcome,
    Word,
};

use super::end::End;
use super::frame::{self, Frame};
use super::outlet::Outlet;
use super::present::{Given, HeldName, Present};
use super::{Caller, Guard};
use crate::auth::tokens::Identity;
use crate::error::ApiError;
use crate::server::app::App;

/// Maximum number of attempts in a hello.
const BROUGHT: usize = 10_000;
/// Maximum length of the name of a process.
const INSTANCE_BYTES: usize = 100;

/// A session that has begun.
pub(super) struct Begun {
    pub session: Session,
    pub present: Arc<Present>,
    /// Messages after the hello in the first frame.
    pub rest: Frame,
    /// Features that both sides support.
    pub features: Vec<String>,
    pub guard: Guard,
    /// The name of the worker, held until the session ends.
    pub name: Option<HeldName>,
}

/// Reads the first frame and answers it.
pub(super) async fn begin(
    app: &Arc<App>,
    caller: &Caller,
    outlet: &mut Outlet,
    stream: &mut SplitStream<WebSocket>,
) -> Result<Begun, End> {
    let mut messages = next_frame(caller.encoding, stream).await?.into_iter();
    let Some(Ok(ToServer::Hello(hello))) = messages.next() else {
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
) -> Result<Frame, End> {
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Err(End::of_socket(error)),
            None => return Err(End::Gone),
        };
        let frame = match (&message, encoding) {
            (Message::Text(text), Encoding::Json) => frame::read(encoding, text.as_bytes()),
            (Message::Binary(bytes), Encoding::MessagePack) => frame::read(encoding, bytes),
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

async fn open(app: &Arc<App>, caller: &Caller, hello: Hello) -> Result<(Begun, Welcome), ApiError> {
    if hello.version != SESSION_VERSION {
        let given = hello.version;
        return Err(ApiError::bad(format!("this server supports version {SESSION_VERSION}, not {given}")));
    }
    if hello.attempts.len() > BROUGHT {
        let given = hello.attempts.len();
        return Err(ApiError::bad(format!("attempts: {given} given, the limit is {BROUGHT}")));
    }
    if let Some(given) = hello.worker.as_deref().filter(|given| *given != caller.worker.as_str()) {
        let detail = format!("worker: the token is of worker {}, not of {given:?}", caller.worker);
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    let (abilities, accepts) = offered(&caller.who, &hello.abilities, &hello.accepts)?;
    let known = |name: &&&str| hello.features.iter().any(|asked| asked == **name);
    let features: Vec<_> = SESSION_FEATURES.iter().filter(known).map(ToString::to_string).collect();
    let name = match &hello.instance {
        Some(instance) => Some(app.sessions.hold_name(&caller.worker, bounded(instance)?)?),
        None => None,
    };
    let finishes = features.iter().any(|feature| feature == FEATURE_FINISH);
    let process = hello.instance.clone().filter(|_| finishes);
    let present = Present::new(caller.worker.clone(), abilities.to_string(), process);
    let attempts: Vec<_> = hello.attempts.iter().map(|held| (held.attempt, held.lease)).collect();
    let (worker, lease_ms, fresh) = (caller.worker.clone(), hello.lease_ms, hello.fresh);
    let opening = Opening { worker, abilities, accepts, attempts, lease_ms, fresh };
    if fresh {
        app.poll_sessions.end_held(&caller.worker).await;
    }
    let session = app.engine.open(opening).await?;
    for held in hello.attempts.iter().filter(|held| session.kept.contains(&held.attempt)) {
        let given = Given { lease: held.lease, logged: true, noted: true };
        present.book().attempts.insert(held.attempt, given);
    }
    let welcome = Welcome {
        version: SESSION_VERSION,
        features: features.clone(),
        worker: caller.worker.to_string(),
        lease_ms: session.lease_ms,
        kept: session.kept.clone(),
        lost: session.lost.clone(),
    };
    let present = Arc::new(present);
    // Before the welcome, so that a worker that has it is in the list of workers.
    let guard = Guard::enter(app, session.id(), present.clone());
    drain_again(app, &present).await?;
    Ok((Begun { session, present, rest: Vec::new(), features, guard, name }, welcome))
}

/// What a worker offers, within what its token reaches.
pub(super) fn offered(
    who: &Identity,
    abilities: &str,
    accepts: &str,
) -> Result<(Abilities, Accepts), ApiError> {
    let named = |field: &str, error: &dyn ToString| ApiError::bad(format!("{field}: {}", error.to_string()));
    let abilities = Abilities::parse(abilities).map_err(|error| named("abilities", &error))?;
    let accepts = Accepts::parse(accepts).map_err(|error| named("accepts", &error))?;
    Ok((abilities, who.takes(accepts)))
}

/// The worker may be draining: its process learns it again after a lost connection; another process is not concerned.
/// The session is in the list already, so a drain that begins now is not missed.
async fn drain_again(app: &App, present: &Present) -> Result<(), ApiError> {
    let worker = &present.worker;
    let configs = app.engine.worker_configs(Some(worker.clone())).await?;
    let Some(drained) = configs.into_iter().find_map(|(_, config)| config.draining) else { return Ok(()) };
    if present.process.as_ref() == Some(&drained) {
        present.finish.notify_one();
    } else {
        app.engine.change_worker(worker.clone(), WorkerChange::Drained(drained)).await?;
    }
    Ok(())
}

fn bounded(instance: &str) -> Result<&str, ApiError> {
    if (1..=INSTANCE_BYTES).contains(&instance.len()) {
        return Ok(instance);
    }
    Err(ApiError::bad(format!("instance: {} bytes, the limit is 1 to {INSTANCE_BYTES}", instance.len())))
}
