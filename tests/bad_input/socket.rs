//! A WebSocket by hand: frames with any bits, valid or not, and the reactions of the server.

use jobhall_protocol::{Encoding, FrameWriter, ToServer};
use jobhall_tests::{Raw, Rig};
use serde_json::Value;

/// First bytes of frames.
pub const FINAL: u8 = 0x80;
pub const CONTINUED: u8 = 0x0;
pub const TEXT: u8 = 0x1;
pub const BINARY: u8 = 0x2;
pub const CLOSE: u8 = 0x8;
pub const PING: u8 = 0x9;
const PONG: u8 = 0xa;
/// The bit for masked bytes, which a client must set.
const MASKED: u8 = 0x80;
const MASK: [u8; 4] = [0x5a, 0xc3, 0x17, 0x9e];

/// A connection that has become a WebSocket.
pub struct Socket {
    raw: Raw,
    encoding: Encoding,
}

/// A frame with this first byte, correctly masked.
pub fn frame(first: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = head(first, bytes.len() as u64);
    frame.extend(bytes.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The beginning of a frame with this announced length.
pub fn head(first: u8, length: u64) -> Vec<u8> {
    let mut head = vec![first];
    match length {
        0..=125 => head.push(MASKED | u8::try_from(length).unwrap()),
        126..=0xffff => {
            head.push(MASKED | 126);
            head.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        _ => {
            head.push(MASKED | 127);
            head.extend(length.to_be_bytes());
        }
    }
    head.extend(MASK);
    head
}

/// A frame that is not masked.
pub fn bare(first: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![first, u8::try_from(bytes.len()).unwrap()];
    frame.extend(bytes);
    frame
}

impl Socket {
    /// Opens the socket of a session without sending a message.
    pub fn open(rig: &Rig, token: &str, encoding: Encoding) -> Socket {
        let mut raw = rig.raw();
        raw.say(format!(
            "GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {}\r\n\r\n",
            encoding.subprotocol()
        ));
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.extend(raw.next(1).expect("the head of an answer"));
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        Socket { raw, encoding }
    }

    /// Opens a session and receives the welcome.
    pub fn welcomed(rig: &Rig, token: &str, encoding: Encoding) -> Socket {
        let mut socket = Socket::open(rig, token, encoding);
        socket.speak(&[ToServer::Hello(jobhall_protocol::Hello::default())]);
        let (first, _) = socket.next().expect("a welcome");
        let expected = if encoding == Encoding::Json { TEXT } else { BINARY };
        assert_eq!(first, FINAL | expected);
        socket
    }

    /// Sends any bytes.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) -> &mut Socket {
        self.raw.say(bytes);
        self
    }

    /// Sends valid messages.
    pub fn speak(&mut self, messages: &[ToServer]) -> &mut Socket {
        let mut writer = FrameWriter::new(self.encoding);
        messages.iter().for_each(|message| assert!(writer.push(message).unwrap()));
        let first = FINAL | if self.encoding == Encoding::Json { TEXT } else { BINARY };
        let bytes = writer.take().unwrap();
        self.say(frame(first, &bytes))
    }

    /// The next frame of the server except ping and pong; none when the connection has ended.
    pub fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let [first, length] = self.raw.next(2)?.try_into().unwrap();
            let length = match length {
                126 => u64::from(u16::from_be_bytes(self.raw.next(2)?.try_into().unwrap())),
                127 => u64::from_be_bytes(self.raw.next(8)?.try_into().unwrap()),
                length => u64::from(length),
            };
            let bytes = self.raw.next(usize::try_from(length).unwrap())?;
            if ![FINAL | PING, FINAL | PONG].contains(&first) {
                return Some((first, bytes));
            }
        }
    }

    /// The next message of this kind in a JSON session.
    pub fn hear(&mut self, kind: &str) -> Value {
        loop {
            let (first, bytes) = self.next().unwrap_or_else(|| panic!("the end instead of {kind}"));
            assert_eq!(first, FINAL | TEXT, "{}", String::from_utf8_lossy(&bytes));
            let messages: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
            if let Some(found) = messages.iter().find_map(|message| message.get(kind)) {
                return found.clone();
            }
        }
    }

    /// Code and reason of the close frame; skips other frames. The close is answered, and then the server
    /// disconnects.
    pub fn closed(&mut self) -> (u16, String) {
        loop {
            let (first, bytes) = self.next().expect("a close before the end");
            if first == FINAL | CLOSE {
                self.say(frame(first, &bytes[..2]));
                assert_eq!(self.next(), None, "something came after the close");
                let (code, reason) = bytes.split_at(2);
                let code = u16::from_be_bytes(code.try_into().unwrap());
                return (code, String::from_utf8(reason.to_vec()).unwrap());
            }
        }
    }

    /// The connection ends, with or without a close frame.
    pub fn is_cut(&mut self) {
        while self.next().is_some() {}
    }
}
