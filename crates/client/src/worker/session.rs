//! A worker's session: one WebSocket, with frames of several messages in both directions.
//!
//! ```no_run
//! # use jobhall_client::{Client, ClientError};
//! # use jobhall_protocol::{Hello, Outcome, OutcomeReport, ToServer, ToWorker};
//! # async fn example(client: Client) -> Result<(), ClientError> {
//! let mut session = client.session(Hello::default()).await?;
//! session.send(&[ToServer::Credit { total: 1 }]).await?;
//! for message in session.next().await? {
//!     if let ToWorker::Assign { attempt, lease, .. } = message {
//!         let report = OutcomeReport { outcome: Outcome::Succeeded, value: None, error: None, retry: None, params: None };
//!         session.send(&[ToServer::Outcome { attempt, lease, report }, ToServer::Credit { total: 2 }]).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt::Debug;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use jobhall_protocol::{
    Encoding, FRAME_BYTES, FRAME_READ_BYTES, FrameError, FrameWriter, Hello, ToServer, ToWorker,
    WORKER_HEADER, Welcome, read_frame,
};
use reqwest::{Method, Url};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::handshake::client::{Request, generate_key};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::error::ClientError;
use crate::http::call::{CONNECT, Client};
use crate::http::places::Place;

/// The time limit for the reply to a request for a session, and then to a hello.
const ANSWER: Duration = Duration::from_secs(10);

/// A connection to the server, plain or encrypted.
trait Way: AsyncRead + AsyncWrite + Unpin + Send + Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Debug> Way for T {}

type Socket = WebSocketStream<Box<dyn Way>>;

/// An open session.
#[derive(Debug)]
pub struct Session {
    /// The server's reply to the hello.
    pub welcome: Welcome,
    sender: SessionSender,
    receiver: SessionReceiver,
}

/// The sending half.
#[derive(Debug)]
pub struct SessionSender {
    sink: SplitSink<Socket, Message>,
    frame: FrameWriter,
    encoding: Encoding,
    url: String,
}

/// The receiving half.
#[derive(Debug)]
pub struct SessionReceiver {
    stream: SplitStream<Socket>,
    encoding: Encoding,
    url: String,
}

impl Client {
    /// Opens a session, in MessagePack.
    ///
    /// # Errors
    /// The server cannot be reached, or refused the hello.
    pub async fn session(&self, hello: Hello) -> Result<Session, ClientError> {
        self.session_in(Encoding::MessagePack, hello).await
    }

    /// Opens a session in this encoding.
    ///
    /// # Errors
    /// As [`Client::session`].
    pub async fn session_in(&self, encoding: Encoding, hello: Hello) -> Result<Session, ClientError> {
        // If there are other nodes, the time limit for a node is shorter.
        let patience = if self.places.count() > 1 { CONNECT } else { CONNECT + 2 * ANSWER };
        let place = self.places.now();
        let begun = tokio::time::timeout(patience, self.begin(place, encoding, hello)).await;
        let begun = begun.unwrap_or_else(|_| Err(away(place, "timed out")));
        if begun.as_ref().is_err_and(ClientError::is_transient) {
            self.places.leave(&place);
        }
        begun
    }

    async fn begin(
        &self,
        place: Place<'_>,
        encoding: Encoding,
        hello: Hello,
    ) -> Result<Session, ClientError> {
        let url = place.of(&self.api(Method::GET, &["session"]).url);
        let stream = self.connect(place, &url).await?;
        let request = self.upgrade(&url, encoding)?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(2 * FRAME_BYTES))
            .max_frame_size(Some(2 * FRAME_BYTES))
            .read_buffer_size(FRAME_READ_BYTES);
        let (socket, _) = client_async_with_config(request, stream, Some(config))
            .await
            .map_err(|error| failed(place, &error))?;
        let (sink, stream) = socket.split();
        let (frame, url) = (FrameWriter::new(encoding), place.name().to_owned());
        let mut sender = SessionSender { sink, frame, encoding, url: url.clone() };
        let mut receiver = SessionReceiver { stream, encoding, url };
        sender.send(&[ToServer::Hello(hello)]).await?;
        match receiver.next().await?.into_iter().next() {
            Some(ToWorker::Welcome(welcome)) => Ok(Session { welcome, sender, receiver }),
            Some(ToWorker::Refused { code, detail, .. }) => Err(ClientError::refused(code, detail)),
            other => Err(ClientError::Protocol(format!("unexpected reply to hello: {other:?}"))),
        }
    }

    /// Opens the connection to the server, plain or encrypted.
    async fn connect(&self, place: Place<'_>, url: &Url) -> Result<Box<dyn Way>, ClientError> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = url.port_or_known_default().unwrap_or(80);
        let encrypted = url.scheme() == "https";
        let stream = tokio::time::timeout(CONNECT, TcpStream::connect((host, port)));
        let stream = stream.await.map_err(|_| away(place, "timed out"))?;
        let stream = stream.map_err(|error| away(place, &error.to_string()))?;
        // Frames are flushed when they are whole; waiting for more would only delay them.
        let _ = stream.set_nodelay(true);
        if !encrypted {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|error| away(place, &error.to_string()))?;
        let shaken = TlsConnector::from(self.tls()).connect(name, stream).await;
        Ok(Box::new(shaken.map_err(|error| ClientError::of_way(place.name(), &error, error.to_string()))?))
    }

    fn upgrade(&self, url: &Url, encoding: Encoding) -> Result<Request, ClientError> {
        let host = match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let path = url.as_str().trim_start_matches("http");
        let mut request = Request::builder()
            .uri(format!("ws{path}"))
            .header("host", host)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", generate_key())
            .header("sec-websocket-protocol", encoding.subprotocol());
        if let Some(authorization) = self.authorization() {
            request = request.header("authorization", authorization);
        }
        if let Some(worker) = self.worker() {
            request = request.header(WORKER_HEADER, worker);
        }
        request.body(()).map_err(|error| ClientError::Protocol(error.to_string()))
    }
}

