//! The entry to a session: checks before a request is upgraded to a WebSocket.

use std::sync::Arc;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use jobhall_protocol::{Encoding, FRAME_BYTES, FRAME_READ_BYTES};

use crate::auth;
use crate::auth::tokens::Identity;
use crate::error::{Answer, ApiError};
use crate::request::params;
use crate::server::app::App;
use crate::sessions::session::{self, Caller};

pub(super) async fn session(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer {
    let token = auth::token(&headers).unwrap_or_default().to_owned();
    let worker = params::worker(&who)?;
    let upgrade = upgrade
        .map_err(|error| ApiError::bad(format!("this route requires a WebSocket upgrade: {error}")))?;
    let encoding = encoding(&upgrade)?;
    let place = (app.sessions.place()?, app.shares.session(&who)?);
    // A frame slightly over the limit is read, so that the close reason can name the limit.
    let upgrade = upgrade.max_message_size(2 * FRAME_BYTES).max_frame_size(2 * FRAME_BYTES);
    let upgrade = upgrade.read_buffer_size(FRAME_READ_BYTES);
    let caller = Caller { worker, who, token, encoding };
    Ok(upgrade
        .protocols(Encoding::ALL.map(Encoding::subprotocol))
        .on_upgrade(move |socket| session::serve(app, caller, socket, place)))
}

/// The first encoding that both sides support; JSON if the client requests none.
fn encoding(upgrade: &WebSocketUpgrade) -> Result<Encoding, ApiError> {
    let asked: Vec<_> = upgrade.requested_protocols().filter_map(|name| name.to_str().ok()).collect();
    let known = Encoding::ALL.into_iter().find(|encoding| asked.contains(&encoding.subprotocol()));
    match known {
        Some(encoding) => Ok(encoding),
        None if asked.is_empty() => Ok(Encoding::Json),
        None => {
            let names = Encoding::ALL.map(Encoding::subprotocol).join(" and ");
            Err(ApiError::bad(format!(
                "this server supports the subprotocols {names}, not {}",
                asked.join(", ")
            )))
        }
    }
}
