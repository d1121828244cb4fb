//! A client with minimal cost: it writes prepared bytes and looks only for the end of the response. Both sides of a
//! comparison use it.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failed;
use crate::process::Server;

/// One persistent connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A prepared request.
#[must_use]
pub fn request(method: &str, path: &str, server: &Server, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        server.address,
        server.token,
        body.len()
    )
    .into_bytes()
}

impl Connection {
    pub async fn open(server: &Server) -> Result<Connection, Failed> {
        let stream = TcpStream::connect(&server.address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(8_192) })
    }

    pub async fn send(&mut self, request: &[u8]) -> Result<(), Failed> {
        Ok(self.stream.write_all(request).await?)
    }

    /// Waits for the response; returns its status and body.
    pub async fn answer(&mut self) -> Result<(u16, &[u8]), Failed> {
        self.buffer.clear();
        let mut whole = None;
        while whole.is_none_or(|(_, end)| self.buffer.len() < end) {
            self.more().await?;
            whole = match whole {
                None => bounds(&self.buffer)?,
                known => known,
            };
        }
        let (body, end) = whole.ok_or("an answer without an end")?;
        let status = std::str::from_utf8(&self.buffer[9..12])?.parse()?;
        Ok((status, &self.buffer[body..end]))
    }

    /// Sends a request and waits; a status other than success is an error.
    pub async fn ask(&mut self, request: &[u8]) -> Result<&[u8], Failed> {
        self.send(request).await?;
        let (status, body) = self.answer().await?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        Err(format!("{status}: {}", String::from_utf8_lossy(body)).into())
    }

    /// As [`Connection::ask`], parsed as JSON.
    pub async fn json(&mut self, request: &[u8]) -> Result<Value, Failed> {
        Ok(serde_json::from_slice(self.ask(request).await?)?)
    }

    /// Waits for the first line of a chunked body.
    pub async fn first_line(&mut self) -> Result<&[u8], Failed> {
        self.buffer.clear();
        // The first line of a chunk is its size.
        while lines(&self.buffer).count() < 3 {
            self.more().await?;
            if self.buffer.get(9..12).is_some_and(|status| status != b"200") {
                return Err(String::from_utf8_lossy(&self.buffer).into());
            }
        }
        lines(&self.buffer).nth(1).ok_or_else(|| "a body without a line".into())
    }

    /// Reads a chunked body to its end.
    pub async fn rest(&mut self) -> Result<(), Failed> {
        while !self.buffer.ends_with(b"0\r\n\r\n") {
            self.more().await?;
        }
        Ok(())
    }

    async fn more(&mut self) -> Result<(), Failed> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }

    /// How many of these requests are answered in this time, one after the other, beginning with this one.
    pub async fn repeat(
        &mut self,
        requests: &[Vec<u8>],
        first: usize,
        time: Duration,
    ) -> Result<u64, Failed> {
        let end = Instant::now() + time;
        let mut answers = 0;
        for request in requests.iter().cycle().skip(first) {
            if Instant::now() >= end {
                break;
            }
            self.ask(request).await?;
            answers += 1;
        }
        Ok(answers)
    }
}

/// The lines of the body that was received so far; the last one is not complete.
fn lines(buffer: &[u8]) -> impl Iterator<Item = &[u8]> {
    let head = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(buffer.len(), |head| head + 4);
    buffer[head..].split(|byte| *byte == b'\n')
}

/// The bounds of the body, once the head was received.
fn bounds(buffer: &[u8]) -> Result<Option<(usize, usize)>, Failed> {
    let Some(head) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&buffer[..head])?.to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
    Ok(Some((head + 4, head + 4 + length)))
}
