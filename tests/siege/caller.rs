//! A client that sends requests by hand, each on its own connection.

use std::net::SocketAddr;

use jobhall_tests::{Answer, Raw, Rig};
use serde_json::Value;

#[derive(Clone)]
pub struct Caller {
    address: SocketAddr,
    token: String,
}

impl Caller {
    /// A caller with a new token of this role, for this queue.
    pub fn new(rig: &Rig, name: &str, role: &str, queue: &str) -> Caller {
        let made = rig.json(&["token", "create", name, "--role", role, "--queue", queue, "--json"]);
        Caller { address: rig.address(), token: made["secret"].as_str().unwrap().to_owned() }
    }

    /// The administrator.
    pub fn admin(rig: &Rig) -> Caller {
        Caller { address: rig.address(), token: rig.token() }
    }

    /// A caller with another token.
    pub fn with(&self, token: &str) -> Caller {
        Caller { address: self.address, token: token.to_owned() }
    }

    /// Sends a request with a body of this length, of which this much is sent. The response is not read.
    pub fn begin(&self, method: &str, path: &str, lease: &str, length: usize, body: &[u8]) -> Raw {
        let lease = if lease.is_empty() { String::new() } else { format!("Jobhall-Lease: {lease}\r\n") };
        let headers = format!("Connection: close\r\n{lease}Content-Length: {length}\r\n");
        let mut raw = self.request(method, path, &headers);
        raw.say(body);
        raw
    }

    /// Sends the head of a request.
    fn request(&self, method: &str, path: &str, headers: &str) -> Raw {
        let mut raw = Raw::open(self.address);
        raw.say(format!(
            "{method} /api/v1/{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{headers}\r\n",
            self.address, self.token
        ));
        raw
    }

    /// The first byte of an artifact.
    pub fn first_byte(&self, path: &str) -> Answer {
        self.request("GET", path, "Connection: close\r\nRange: bytes=0-0\r\n").answer()
    }

    /// Requests a session, to which nothing is sent.
    pub fn session(&self) -> Raw {
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        self.request("GET", "session", upgrade)
    }

    pub fn send(&self, method: &str, path: &str, lease: &str, body: &[u8]) -> Answer {
        self.begin(method, path, lease, body.len(), body).answer()
    }

    /// The JSON body of a successful response.
    pub fn ask(&self, method: &str, path: &str, lease: &str, body: &str) -> Value {
        let answer = self.send(method, path, lease, body.as_bytes());
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap_or(Value::Null)
    }

    /// The next attempt.
    pub fn take(&self) -> Value {
        let taken = self.ask("POST", "vacancies", "", r#"{"slots":1,"wait_s":30}"#);
        taken["attempts"][0].clone()
    }
}
