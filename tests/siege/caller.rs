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

    /// Sends a request with a body of this length, of which this much is sent. The response is not read.
    pub fn begin(&self, method: &str, path: &str, lease: &str, length: usize, body: &[u8]) -> Raw {
        let mut raw = Raw::open(self.address);
        let lease = if lease.is_empty() { String::new() } else { format!("Jobhall-Lease: {lease}\r\n") };
        raw.say(format!(
            "{method} /api/v1/{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             {lease}Content-Length: {length}\r\n\r\n",
            self.address, self.token
        ));
        raw.say(body);
        raw
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
