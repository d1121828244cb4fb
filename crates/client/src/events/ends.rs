//! Waits for jobs to end, by events instead of polling.

use std::collections::{BTreeSet, VecDeque};

use jobhall_protocol::Job;

use crate::error::ClientError;
use crate::events::{Events, ended, is_end};
use crate::http::backoff::Backoff;
use crate::http::call::Client;

/// Jobs in the order in which they end. It continues after lost connections and restarts of the server.
#[derive(Debug)]
pub struct Ends {
    client: Client,
    events: Events,
    pending: BTreeSet<u64>,
    /// Jobs that may have ended.
    look: VecDeque<u64>,
    opened: bool,
}

impl Ends {
    /// The next job that has ended, or none after the last.
    ///
    /// # Errors
    /// A job does not exist, or the server was unreachable for too long.
    pub async fn next(&mut self) -> Result<Option<Job>, ClientError> {
        if !self.opened {
            // The stream is opened before the first read, so no end is missed between them.
            self.events.open().await?;
            self.look.extend(&self.pending);
            self.opened = true;
        }
        while !self.pending.is_empty() {
            while let Some(id) = self.look.pop_front() {
                let job = self.job(id).await?;
                if is_end(&job.state) && self.pending.remove(&id) {
                    return Ok(Some(job));
                }
            }
            self.hear().await?;
        }
        Ok(None)
    }

    /// Jobs whose end has not been seen.
    #[must_use]
    pub fn pending(&self) -> &BTreeSet<u64> {
        &self.pending
    }

    async fn hear(&mut self) -> Result<(), ClientError> {
        match self.events.next().await? {
            Some(event) if event.name == "reset" => self.look.extend(&self.pending),
            Some(event) => self.look.extend(ended(&event).filter(|id| self.pending.contains(id))),
            None => {
                self.look.extend(&self.pending);
                self.events = stream(&self.client, &self.pending);
                self.events.open().await?;
            }
        }
        Ok(())
    }

    async fn job(&self, id: u64) -> Result<Job, ClientError> {
        let mut patience = Backoff::of_a_stream();
        loop {
            match self.client.job(id).await {
                Err(error) if error.is_transient() => match patience.pause() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(error),
                },
                answer => return answer,
            }
        }
    }
}

/// The stream of the only job, or of all jobs.
fn stream(client: &Client, ids: &BTreeSet<u64>) -> Events {
    let one = ids.first().copied().filter(|_| ids.len() == 1);
    client.events(one, None)
}

impl Client {
    /// Waits for the ends of these jobs.
    #[must_use]
    pub fn ends(&self, ids: impl IntoIterator<Item = u64>) -> Ends {
        let pending: BTreeSet<u64> = ids.into_iter().collect();
        let events = stream(self, &pending);
        Ends { client: self.clone(), events, pending, look: VecDeque::new(), opened: false }
    }
}
