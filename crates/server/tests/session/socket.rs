//! A bare WebSocket, for messages that the real client never sends.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use jobhall_protocol::Encoding;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::client::{Request, generate_key};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::server::TestServer;
use crate::worker::LONG;

pub struct Socket {
    sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    stream: SplitStream<WebSocketStream<TcpStream>>,
}

/// The response to a refused upgrade.
pub struct Rejection {
    pub status: u16,
    pub body: String,
}

impl Socket {
    pub async fn open(hall: &TestServer, headers: &[(&str, &str)]) -> Result<Socket, Rejection> {
        let stream = TcpStream::connect(&hall.address).await.unwrap();
        let mut request = Request::builder()
            .uri(format!("ws://{}/api/v1/session", hall.address))
            .header("host", &hall.address)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", generate_key());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match client_async(request.body(()).unwrap(), stream).await {
            Ok((socket, _)) => {
                let (sink, stream) = socket.split();
                Ok(Socket { sink, stream })
            }
            Err(Error::Http(response)) => {
                let body = response.body().clone().unwrap_or_default();
                let (status, body) =
                    (response.status().as_u16(), String::from_utf8_lossy(&body).into_owned());
                Err(Rejection { status, body })
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Connects as a worker with this subprotocol.
    pub async fn speaking(hall: &TestServer, subprotocol: &str) -> Socket {
        let bearer = format!("Bearer {}", hall.worker);
        let headers = [("authorization", bearer.as_str()), ("sec-websocket-protocol", subprotocol)];
        Socket::open(hall, &headers).await.unwrap_or_else(|refusal| panic!("{}", refusal.body))
    }

    /// Sends a message; ignores whether the server still reads.
    pub async fn send(&mut self, message: Message) {
        let _ = self.sink.send(message).await;
    }

    pub async fn text(&mut self, text: &str) {
        self.send(Message::text(text)).await;
    }

    /// The messages of the next frame.
    pub async fn messages(&mut self, encoding: Encoding) -> Vec<serde_json::Value> {
        loop {
            match tokio::time::timeout(LONG, self.stream.next()).await.expect("a frame").unwrap().unwrap() {
                Message::Text(text) if encoding == Encoding::Json => {
                    return serde_json::from_str(&text).unwrap();
                }
                Message::Binary(bytes) if encoding == Encoding::MessagePack => {
                    return rmp_serde::from_slice(&bytes).unwrap();
                }
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next message of a kind; the others are dropped.
    pub async fn until(&mut self, encoding: Encoding, kind: &str) -> serde_json::Value {
        loop {
            let mut messages = self.messages(encoding).await.into_iter();
            if let Some(found) = messages.find_map(|message| message.get(kind).cloned()) {
                return found;
            }
        }
    }

    /// The next text.
    pub async fn hear(&mut self) -> String {
        loop {
            match tokio::time::timeout(LONG, self.stream.next()).await.expect("a frame").unwrap().unwrap() {
                Message::Text(text) => return text.to_string(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The code and reason of the close frame; skips other messages.
    pub async fn closed(&mut self) -> (u16, String) {
        let closed = async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Close(Some(close)))) => {
                        return (u16::from(close.code), close.reason.to_string());
                    }
                    Some(Ok(_)) => {}
                    other => panic!("no close, but {other:?}"),
                }
            }
        };
        tokio::time::timeout(LONG, closed).await.expect("a close")
    }

    /// Waits until the connection has ended, for at most a minute, and reads nothing meanwhile. Whether it has ended.
    pub async fn until_cut(self) -> bool {
        let mut socket = self.sink.reunite(self.stream).unwrap();
        let gone = async {
            loop {
                // A closed connection cannot be written to.
                if socket
                    .get_mut()
                    .try_write(&[0x8a, 0x80, 0, 0, 0, 0])
                    .is_err_and(|e| e.kind() != std::io::ErrorKind::WouldBlock)
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(2 * LONG, gone).await.is_ok()
    }
}