fn away(place: Place<'_>, why: &str) -> ClientError {
    ClientError::Unreachable { url: place.name().to_owned(), why: why.to_owned() }
}

fn failed(place: Place<'_>, error: &Error) -> ClientError {
    match error {
        Error::Http(response) => {
            let (status, body) = (response.status().as_u16(), response.body().as_deref());
            ClientError::from_upgrade(status, body.unwrap_or_default())
        }
        other => away(place, &other.to_string()),
    }
}

impl Session {
    /// Sends messages, in as few frames as possible, with one flush.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn send(&mut self, messages: &[ToServer]) -> Result<(), ClientError> {
        self.sender.send(messages).await
    }

    /// Waits for the next frame. Nothing is lost when the returned future is dropped.
    ///
    /// # Errors
    /// The session has ended; the error has the reason.
    pub async fn next(&mut self) -> Result<Vec<ToWorker>, ClientError> {
        self.receiver.next().await
    }

    /// Splits into a sending and a receiving half. The server closes a session whose client never receives.
    #[must_use]
    pub fn split(self) -> (SessionSender, SessionReceiver) {
        (self.sender, self.receiver)
    }

    /// Leaves permanently: the attempts it still has are lost immediately.
    pub async fn leave(mut self) {
        // Whether the message arrives does not matter: the session expires.
        let _ = self.sender.send(&[ToServer::Leave {}]).await;
        let rest = async { while self.receiver.next().await.is_ok() {} };
        let _ = tokio::time::timeout(ANSWER, rest).await;
    }
}

impl SessionSender {
    /// As [`Session::send`].
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn send(&mut self, messages: &[ToServer]) -> Result<(), ClientError> {
        for message in messages {
            if !self.push(message)? {
                self.feed().await?;
                self.push(message)?;
            }
        }
        self.feed().await?;
        self.sink.flush().await.map_err(|error| gone(&self.url, &error))
    }

    /// If one message cannot be encoded, no earlier one is sent either, so that a batch is never sent in part.
    fn push(&mut self, message: &ToServer) -> Result<bool, ClientError> {
        self.frame.push(message).map_err(|error| {
            self.frame.take();
            wrong(&error)
        })
    }

    async fn feed(&mut self) -> Result<(), ClientError> {
        let Some(bytes) = self.frame.take() else { return Ok(()) };
        let message = match self.encoding {
            Encoding::MessagePack => Message::Binary(bytes.into()),
            Encoding::Json => {
                let text = String::from_utf8(bytes).map_err(|error| ClientError::Protocol(error.to_string()));
                Message::Text(text?.into())
            }
        };
        self.sink.feed(message).await.map_err(|error| gone(&self.url, &error))
    }
}

impl SessionReceiver {
    /// As [`Session::next`].
    ///
    /// # Errors
    /// The session has ended; the error has the reason.
    pub async fn next(&mut self) -> Result<Vec<ToWorker>, ClientError> {
        loop {
            let bytes = match self.stream.next().await {
                Some(Ok(Message::Binary(bytes))) => bytes,
                Some(Ok(Message::Text(text))) => text.into(),
                Some(Ok(Message::Close(Some(close)))) => {
                    let why = format!("the session was closed: {} ({})", close.reason, u16::from(close.code));
                    return Err(ClientError::Unreachable { url: self.url.clone(), why });
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(gone(&self.url, &error)),
                None => return Err(gone(&self.url, &Error::ConnectionClosed)),
            };
            return read_frame(self.encoding, &bytes).map_err(|error| wrong(&error));
        }
    }
}

fn gone(url: &str, error: &Error) -> ClientError {
    ClientError::Unreachable { url: url.to_owned(), why: error.to_string() }
}

fn wrong(error: &FrameError) -> ClientError {
    ClientError::Protocol(error.to_string())
}
