//! A server for comparison: an empty route, an empty JSON route, an echo of posted data, and an echo over a WebSocket.

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::{any, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::Failed;

/// Serves until it is killed.
pub async fn serve() -> Result<(), Failed> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let routes = Router::new()
        .route("/nothing", get(|| async {}))
        .route("/empty", get(|| async { Json::<Value>(json!({})) }))
        .route("/echo", post(|body: Bytes| async { body }))
        .route("/ws", any(|upgrade: WebSocketUpgrade| async { upgraded(upgrade) }));
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream: &mut tokio::net::TcpStream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, routes).await?)
}

fn upgraded(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(echo)
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Close(_)) || socket.send(message).await.is_err() {
            return;
        }
    }
}
