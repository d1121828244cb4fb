//! One response per connection, in order; then connections are refused.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server with these responses; an empty one breaks the connection.
    pub async fn start(answers: Vec<String>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the network of this machine");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let task = tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.expect("the network of this machine");
                let request = read(&mut stream).await;
                seen.lock().expect("no panic").push(request);
                stream.write_all(answer.as_bytes()).await.expect("the network of this machine");
                let _ = stream.shutdown().await;
            }
        });
        Server { address, requests, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests, oldest first.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(stream: &mut TcpStream) -> String {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).await.expect("the network of this machine");
        request.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().expect("a length")) {
                return text;
            }
        }
        assert!(count > 0, "half a request: {text}");
    }
}

/// A response with a status and a body.
pub fn answer(status: u16, body: &str) -> String {
    answer_with(status, &[("content-type", "application/json")], body)
}

/// A response with headers, whose body ends with the connection.
pub fn answer_with(status: u16, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("HTTP/1.1 {status} said\r\nconnection: close\r\n");
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    format!("{text}\r\n{body}")
}
