//! A parser for server-sent events that accepts chunks of any size.

/// Maximum size of one event; a Jobhall server sends no larger ones.
const EVENT_BYTES: usize = 1 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The position in the stream to resume from.
    pub id: String,
    /// The name of the event; `message` if it has none.
    pub name: String,
    /// The data of the event.
    pub data: String,
}

/// Parses a stream of bytes into events. Comments (heartbeats) and unknown fields are skipped.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    after_return: bool,
    name: String,
    data: String,
    has_data: bool,
    /// It is applied only when its event is complete, so that a broken connection does not skip that event.
    id: Option<String>,
    last_id: String,
}

/// The event is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Parser {
    /// A parser that continues after this event.
    #[must_use]
    pub fn after(last_id: &str) -> Parser {
        Parser { last_id: last_id.to_owned(), ..Parser::default() }
    }

    /// The id of the last event with an id.
    #[must_use]
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// Adds bytes; returns the events that they complete.
    ///
    /// # Errors
    /// An event is larger than any that a Jobhall server sends.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            // A line ends with \n, \r or \r\n.
            let second_half = self.after_return && byte == b'\n';
            self.after_return = byte == b'\r';
            if second_half {
                continue;
            }
            if byte == b'\n' || byte == b'\r' {
                let line = std::mem::take(&mut self.line);
                events.extend(self.end_line(&String::from_utf8_lossy(&line)));
            } else {
                self.line.push(byte);
            }
            if self.line.len() + self.data.len() > EVENT_BYTES {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    fn end_line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.add_data(value),
            "event" => value.clone_into(&mut self.name),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            _ => {}
        }
        None
    }

    fn add_data(&mut self, value: &str) {
        if self.has_data {
            self.data.push('\n');
        }
        self.data.push_str(value);
        self.has_data = true;
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if let Some(id) = self.id.take() {
            self.last_id = id;
        }
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        let name = if name.is_empty() { "message".to_owned() } else { name };
        Some(Event { id: self.last_id.clone(), name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "\
: hello

id: 5
event: job
data: {\"id\":1,
data: \"state\":\"quéued\"}

retry: 100
data:bare
unknown: x

event: nothing

id
data

: beat
data: cut";

    fn event(id: &str, name: &str, data: &str) -> Event {
        Event { id: id.to_owned(), name: name.to_owned(), data: data.to_owned() }
    }

    fn expected() -> Vec<Event> {
        vec![
            event("5", "job", "{\"id\":1,\n\"state\":\"quéued\"}"),
            event("5", "message", "bare"),
            event("", "message", ""),
        ]
    }

    #[test]
    fn events_are_the_same_in_any_chunks_and_with_any_line_ends() {
        for end in ["\n", "\r\n", "\r"] {
            let bytes = STREAM.replace('\n', end).into_bytes();
            for size in [1, 2, 3, 7, bytes.len()] {
                let mut parser = Parser::default();
                let events: Vec<Event> =
                    bytes.chunks(size).flat_map(|chunk| parser.push(chunk).unwrap()).collect();
                assert_eq!(events, expected(), "line end {end:?}, chunks of {size}");
            }
        }
    }

    #[test]
    fn a_parser_goes_on_behind_an_event() {
        let mut parser = Parser::after("41");
        assert_eq!(parser.push(b"data: x\n\n").unwrap(), [event("41", "message", "x")]);
        assert_eq!(parser.push(b"id: 42\ndata: half").unwrap(), []);
        assert_eq!(parser.last_id(), "41", "the partial event is sent again");
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(&vec![b'x'; EVENT_BYTES + 1]), Err(TooLong));
    }
}
