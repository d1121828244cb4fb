//! The stream of events of a hall.

pub(crate) mod ends;
pub(crate) mod sse;

use std::collections::VecDeque;
use std::time::Duration;

use jobhall_protocol::Change;
use reqwest::{Method, Response, StatusCode};

use crate::error::ClientError;
use crate::http::backoff::Backoff;
use crate::http::call::{Call, Client};

use sse::{Event, Parser};

/// The server sends heartbeats more often; a stream without any data for this long is dead.
const SILENCE: Duration = Duration::from_secs(60);

/// A stream of events that continues after lost connections, from the last event received.
#[derive(Debug)]
pub struct Events {
    client: Client,
    job: Option<u64>,
    group: Option<u64>,
    parser: Parser,
    here: VecDeque<Event>,
    /// The job has ended, so the stream will end.
    over: bool,
    response: Option<Response>,
    patience: Backoff,
}

impl Events {
    /// The next event, or none at the end: the job has ended, or the server ended the stream.
    ///
    /// # Errors
    /// The server refused the stream, or was unreachable for too long.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.here.pop_front() {
                return Ok(Some(event));
            }
            match self.step().await {
                Ok(More::Opened) => {}
                Ok(More::Bytes) => self.patience.renew(),
                Ok(More::Never) => return Ok(None),
                Err(error) => self.pause(error).await?,
            }
        }
    }

    /// Opens the stream now: it returns all events from this point on.
    ///
    /// # Errors
    /// The server refused the stream, or was unreachable for too long.
    pub async fn open(&mut self) -> Result<(), ClientError> {
        // The first bytes give the position of the stream, so a break after them leaves no gap.
        while self.here.is_empty() && !self.over && self.parser.last_id().is_empty() {
            match self.step().await {
                Ok(More::Never) => self.over = true,
                Ok(More::Opened | More::Bytes) => {}
                Err(error) => self.pause(error).await?,
            }
        }
        Ok(())
    }

    /// Waits before the next try, if there is one.
    async fn pause(&mut self, error: ClientError) -> Result<(), ClientError> {
        if self.response.take().is_some() {
            self.client.go_on();
        }
        let pause = if error.is_transient() { self.patience.pause() } else { None };
        let Some(pause) = pause else { return Err(error) };
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// The id of the last event, to resume later.
    #[must_use]
    pub fn last_id(&self) -> &str {
        self.parser.last_id()
    }

    async fn step(&mut self) -> Result<More, ClientError> {
        let Some(response) = &mut self.response else { return self.connect().await };
        let chunk = tokio::time::timeout(SILENCE, self.client.chunk(response)).await;
        match chunk.unwrap_or_else(|_| Err(self.gone("no heartbeat")))? {
            None if self.over => Ok(More::Never),
            None => Err(self.gone("the stream ended")),
            Some(chunk) => {
                let events = self.parser.push(&chunk);
                let events = events.map_err(|_| ClientError::Protocol("an event is too long".to_owned()))?;
                self.over |= self.job.is_some() && events.iter().any(|event| ended(event).is_some());
                // A server announces that it stops; the stream continues at the next one.
                self.here.extend(events.into_iter().filter(|event| event.name != "closing"));
                Ok(More::Bytes)
            }
        }
    }

    async fn connect(&mut self) -> Result<More, ClientError> {
        // A partially received event is sent again as a whole.
        self.parser = Parser::after(self.parser.last_id());
        let response = self.client.send_once(&self.call()).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(More::Never);
        }
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if !kind.starts_with("text/event-stream") {
            return Err(ClientError::Protocol(format!("expected a stream of events, got {kind:?}")));
        }
        self.response = Some(response);
        Ok(More::Opened)
    }

    fn call(&self) -> Call {
        let call = match self.job {
            Some(job) => self.client.of_job(Method::GET, job, Some("events")),
            None => self.client.api(Method::GET, &["events"]),
        };
        let call = match self.group {
            Some(group) => call.query(&[("group", group.to_string())]),
            None => call,
        };
        let call = call.header("accept", "text/event-stream").within(None);
        match self.parser.last_id() {
            "" => call,
            id => call.header("last-event-id", id),
        }
    }

    fn gone(&self, why: &str) -> ClientError {
        ClientError::Unreachable { url: self.client.base_url().to_owned(), why: why.to_owned() }
    }
}

/// The job whose end this event reports.
pub(crate) fn ended(event: &Event) -> Option<u64> {
    if event.name != "job" {
        return None;
    }
    let change = serde_json::from_str::<Change>(&event.data).ok()?;
    is_end(&change.state).then_some(change.id)
}

/// Whether this state is final.
pub(crate) fn is_end(state: &str) -> bool {
    ["succeeded", "failed", "crashed", "cancelled"].contains(&state)
}

/// The result of a step. A stream that opens and never sends anything does not reset the backoff.
enum More {
    Opened,
    Bytes,
    Never,
}

impl Client {
    /// Events of the jobs of a group, after the event with this id if one is given.
    #[must_use]
    pub fn group_events(&self, group: u64, after: Option<&str>) -> Events {
        Events { group: Some(group), ..self.events(None, after) }
    }

    /// Events of the whole hall, or of one job, after the event with this id if one is given.
    #[must_use]
    pub fn events(&self, job: Option<u64>, after: Option<&str>) -> Events {
        Events {
            client: self.clone(),
            job,
            group: None,
            parser: Parser::after(after.unwrap_or("")),
            here: VecDeque::new(),
            over: false,
            response: None,
            patience: Backoff::of_a_stream(),
        }
    }
}
