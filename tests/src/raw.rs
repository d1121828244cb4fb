//! HTTP by hand: any bytes can be sent, and the raw response is read.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A generous time limit.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection on which a test may send any bytes.
pub struct Raw(TcpStream);

#[derive(Clone, Debug)]
pub struct Answer {
    /// The status, or 0 if there was no response.
    pub status: u16,
    pub head: String,
    /// The whole body, as text.
    pub body: String,
}

impl Answer {
    /// The code of a problem, or an empty text.
    pub fn code(&self) -> String {
        let problem: Option<serde_json::Value> = serde_json::from_str(&self.body).ok();
        problem.and_then(|problem| Some(problem["code"].as_str()?.to_owned())).unwrap_or_default()
    }
}

impl Raw {
    pub fn open(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw(stream)
    }

    /// Sends as many bytes as the buffers of both sides take now; none if the other side has closed.
    pub fn offer(&mut self, bytes: &[u8]) -> Option<usize> {
        self.0.set_nonblocking(true).unwrap();
        let sent = self.0.write(bytes);
        self.0.set_nonblocking(false).unwrap();
        match sent {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Some(0),
            sent => sent.ok(),
        }
    }

    /// Sends bytes. The other side may have closed already: the response shows that.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) -> &mut Raw {
        let _ = self.0.write_all(bytes.as_ref());
        self
    }

    /// Closes the sending direction.
    pub fn close_writing(&mut self) -> &mut Raw {
        let _ = self.0.shutdown(Shutdown::Write);
        self
    }

    /// Exactly this many bytes; none if the other side closes before.
    ///
    /// # Panics
    /// They do not arrive within the time limit.
    pub fn next(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("{count} bytes did not come in {PATIENCE:?}")
            }
            Err(_) => None,
        }
    }

    /// Everything until the other side closes.
    ///
    /// # Panics
    /// The other side does not close within the time limit.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        match self.0.read_to_end(&mut all) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!(
                    "neither closed nor answered in {PATIENCE:?}; so far: {}",
                    String::from_utf8_lossy(&all)
                )
            }
            _ => all,
        }
    }

    /// The first response.
    pub fn answer(&mut self) -> Answer {
        let all = self.rest();
        let text = String::from_utf8_lossy(&all);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }
}
